#include "src/transport/peer_leftover.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace invoker::transport {
namespace {

constexpr absl::string_view kPlace = "/dev/shm/";
constexpr absl::string_view kAfterScheme = "://";

// What stands behind the scheme; nothing if there is none.
absl::string_view NameIn(absl::string_view address) {
  address = address.substr(0, address.find('\0'));
  const size_t scheme = address.find(kAfterScheme);
  if (scheme == absl::string_view::npos) return {};
  return address.substr(scheme + kAfterScheme.size());
}

// The first of the three numbers of "PID:UID:COUNT"; 0 if it is something else.
pid_t OwnerOf(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, ':');
  if (parts.size() != 3) return 0;
  for (const absl::string_view part : parts) {
    // As it is written by who makes such names: no sign, no space, no zero before it.
    uint32_t number = 0;
    if (!absl::SimpleAtoi(part, &number) || absl::StrCat(number) != part) return 0;
  }
  pid_t pid = 0;
  return absl::SimpleAtoi(parts[0], &pid) ? pid : 0;
}

// All of what `pid` has mapped, as the system writes it. Nothing if it has ended: one that is about
// to end has given up its memory before its connections. False if it is not known.
bool ReadMaps(pid_t pid, std::string* maps) {
  // It may be waited for at any time, and is not known to the system from then on.
  const auto is_gone = [] { return errno == ENOENT || errno == ESRCH; };
  const int fd = open(absl::StrCat("/proc/", pid, "/maps").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return is_gone();
  char part[4096];
  ssize_t size;
  while ((size = read(fd, part, sizeof(part))) > 0 || (size < 0 && errno == EINTR)) {
    if (size > 0) maps->append(part, static_cast<size_t>(size));
  }
  const bool gone = size < 0 && is_gone();
  if (gone) maps->clear();
  close(fd);
  return gone || size == 0;
}

bool IsMapped(absl::string_view maps, const std::string& path) {
  return absl::StrContains(maps, absl::StrCat(" ", path, "\n"));
}

std::vector<std::string> FilesOf(pid_t pid) {
  std::vector<std::string> paths;
  DIR* const directory = opendir(std::string(kPlace).c_str());
  if (directory == nullptr) return paths;
  while (const dirent* entry = readdir(directory)) {
    if (OwnerOf(entry->d_name) != pid) continue;
    std::string path = absl::StrCat(kPlace, entry->d_name);
    struct stat info;
    if (lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid()) {
      paths.push_back(std::move(path));
    }
  }
  closedir(directory);
  return paths;
}

}  // namespace

pid_t ProcessOf(absl::string_view address) { return OwnerOf(NameIn(address)); }

void RemoveFileOf(absl::string_view address) {
  const absl::string_view name = NameIn(address);
  if (OwnerOf(name) == getpid()) unlink(absl::StrCat(kPlace, name).c_str());
}

void RemoveLeftovers(pid_t pid) {
  if (pid <= 0) return;
  const std::vector<std::string> paths = FilesOf(pid);
  if (paths.empty()) return;
  std::string maps;
  if (!ReadMaps(pid, &maps)) return;
  for (const std::string& path : paths) {
    if (!IsMapped(maps, path)) unlink(path.c_str());
  }
}

}  // namespace invoker::transport
