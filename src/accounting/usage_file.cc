#include "src/accounting/usage_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace invoker {
namespace {

absl::Status FileError(absl::string_view what, const std::string& path) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", what, " the usage file ", path, ": ", strerror(errno)));
}

std::string ToLine(const std::string& tenant, uint32_t executors, const ResourceUsage& usage) {
  nlohmann::ordered_json line;
  line["ended"] = absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone());
  line["tenant"] = tenant;
  line["executors"] = executors;
  line["lease_us"] = absl::ToInt64Microseconds(usage.lease_time);
  line["cpu_us"] = absl::ToInt64Microseconds(usage.cpu_time);
  line["memory_byte_seconds"] = usage.memory_byte_seconds;
  line["calls"] = usage.calls;
  line["function_ns"] = absl::ToInt64Nanoseconds(usage.function_time);
  line["polling_ns"] = absl::ToInt64Nanoseconds(usage.polling_time);
  line["bytes_in"] = usage.bytes_in;
  line["bytes_out"] = usage.bytes_out;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// False if it is no such line.
bool FromLine(const std::string& text, std::string* tenant, ResourceUsage* usage) {
  const nlohmann::json line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!line.is_object() || !line.contains("tenant") || !line["tenant"].is_string()) return false;
  bool good = true;
  const auto number = [&](const char* name) {
    const auto found = line.find(name);
    if (found == line.end() || !found->is_number_unsigned()) {
      good = false;
      return uint64_t{0};
    }
    return found->get<uint64_t>();
  };
  // A time: a number that has no place in an int64_t would become a negative one.
  const auto time = [&](const char* name) {
    const uint64_t value = number(name);
    if (value > static_cast<uint64_t>(INT64_MAX)) good = false;
    return static_cast<int64_t>(value);
  };
  *tenant = line["tenant"].get<std::string>();
  usage->lease_time = absl::Microseconds(time("lease_us"));
  usage->cpu_time = absl::Microseconds(time("cpu_us"));
  usage->memory_byte_seconds = number("memory_byte_seconds");
  usage->calls = number("calls");
  usage->function_time = absl::Nanoseconds(time("function_ns"));
  usage->polling_time = absl::Nanoseconds(time("polling_ns"));
  usage->bytes_in = number("bytes_in");
  usage->bytes_out = number("bytes_out");
  return good;
}

absl::Status WriteWhole(int fd, absl::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError("write to", path);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<UsageFile>> UsageFile::Open(
    const std::string& path,
    const std::function<void(const std::string& tenant, const ResourceUsage&)>& on_line,
    const std::function<void(absl::string_view)>& on_bad_line) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return FileError("open", path);
  std::unique_ptr<UsageFile> file(new UsageFile(path, fd));
  std::ifstream lines(path);
  if (!lines) return FileError("read", path);
  std::string line;
  uint64_t number = 0;
  bool ended = true;
  while (std::getline(lines, line)) {
    ++number;
    ended = !lines.eof();
    // The end of one that was cut off.
    if (line.empty()) continue;
    std::string tenant;
    ResourceUsage usage;
    if (FromLine(line, &tenant, &usage)) {
      on_line(tenant, usage);
    } else {
      on_bad_line(absl::StrCat("line ", number, " of the usage file ", path,
                               " says nothing and is not counted",
                               ended ? "" : ": it was cut off"));
    }
  }
  if (!ended) {
    if (absl::Status status = WriteWhole(fd, "\n", path); !status.ok()) return status;
  }
  return file;
}

UsageFile::~UsageFile() { close(fd_); }

absl::Status UsageFile::Append(const std::string& tenant, uint32_t executors,
                               const ResourceUsage& usage) {
  const std::string line = ToLine(tenant, executors, usage);
  absl::MutexLock lock(&mutex_);
  // What could be written of a line may stand there without its end.
  const absl::Status status = WriteWhole(fd_, torn_ ? absl::StrCat("\n", line) : line, path_);
  torn_ = !status.ok();
  if (!status.ok()) return status;
  return fdatasync(fd_) == 0 ? absl::OkStatus() : FileError("write to", path_);
}

}  // namespace invoker
