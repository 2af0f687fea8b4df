#include "tools/files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace invoker::tools {
namespace {

constexpr size_t kReadBytes = 1 << 20;

absl::Status ErrnoStatus(absl::string_view what, absl::string_view name) {
  const int error = errno;
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", name));
}

std::string Name(const std::string& path) { return absl::StrCat("\"", path, "\""); }

// Reads to the end, into a string that grows with what really comes.
absl::StatusOr<std::string> ReadAll(int fd, const std::string& name, uint64_t limit) {
  std::string data;
  size_t size = 0;
  while (true) {
    if (data.size() - size < kReadBytes) data.resize(std::max(2 * data.size(), kReadBytes));
    const ssize_t got = read(fd, data.data() + size, data.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus("read", name);
    if (got == 0) break;
    size += static_cast<size_t>(got);
    if (size > limit) {
      return absl::ResourceExhaustedError(absl::StrCat(
          name, " has more than ", limit, " bytes, which is more than any request can have"));
    }
  }
  data.resize(size);
  return data;
}

// The file itself, if `path` is a symbolic link to one: the link stays.
std::string Resolve(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  std::string result = real;
  free(real);
  return result;
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// True if something other than a regular file is there.
bool IsSpecial(const std::string& path) {
  struct stat there;
  return stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode);
}

absl::Status WriteToSpecial(const std::string& path, absl::string_view data) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus("write", Name(path));
  absl::Status status = WriteAll(fd, Name(path), data);
  if (close(fd) != 0) status.Update(ErrnoStatus("write", Name(path)));
  return status;
}

}  // namespace

absl::StatusOr<std::string> ReadInput(const std::string& path, uint64_t limit) {
  if (path == "-") return ReadAll(STDIN_FILENO, "standard input", limit);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus("open", Name(path));
  absl::StatusOr<std::string> data = ReadAll(fd, Name(path), limit);
  close(fd);
  return data;
}

absl::Status CheckOutput(const std::string& path) {
  if (path == "-") return absl::OkStatus();
  if (path.empty()) return absl::InvalidArgumentError("the output file's name is empty");
  const std::string real = Resolve(path);
  struct stat there;
  if (stat(real.c_str(), &there) == 0 && S_ISDIR(there.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write ", Name(path), ": it is a directory"));
  }
  const std::string needed = IsSpecial(real) ? real : DirectoryOf(real);
  if (access(needed.c_str(), W_OK) != 0) return ErrnoStatus("write", Name(path));
  return absl::OkStatus();
}

absl::Status WriteOutput(const std::string& path, absl::string_view data) {
  if (path == "-") return WriteAll(STDOUT_FILENO, "standard output", data);
  const std::string real = Resolve(path);
  if (IsSpecial(real)) return WriteToSpecial(real, data);
  std::string temporary = absl::StrCat(real, ".XXXXXX");
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return ErrnoStatus("write", Name(path));
  auto remove = absl::MakeCleanup([&temporary] { unlink(temporary.c_str()); });
  // The mode of a file that is created in the usual way; a file that is replaced keeps its own
  // mode.
  struct stat there;
  const mode_t mask = umask(0);
  umask(mask);
  const mode_t mode = stat(real.c_str(), &there) == 0 ? there.st_mode & 07777 : 0666 & ~mask;
  absl::Status status = WriteAll(fd, Name(path), data);
  if (fchmod(fd, mode) != 0) status.Update(ErrnoStatus("set the mode of", Name(path)));
  if (close(fd) != 0) status.Update(ErrnoStatus("write", Name(path)));
  if (!status.ok()) return status;
  if (rename(temporary.c_str(), real.c_str()) != 0) return ErrnoStatus("write", Name(path));
  std::move(remove).Cancel();
  return absl::OkStatus();
}

absl::Status WriteAll(int fd, absl::string_view name, absl::string_view data) {
  while (!data.empty()) {
    const ssize_t written = write(fd, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus("write to", name);
    data.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace invoker::tools
