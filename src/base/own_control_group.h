// Where the kernel's groups of processes (cgroups) are, and which is a process's own.

#ifndef INVOKER_SRC_BASE_OWN_CONTROL_GROUP_H_
#define INVOKER_SRC_BASE_OWN_CONTROL_GROUP_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace invoker {

// The directory of the group that /proc/self/cgroup names, by what /proc/self/mountinfo says of
// where groups are mounted. FAILED_PRECONDITION if there is none, or none that this process sees.
// `controller`: the one of version 1 whose group it is, such as "memory"; empty: that of version 2.
absl::StatusOr<std::string> FindOwnGroup(absl::string_view cgroup, absl::string_view mountinfo,
                                         absl::string_view controller = "");

}  // namespace invoker

#endif  // INVOKER_SRC_BASE_OWN_CONTROL_GROUP_H_
