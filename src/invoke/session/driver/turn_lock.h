// The turn lock: its holder may use a client's session and drive its reactor.
//
// A thread holds it for one turn of polling, or while it encodes and posts one request:
// microseconds. A thread that polls for long keeps it and asks Contended() between turns. A thread
// that sleeps never holds it. Uncontended, locking is one atomic exchange.

#ifndef INVOKER_SRC_INVOKE_SESSION_DRIVER_TURN_LOCK_H_
#define INVOKER_SRC_INVOKE_SESSION_DRIVER_TURN_LOCK_H_

#include <sched.h>

#include <atomic>
#include <cassert>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "src/base/cpu_relax.h"

namespace invoker {

class ABSL_LOCKABLE TurnLock {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    if (held_.exchange(true, std::memory_order_acquire)) LockContended();
  }

  // False if another thread holds it.
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    return !held_.exchange(true, std::memory_order_acquire);
  }

  void Unlock() ABSL_UNLOCK_FUNCTION() {
    assert(held_.load(std::memory_order_relaxed));
    held_.store(false, std::memory_order_release);
  }

  // For code that the thread-safety analysis cannot follow, such as a callback that runs under the
  // lock.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {
    assert(held_.load(std::memory_order_relaxed));
  }

  // Whether another thread waits in Lock().
  bool Contended() const { return contenders_.load(std::memory_order_relaxed) != 0; }

  // Lets the threads through that wait now, then locks again.
  void Yield() ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    const uint32_t turn = turns_.load(std::memory_order_relaxed);
    Unlock();
    while (Contended() && turns_.load(std::memory_order_relaxed) == turn) sched_yield();
    Lock();
  }

 private:
  void LockContended() {
    contenders_.fetch_add(1, std::memory_order_relaxed);
    for (uint32_t spins = 1;; ++spins) {
      if (!held_.load(std::memory_order_relaxed) &&
          !held_.exchange(true, std::memory_order_acquire)) {
        break;
      }
      if (spins % 64 == 0) {
        // The holder may have been preempted.
        sched_yield();
      } else {
        CpuRelax();
      }
    }
    turns_.fetch_add(1, std::memory_order_relaxed);
    contenders_.fetch_sub(1, std::memory_order_relaxed);
  }

  std::atomic<bool> held_{false};
  std::atomic<uint32_t> contenders_{0};
  std::atomic<uint32_t> turns_{0};  // contended acquisitions so far
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_DRIVER_TURN_LOCK_H_
