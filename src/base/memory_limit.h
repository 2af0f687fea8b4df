// The memory that the kernel's groups of processes (cgroups) allow a process, in version 1 or 2.

#ifndef INVOKER_SRC_BASE_MEMORY_LIMIT_H_
#define INVOKER_SRC_BASE_MEMORY_LIMIT_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace invoker {

// In bytes: the least limit of a process's group and of the groups above it. 0: there is none.
// `cgroup` and `mountinfo` are the texts of these files in the process's folder in /proc.
uint64_t MemoryLimit(absl::string_view cgroup, absl::string_view mountinfo);

// The limit of the calling process.
uint64_t OwnMemoryLimit();

}  // namespace invoker

#endif  // INVOKER_SRC_BASE_MEMORY_LIMIT_H_
