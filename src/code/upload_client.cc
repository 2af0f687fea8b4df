#include "src/code/upload_client.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/base/sha256.h"

namespace invoker {
namespace {

// The worker may evict the file between its upload and its loading, if others upload much just
// then.
constexpr int kMostUploads = 2;

// Between two attempts where there is no room just now; twice as long each time.
constexpr absl::Duration kFirstPause = absl::Milliseconds(10);
constexpr absl::Duration kLongestPause = absl::Milliseconds(500);

absl::Status FileError(const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot read \"", path, "\": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
  return absl::InvalidArgumentError(message);
}

}  // namespace

absl::StatusOr<std::vector<bootstrap::FunctionInfo>> UploadAndLoad(
    bootstrap::BootstrapClient* client, uint64_t lease, absl::string_view code, CodeKind kind,
    absl::string_view name, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  absl::StatusOr<Sha256Digest> digest = HashOf(code);
  if (!digest.ok()) return digest.status();
  const std::string sha256 = digest->ToBytes();
  absl::InsecureBitGen random;
  absl::Duration longest_pause = kFirstPause;
  int uploads = 0;
  absl::Status no_room;
  // What the time was waited away for, if it was.
  const auto late = [&no_room](const absl::Status& status) {
    const bool waited = absl::IsDeadlineExceeded(status) && !no_room.ok();
    return waited ? absl::ResourceExhaustedError(no_room.message()) : status;
  };
  for (;;) {
    absl::StatusOr<std::vector<bootstrap::FunctionInfo>> functions =
        client->Load(lease, sha256, kind, name, deadline - absl::Now());
    if (functions.ok()) return functions;
    if (!absl::IsNotFound(functions.status()) || uploads == kMostUploads) {
      return late(functions.status());
    }
    const absl::Status uploaded =
        client->Upload(lease, sha256, code, deadline - absl::Now()).status();
    if (uploaded.ok()) {
      ++uploads;
      no_room = absl::OkStatus();
      continue;
    }
    if (!absl::IsAborted(uploaded)) return late(uploaded);
    no_room = uploaded;
    // The room that others take, who may well bring the same file.
    const absl::Duration pause = absl::Uniform(random, 0.5, 1.0) * longest_pause;
    if (absl::Now() + pause > deadline) return absl::ResourceExhaustedError(no_room.message());
    absl::SleepFor(pause);
    longest_pause = std::min(2 * longest_pause, kLongestPause);
  }
}

absl::StatusOr<std::string> ReadCode(const std::string& path) {
  // Without waiting for somebody to write to a pipe.
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return FileError(path, errno);
  const absl::Cleanup close_file = [file] { close(file); };
  struct stat info;
  if (fstat(file, &info) != 0) return FileError(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", path, "\" is not a regular file"));
  }
  std::string code(static_cast<size_t>(info.st_size), '\0');
  size_t size = 0;
  while (size < code.size()) {
    const ssize_t got = read(file, &code[size], code.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path, errno);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  code.resize(size);
  if (code.empty()) return absl::InvalidArgumentError(absl::StrCat("\"", path, "\" is empty"));
  return code;
}

}  // namespace invoker
