// A function may fork, to start another program. The child is no executor: what it returned would
// be posted by two processes, over the same endpoint. So a child that has not become another
// program ends where the function returns.

#ifndef INVOKER_SRC_BASE_FORK_GUARD_H_
#define INVOKER_SRC_BASE_FORK_GUARD_H_

#include <atomic>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"

namespace invoker {
namespace fork_guard_internal {

// One for the process, since that is what forks.
extern std::atomic<bool> is_child;

ABSL_ATTRIBUTE_NOINLINE void EndChild();

}  // namespace fork_guard_internal

// From now on forks of this process are noticed (not vfork(2), whose child may not return). Once
// is enough; any thread.
void InstallForkGuard();

// Whether this process is a fork of one that had called InstallForkGuard, and no other program.
inline bool InForkedChild() {
  return fork_guard_internal::is_child.load(std::memory_order_relaxed);
}

// Ends the process at once if InForkedChild().
inline void EndForkedChild() {
  if (ABSL_PREDICT_FALSE(InForkedChild())) fork_guard_internal::EndChild();
}

}  // namespace invoker

#endif  // INVOKER_SRC_BASE_FORK_GUARD_H_
