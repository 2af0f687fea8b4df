#include "tools/doctor/machine.h"

#include <sys/timex.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/own_control_group.h"
#include "src/isolation/limits/control_group_place.h"

namespace invoker::tools {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string ReadWord(const std::string& path) {
  return std::string(absl::StripAsciiWhitespace(ReadAll(path)));
}

bool IsIn(absl::string_view folder, const char* variable) {
  const char* value = getenv(variable);
  if (value == nullptr) return false;
  for (const absl::string_view each : absl::StrSplit(value, ':')) {
    if (!each.empty() && absl::StripSuffix(each, "/") == folder) return true;
  }
  return false;
}

// `chosen`: by a wheel's library.
std::string ReasonFor(absl::string_view path, bool chosen) {
  const char* given = getenv("INVOKER_LIBFABRIC");
  if (chosen && given != nullptr && *given != '\0') {
    return absl::StrCat("INVOKER_LIBFABRIC is ", given);
  }
  if (absl::StrContains(path, "libfabric-bundled")) {
    return "the wheel's own: this machine has no newer one";
  }
  if (chosen) return "newer than the wheel's own";
  if (IsIn(path.substr(0, path.rfind('/')), "LD_LIBRARY_PATH")) return "LD_LIBRARY_PATH names it";
  return "found where this machine keeps its libraries";
}

}  // namespace

Finding ExamineLibfabric(const std::string& maps, const std::string& version) {
  std::set<std::string> paths;
  for (const absl::string_view line : absl::StrSplit(maps, '\n')) {
    const size_t at = line.find('/');
    if (at == absl::string_view::npos) continue;
    const absl::string_view path = line.substr(at);
    const absl::string_view name = path.substr(path.rfind('/') + 1);
    if (absl::StartsWith(name, "libfabric.so") || absl::StartsWith(name, "libfabric-bundled")) {
      paths.insert(std::string(path));
    }
  }
  if (paths.empty()) {
    return {FindingKind::kProblem, "libfabric", "none is loaded, so there are no fabrics",
            "install libfabric1, or name another one in INVOKER_LIBFABRIC (in the wheel)"};
  }
  const bool chosen = absl::StrContains(maps, "/libfabric-choice-");
  std::vector<std::string> found;
  for (const std::string& path : paths)
    found.push_back(absl::StrCat(path, " (", ReasonFor(path, chosen), ")"));
  return {FindingKind::kOk, "libfabric",
          absl::StrCat(version, " from ", absl::StrJoin(found, ", "))};
}

Finding ExamineLockedMemory(std::optional<uint64_t> limit, bool has_devices) {
  if (!limit.has_value()) return {FindingKind::kOk, "memlock", "no limit"};
  const std::string text = absl::StrCat("this process may lock ", *limit, " bytes");
  if (*limit >= kLittleLockedMemory) return {FindingKind::kOk, "memlock", text};
  if (!has_devices) {
    return {FindingKind::kOk, "memlock", absl::StrCat(text, ", and no device here pins memory")};
  }
  return {
      FindingKind::kProblem, "memlock", absl::StrCat(text, ", and RDMA devices need more"),
      "ulimit -l unlimited, in /etc/security/limits.conf too; LimitMEMLOCK=infinity for a service"};
}

Finding ExamineHugePages(const std::string& root) {
  const std::string memory = ReadAll(root + "/proc/meminfo");
  uint64_t total = 0;
  for (const absl::string_view line : absl::StrSplit(memory, '\n')) {
    if (absl::StartsWith(line, "HugePages_Total:")) total = CountIn(line, "HugePages_Total:");
  }
  std::string transparent = ReadWord(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  const size_t begin = transparent.find('[');
  const size_t end = transparent.find(']');
  transparent = begin == std::string::npos || end == std::string::npos
                    ? "not there"
                    : transparent.substr(begin + 1, end - begin - 1);
  const std::string text = absl::StrCat("reserved: ", total, "; transparent: ", transparent);
  if (transparent != "never" && transparent != "not there") {
    return {FindingKind::kOk, "huge pages", text};
  }
  return {FindingKind::kNote, "huge pages",
          absl::StrCat(text, "; large windows cost more to register"),
          "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled"};
}

Finding ExamineControlGroups(const std::string& root) {
  const std::string without = "; limits of leased executors are then those of single processes";
  const std::string help =
      "Delegate=yes in the service's unit, or start the server as root with cgroups version 2";
  const absl::StatusOr<std::string> group =
      FindOwnGroup(ReadAll(root + "/proc/self/cgroup"), ReadAll(root + "/proc/self/mountinfo"));
  if (!group.ok()) {
    return {FindingKind::kNote, "cgroups", absl::StrCat(group.status().message(), without), help};
  }
  std::vector<std::string> missing;
  const std::string controllers = ReadWord(root + *group + "/cgroup.controllers");
  for (const char* each : {"memory", "pids"}) {
    if (!HasWord(controllers, each)) missing.push_back(each);
  }
  if (access((root + *group).c_str(), W_OK) != 0) {
    return {FindingKind::kNote, "cgroups", absl::StrCat(*group, " is not ours to write", without),
            help};
  }
  if (!missing.empty()) {
    return {FindingKind::kNote, "cgroups",
            absl::StrCat(*group, " has no controller ", absl::StrJoin(missing, ", "), without),
            help};
  }
  return {FindingKind::kOk, "cgroups", absl::StrCat(*group, ", with limits for leased executors")};
}

std::vector<Finding> ExamineClock(const std::string& root) {
  std::vector<Finding> findings;
  const std::string source =
      ReadWord(root + "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  const bool fast = source == "tsc" || source == "kvm-clock" ||
                    source == "hyperv_clocksource_tsc_page" || source == "arch_sys_counter";
  if (fast) {
    findings.push_back({FindingKind::kOk, "clock", absl::StrCat("source ", source)});
  } else {
    findings.push_back(
        {FindingKind::kNote, "clock",
         absl::StrCat("source ", source.empty() ? "unknown" : source,
                      ": each look at the clock may be a system call, and polling looks often"),
         "boot with clocksource=tsc if the processor's counter is reliable"});
  }
  timex state = {};
  const bool synchronised = adjtimex(&state) != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
  if (synchronised) {
    findings.push_back({FindingKind::kOk, "date", "kept by a time service"});
  } else {
    findings.push_back(
        {FindingKind::kNote, "date",
         "no time service keeps it (as far as the kernel knows), and certificates depend on it",
         "timedatectl set-ntp true, or chrony"});
  }
  return findings;
}

Finding ExaminePorts(const std::string& root) {
  const std::vector<std::string> range =
      absl::StrSplit(ReadWord(root + "/proc/sys/net/ipv4/ip_local_port_range"),
                     absl::ByAnyChar(" \t"), absl::SkipEmpty());
  const char* low = getenv("FI_TCP_PORT_LOW_RANGE");
  const char* high = getenv("FI_TCP_PORT_HIGH_RANGE");
  std::string ports = range.size() == 2 ? absl::StrCat(range[0], " to ", range[1]) : "any";
  if (low != nullptr && high != nullptr) {
    ports = absl::StrCat(low, " to ", high, " (FI_TCP_PORT_LOW_RANGE, FI_TCP_PORT_HIGH_RANGE)");
  }
  return {FindingKind::kOk, "ports",
          absl::StrCat("a firewall must let through: to a worker its --listen port; both ways, for "
                       "fabrics over TCP, ports ",
                       ports)};
}

}  // namespace invoker::tools
