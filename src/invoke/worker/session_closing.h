// A session that its executor has been asked to close, for who wants to know that it has, but does
// not want to wait for a function that runs for long.
//
// Any thread.

#ifndef INVOKER_SRC_INVOKE_WORKER_SESSION_CLOSING_H_
#define INVOKER_SRC_INVOKE_WORKER_SESSION_CLOSING_H_

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace invoker {

class SessionClosing {
 public:
  // `late` counts the executor's sessions that were given up on and are not closed yet; it outlives
  // the closing.
  explicit SessionClosing(std::atomic<int>* late) : late_(late) {}

  // It is closed. Once.
  void Done() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    done_ = true;
    if (given_up_) late_->fetch_sub(1);
  }

  // Blocks until it is closed, or `limit` has passed; not at all while others of the executor are
  // late, so that many that end under one function wait for it once. Once.
  void Await(absl::Duration limit) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (late_->load() > 0) limit = absl::ZeroDuration();
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&done_), limit)) return;
    given_up_ = true;
    late_->fetch_add(1);
  }

 private:
  std::atomic<int>* const late_;
  absl::Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_WORKER_SESSION_CLOSING_H_
