// What is in the kernel's groups of processes (cgroups, version 2) and their files.

#ifndef INVOKER_SRC_ISOLATION_LIMITS_CONTROL_GROUP_PLACE_H_
#define INVOKER_SRC_ISOLATION_LIMITS_CONTROL_GROUP_PLACE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace invoker {

// What the names of executors' groups begin with.
inline constexpr char kExecutorGroup[] = "executor-";

// The number behind `name` in a file of lines "NAME NUMBER"; 0 if there is none.
uint64_t CountIn(absl::string_view text, absl::string_view name);

// Ends whatever is in the groups of one server's executors.
void EndGroups(const std::string& directory);

// Removes the groups of one server's executors, and their own: those that have no processes any
// more. For who outlives that server.
void RemoveEmptyGroups(const std::string& directory);

// Whether `word` is among the words of a file.
bool HasWord(absl::string_view text, absl::string_view word);

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_LIMITS_CONTROL_GROUP_PLACE_H_
