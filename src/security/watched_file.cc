#include "src/security/watched_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace invoker::security {
namespace {

class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      // What is no file would otherwise be waited for.
      : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

absl::Status CannotRead(const std::string& what, const std::string& path, int error) {
  const std::string message =
      absl::StrCat("cannot read ", what, " ", path, ": ", std::generic_category().message(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(message);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EIO:
    case EAGAIN:
      return absl::UnavailableError(message);
    default:
      return absl::FailedPreconditionError(message);
  }
}

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

absl::Status CheckSecrecy(const std::string& what, const std::string& path, mode_t mode) {
  if ((mode & (S_IROTH | S_IWOTH | S_IWGRP)) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s %s has mode %04o, so that others can read or change it, and is not used; do `chmod 600 "
      "%s`, and take it for known to others if it has been so for long",
      what, path, mode & 07777, path));
}

}  // namespace

FileStamp StampOf(const std::string& path) {
  struct stat found;
  if (stat(path.c_str(), &found) != 0) return {};
  return {true,
          found.st_dev,
          found.st_ino,
          found.st_size,
          Nanoseconds(found.st_mtim),
          Nanoseconds(found.st_ctim)};
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& what, const std::string& path,
                                          Secrecy secrecy) {
  const OpenFile file(path);
  struct stat found;
  if (file.fd() < 0 || fstat(file.fd(), &found) != 0) return CannotRead(what, path, errno);
  if (!S_ISREG(found.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot read ", what, " ", path, ": it is not a regular file"));
  }
  if (secrecy == Secrecy::kSecret) {
    if (absl::Status status = CheckSecrecy(what, path, found.st_mode); !status.ok()) return status;
  }
  std::string bytes;
  char piece[16 << 10];
  while (true) {
    const ssize_t got = read(file.fd(), piece, sizeof(piece));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CannotRead(what, path, errno);
    if (got == 0) return bytes;
    bytes.append(piece, static_cast<size_t>(got));
    if (bytes.size() > kMaxFileBytes) {
      return absl::FailedPreconditionError(absl::StrCat(what, " ", path, " is larger than ",
                                                        kMaxFileBytes,
                                                        " bytes: it cannot be what it "
                                                        "should be"));
    }
  }
}

}  // namespace invoker::security
