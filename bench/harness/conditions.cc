// GatherConditions: what a figure cannot be read without. Names no host and no path.

#include <rdma/fabric.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "bench/harness/options.h"

namespace invoker::bench {
namespace {

constexpr char kUnknown[] = "unknown";

// The value of "name : value" in /proc/cpuinfo, for the first core.
std::string CpuInfo(absl::string_view name) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::StripAsciiWhitespace(parts.first) == name) {
      return std::string(absl::StripAsciiWhitespace(parts.second));
    }
  }
  return kUnknown;
}

std::string FirstLineOf(const char* path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) && !line.empty() ? line : kUnknown;
}

std::string Machine() {
  for (absl::string_view flag : absl::StrSplit(CpuInfo("flags"), ' ')) {
    if (flag == "hypervisor") return "virtual (the processor has the hypervisor flag)";
  }
  return "no hypervisor flag";
}

// The release and the version of the interface.
std::string Libfabric() {
  const uint32_t version = fi_version();
  const char* release = fi_tostr(&version, FI_TYPE_VERSION);
  return absl::StrFormat("%s, interface %d.%d", release == nullptr ? kUnknown : release,
                         FI_MAJOR(version), FI_MINOR(version));
}

std::string Build() {
#ifdef __clang__
  const std::string compiler = absl::StrCat("clang ", __clang_version__);
#else
  const std::string compiler = absl::StrCat("g++ ", __VERSION__);
#endif
#ifdef __OPTIMIZE__
  std::string build = absl::StrCat(compiler, ", optimised, ", INVOKER_BENCH_OPTIMISATION);
#else
  std::string build = absl::StrCat(compiler, ", NOT OPTIMISED, ", INVOKER_BENCH_OPTIMISATION);
#endif
#ifndef NDEBUG
  absl::StrAppend(&build, ", with assertions");
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  absl::StrAppend(&build, ", WITH A SANITIZER");
#endif
  return build;
}

}  // namespace

void GatherConditions(const CommonOptions& options, Report* report) {
  utsname system;
  const bool known = uname(&system) == 0;
  // Three averages, then what is not one.
  const std::vector<std::string> load = absl::StrSplit(FirstLineOf("/proc/loadavg"), ' ');
  report->Condition("cpu", CpuInfo("model name"));
  report->Condition("machine", Machine());
  report->Condition("cores_online", absl::StrCat(sysconf(_SC_NPROCESSORS_ONLN)));
  report->Condition("kernel", known ? absl::StrCat(system.sysname, " ", system.release) : kUnknown);
  report->Condition(
      "clock_source",
      FirstLineOf("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
  report->Condition("libfabric", Libfabric());
  report->Condition("build", Build());
  report->Condition("load_before", load.size() < 3
                                       ? kUnknown
                                       : absl::StrJoin(load.begin(), load.begin() + 3, " "));
  report->Condition("providers", absl::StrJoin(options.providers, ", "));
  report->Condition("fabric_address", options.address);
  report->Condition("client_core", absl::StrCat(options.client_core));
  report->Condition("server_core", absl::StrCat(options.server_core));
  report->Condition("rounds", absl::StrCat(options.rounds));
  report->Condition("quick", options.quick ? "yes" : "no");
}

}  // namespace invoker::bench
