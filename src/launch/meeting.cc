#include "src/launch/meeting.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "src/base/unique_fd.h"

namespace invoker::launch {
namespace {

constexpr size_t kMostBytes = 64 << 10;

absl::Status Failure(absl::string_view what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat(what, " ", path, ": ", strerror(errno)));
}

// True if `json` has all that a meeting has.
bool Take(const nlohmann::json& json, Meeting* meeting) {
  const auto take = [&json](const char* name, std::string* text) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_string()) return false;
    *text = found->get<std::string>();
    return true;
  };
  std::string first;
  if (!json.is_object() || !take("cluster", &meeting->cluster) || !take("first", &first) ||
      !take("certificate", &meeting->certificate) || !take("key", &meeting->key)) {
    return false;
  }
  absl::StatusOr<bootstrap::HostPort> address = bootstrap::ParseHostPort(first);
  if (address.ok()) meeting->first = *std::move(address);
  return !meeting->first.host.empty();
}

}  // namespace

std::string MeetingPath(const std::string& folder, absl::string_view step) {
  return absl::StrCat(folder, "/.invoker-job-", step);
}

absl::Status WriteMeeting(const std::string& path, const Meeting& meeting) {
  const std::string text = nlohmann::json{
      {"cluster", meeting.cluster},
      {"first", bootstrap::FormatHostPort(meeting.first)},
      {"certificate", meeting.certificate},
      {"key", meeting.key}}.dump();
  const std::string draft = absl::StrCat(path, ".new");
  unlink(draft.c_str());
  const UniqueFd file(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return Failure("cannot make", draft);
  const bool written =
      write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      fsync(file.get()) == 0 && rename(draft.c_str(), path.c_str()) == 0;
  return written ? absl::OkStatus() : Failure("cannot write", path);
}

absl::StatusOr<Meeting> ReadMeeting(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid()) {
    return errno == ENOENT ? absl::NotFoundError(absl::StrCat("there is no file ", path))
                           : Failure("cannot open", path);
  }
  struct stat about;
  if (fstat(file.get(), &about) != 0) return Failure("cannot look at", path);
  if (about.st_uid != geteuid() || (about.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " is not of this user alone: others could have written it"));
  }
  std::string text(kMostBytes, '\0');
  const ssize_t size = read(file.get(), text.data(), text.size());
  if (size < 0) return Failure("cannot read", path);
  text.resize(static_cast<size_t>(size));
  Meeting meeting;
  if (!Take(nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false), &meeting)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " does not say where a job's tasks meet"));
  }
  return meeting;
}

}  // namespace invoker::launch
