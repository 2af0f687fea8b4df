// A thread that sleeps until its call has ended or somebody must drive the reactor.

#ifndef INVOKER_SRC_INVOKE_SESSION_CALL_WAITER_H_
#define INVOKER_SRC_INVOKE_SESSION_CALL_WAITER_H_

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace invoker {

class CallWaiter {
 public:
  // Any thread. Ends the Wait under way, or the next one.
  void Wake() {
    absl::MutexLock lock(&mutex_);
    woken_ = true;
  }

  // Returns when woken, or when `limit` has passed: then false.
  bool Wait(absl::Duration limit) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&woken_), limit);
    return std::exchange(woken_, false);
  }

 private:
  absl::Mutex mutex_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_CALL_WAITER_H_
