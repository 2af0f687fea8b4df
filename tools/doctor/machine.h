// What a machine allows: memory that may be locked, huge pages, cgroups, its clock, its ports, and
// the libfabric that this process has loaded.

#ifndef INVOKER_TOOLS_DOCTOR_MACHINE_H_
#define INVOKER_TOOLS_DOCTOR_MACHINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/doctor/finding.h"

namespace invoker::tools {

// Below this many bytes a device's queues and windows may not be registered.
inline constexpr uint64_t kLittleLockedMemory = uint64_t{64} << 20;

// `maps` is /proc/self/maps, `version` libfabric's own, such as "2.1".
Finding ExamineLibfabric(const std::string& maps, const std::string& version);

// `limit` in bytes; nothing: there is none. Devices pin memory, and other fabrics do not.
Finding ExamineLockedMemory(std::optional<uint64_t> limit, bool has_devices);

// The rest reads files of the kernel's below `root`, "" for the machine's own.
Finding ExamineHugePages(const std::string& root);
Finding ExamineControlGroups(const std::string& root);
std::vector<Finding> ExamineClock(const std::string& root);
Finding ExaminePorts(const std::string& root);

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_DOCTOR_MACHINE_H_
