// Text that people, files and peers give: addresses of servers, and the lines of a usage file,
// which are read at a server's start, whatever they say.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "src/accounting/usage_file.h"
#include "src/bootstrap/messages/host_port.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/input.h"

namespace invoker::fuzz {
namespace {

void CheckHostPort(absl::string_view text) {
  const auto parsed = bootstrap::ParseHostPort(text);
  if (!parsed.ok()) {
    FUZZ_CHECK(!parsed.status().message().empty());
    return;
  }
  FUZZ_CHECK(!parsed->host.empty());
  const auto again = bootstrap::ParseHostPort(bootstrap::FormatHostPort(*parsed));
  FUZZ_CHECK(again.ok() && again->host == parsed->host && again->port == parsed->port);
}

void CheckUsageFile(absl::string_view text) {
  static const int fd = memfd_create("usage", MFD_CLOEXEC);
  static const auto* const path = new std::string(absl::StrCat("/proc/self/fd/", fd));
  FUZZ_CHECK(ftruncate(fd, 0) == 0);
  FUZZ_CHECK(pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  size_t good = 0;
  size_t bad = 0;
  std::string last_tenant;
  ResourceUsage last;
  const auto on_line = [&](const std::string& tenant, const ResourceUsage& usage) {
    ++good;
    last_tenant = tenant;
    last = usage;
    FUZZ_CHECK(usage.lease_time >= absl::ZeroDuration());
    FUZZ_CHECK(usage.cpu_time >= absl::ZeroDuration());
    FUZZ_CHECK(usage.function_time >= absl::ZeroDuration());
  };
  const auto on_bad_line = [&](absl::string_view why) {
    ++bad;
    FUZZ_CHECK(!why.empty());
  };
  {
    auto file = UsageFile::Open(*path, on_line, on_bad_line);
    if (!file.ok()) return;
    // What is appended is read again, whatever came before it.
    if (good == 0) return;
    FUZZ_CHECK((*file)->Append(last_tenant, 1, last).ok());
  }
  const size_t before = good;
  const std::string tenant = last_tenant;
  good = 0;
  auto file = UsageFile::Open(*path, on_line, on_bad_line);
  FUZZ_CHECK(file.ok());
  FUZZ_CHECK(good == before + 1 && last_tenant == tenant);
}

}  // namespace
}  // namespace invoker::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace invoker::fuzz;
  Input input(data, size);
  if (input.TakeBool()) {
    CheckHostPort(input.Rest());
  } else {
    CheckUsageFile(input.Rest());
  }
  return 0;
}
