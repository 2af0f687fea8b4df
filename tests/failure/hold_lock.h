// What the preloaded library can be told.

#ifndef INVOKER_TESTS_FAILURE_HOLD_LOCK_H_
#define INVOKER_TESTS_FAILURE_HOLD_LOCK_H_

#include <dlfcn.h>

namespace invoker {

// Whose queue's lock it is: the process's own, or that of another one.
enum class LockOf : int { kSelf, kPeer };

// When this thread next gives up such a lock it gets the signal first: the process dies, or stops,
// while it has the lock. False if the library has not been preloaded.
inline bool HoldLock(LockOf whose, int signal) {
  using Hold = void(int whose, int signal);
  auto* const hold = reinterpret_cast<Hold*>(dlsym(RTLD_DEFAULT, "InvokerHoldLock"));
  if (hold == nullptr) return false;
  hold(static_cast<int>(whose), signal);
  return true;
}

}  // namespace invoker

#endif  // INVOKER_TESTS_FAILURE_HOLD_LOCK_H_
