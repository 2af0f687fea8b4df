// Which thread drives a session: one at a time has the role, others sleep.
//
// Everything here happens under the turn lock. Methods that take the lock let go of it while the
// thread sleeps.

#ifndef INVOKER_SRC_INVOKE_SESSION_DRIVER_DRIVER_ROLE_H_
#define INVOKER_SRC_INVOKE_SESSION_DRIVER_DRIVER_ROLE_H_

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "src/invoke/session/call_waiter.h"
#include "src/invoke/session/driver/turn_lock.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class DriverRole {
 public:
  // Takes the role, unless another thread has it.
  bool TryTake() {
    if (taken_) return false;
    taken_ = true;
    return true;
  }
  void Leave() {
    assert(taken_ && !asleep_);
    taken_ = false;
  }

  bool taken() const { return taken_; }
  // Whether the driver sleeps, without the lock.
  bool asleep() const { return asleep_; }
  // Whether threads sleep in Wait.
  bool others_wait() const { return !waiters_.empty(); }

  // Sleeps until `waiter` is woken, or HandOn finds this thread, or the deadline (MonotonicNs) has
  // passed, or now and then for no reason.
  void Wait(TurnLock& lock, CallWaiter* waiter, int64_t deadline_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock) {
    waiters_.push_back(waiter);
    WaitForRoom(lock, waiter, deadline_ns);
    waiters_.erase(std::find(waiters_.begin(), waiters_.end(), waiter));
  }
  // The same for a thread that HandOn does not find, because there is nothing to drive for.
  static void WaitForRoom(TurnLock& lock, CallWaiter* waiter, int64_t deadline_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock) {
    lock.Unlock();
    waiter->Wait(SleepLimit(deadline_ns));
    lock.Lock();
  }

  // For the driver: sleeps until a completion has come, a task has been submitted to the reactor,
  // or the deadline has passed, or now and then for no reason.
  void Sleep(TurnLock& lock, transport::Reactor* reactor, int64_t deadline_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock) {
    assert(taken_);
    if (reactor->Arm()) {
      asleep_ = true;
      lock.Unlock();
      reactor->Sleep(SleepLimit(deadline_ns));
      lock.Lock();
      asleep_ = false;
    }
    reactor->Disarm();
  }

  // Nobody has the role: wakes the thread that has waited longest. False if none waits.
  bool HandOn() {
    assert(!taken_);
    if (waiters_.empty()) return false;
    waiters_.front()->Wake();
    return true;
  }

  void WakeAll() {
    for (CallWaiter* waiter : waiters_) waiter->Wake();
  }

 private:
  // A sleeper looks up at least this often, in case another thread has started a call with an
  // earlier deadline.
  static constexpr int64_t kLongestSleepNs = 5'000'000;

  static absl::Duration SleepLimit(int64_t deadline_ns) {
    const int64_t left_ns = deadline_ns - transport::MonotonicNs();
    return absl::Nanoseconds(std::clamp<int64_t>(left_ns, 0, kLongestSleepNs));
  }

  bool taken_ = false;
  bool asleep_ = false;
  std::vector<CallWaiter*> waiters_;  // in the order of their waits
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_DRIVER_DRIVER_ROLE_H_
