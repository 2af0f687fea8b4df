// Whose turn it is on a client's reactor.
//
// Held for one turn of polling, or while one request is encoded and posted: microseconds. A thread
// that polls for long keeps it and asks Contended() between turns; a thread that sleeps never holds
// it. Uncontended, locking is one atomic exchange.

#ifndef INVOKER_SRC_INVOKE_SESSION_TURN_LOCK_H_
#define INVOKER_SRC_INVOKE_SESSION_TURN_LOCK_H_

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "src/base/cpu_relax.h"

namespace invoker {

class TurnLock {
 public:
  void Lock() {
    if (held_.exchange(true, std::memory_order_acquire)) LockContended();
  }

  void Unlock() { held_.store(false, std::memory_order_release); }

  // Whether somebody is waiting in Lock().
  bool Contended() const { return contenders_.load(std::memory_order_relaxed) != 0; }

  // For the holder: lets those through who wait now, then locks again.
  void Yield() {
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

#endif  // INVOKER_SRC_INVOKE_SESSION_TURN_LOCK_H_
