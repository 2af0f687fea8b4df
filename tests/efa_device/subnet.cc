#include "tests/efa_device/subnet.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace efa_device {
namespace {

// Holds the directory's lock: over all processes, while numbers are given and files removed.
class DirectoryLock {
 public:
  explicit DirectoryLock(int fd) : fd_(fd) {
    while (flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~DirectoryLock() { flock(fd_, LOCK_UN); }

 private:
  const int fd_;
};

// The address of a file below a directory. Through /proc, because a socket's path is short; the
// plain path where /proc is missing.
bool AddressOf(int directory, const std::string& path, const std::string& name,
               sockaddr_un* address) {
  std::string file = "/proc/self/fd/" + std::to_string(directory) + "/" + name;
  if (access("/proc/self/fd", F_OK) != 0) file = path + "/" + name;
  *address = {};
  address->sun_family = AF_UNIX;
  if (file.size() >= sizeof(address->sun_path)) return false;
  memcpy(address->sun_path, file.c_str(), file.size());
  return true;
}

std::vector<std::string> EntriesOf(int directory, const std::string& name) {
  std::vector<std::string> entries;
  const int fd = openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = fd < 0 ? nullptr : fdopendir(fd);
  if (stream == nullptr) {
    if (fd >= 0) close(fd);
    return entries;
  }
  while (const dirent* entry = readdir(stream)) {
    if (entry->d_name[0] != '.') entries.push_back(entry->d_name);
  }
  closedir(stream);
  return entries;
}

}  // namespace

std::unique_ptr<Subnet> Subnet::Open(const std::string& path) {
  const int directory = open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return nullptr;
  const int lock = openat(directory, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock < 0) {
    const int error = errno;
    close(directory);
    errno = error;
    return nullptr;
  }
  return std::unique_ptr<Subnet>(new Subnet(path, directory, lock));
}

Subnet::~Subnet() {
  close(lock_);
  close(directory_);
}

void Subnet::Reopen() {
  close(lock_);
  lock_ = openat(directory_, "lock", O_RDWR | O_CLOEXEC);
}

int Subnet::NewSocket(int flags) {
  return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
}

std::string Subnet::FileName(const Gid& gid, uint32_t qpn) const {
  return ToHex(gid) + "/" + std::to_string(qpn);
}

int Subnet::Listen(const Gid& gid, uint32_t limit, uint32_t* qpn) {
  if (mkdirat(directory_, ToHex(gid).c_str(), 0777) != 0 && errno != EEXIST) return -errno;
  const int listener = NewSocket(0);
  if (listener < 0) return -errno;
  DirectoryLock guard(lock_);
  uint32_t last = 0;
  if (pread(lock_, &last, sizeof(last), 0) != sizeof(last)) last = 0;
  int error = ENOSPC;
  for (uint32_t tried = 0; tried < limit; ++tried) {
    last = last % limit + 1;
    sockaddr_un address;
    if (!AddressOf(directory_, path_, FileName(gid, last), &address)) {
      error = ENAMETOOLONG;
      break;
    }
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      error = errno;
      if (error == EADDRINUSE) continue;
      break;
    }
    // A killed process leaves connections that nobody accepts; this is room for many.
    if (listen(listener, 4096) != 0 || pwrite(lock_, &last, sizeof(last), 0) != sizeof(last)) {
      error = errno;
      unlinkat(directory_, FileName(gid, last).c_str(), 0);
      break;
    }
    *qpn = last;
    return listener;
  }
  close(listener);
  return error == EADDRINUSE ? -ENOSPC : -error;
}

void Subnet::Remove(const Gid& gid, uint32_t qpn) {
  unlinkat(directory_, FileName(gid, qpn).c_str(), 0);
}

int Subnet::ConnectTo(int socket, const std::string& name) const {
  sockaddr_un address;
  if (!AddressOf(directory_, path_, name, &address)) return -ENAMETOOLONG;
  while (connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno != EINTR) return -errno;
  }
  return 0;
}

int Subnet::Connect(const Gid& gid, uint32_t qpn) {
  struct stat host;
  if (fstatat(directory_, ToHex(gid).c_str(), &host, 0) != 0) return -ENETUNREACH;
  const int fd = NewSocket(0);
  if (fd < 0) return -errno;
  // A peer that is stopped accepts nobody.
  const timeval patience = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  int error = ConnectTo(fd, FileName(gid, qpn));
  if (error == -ENOENT) error = -ECONNREFUSED;
  if (error == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) != 0) error = -errno;
  if (error == 0) return fd;
  close(fd);
  return error;
}

void Subnet::RemoveStale() {
  // Under the lock, no live queue pair has a file at which it does not listen yet.
  DirectoryLock guard(lock_);
  for (const std::string& host : EntriesOf(directory_, ".")) {
    for (const std::string& qpn : EntriesOf(directory_, host)) {
      struct stat file;
      const std::string name = host + "/" + qpn;
      if (fstatat(directory_, name.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0) continue;
      if (!S_ISSOCK(file.st_mode)) continue;
      const int fd = NewSocket(SOCK_NONBLOCK);
      if (fd < 0) return;
      if (ConnectTo(fd, name) == -ECONNREFUSED) unlinkat(directory_, name.c_str(), 0);
      close(fd);
    }
  }
}

}  // namespace efa_device
