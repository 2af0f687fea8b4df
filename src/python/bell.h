// What wakes a Python thread from threads that must not wait for the GIL.

#ifndef INVOKER_SRC_PYTHON_BELL_H_
#define INVOKER_SRC_PYTHON_BELL_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace invoker::python {

// Any thread, with or without the GIL.
class Bell {
 public:
  // Ends the Wait under way, or else the next one.
  void Ring() {
    absl::MutexLock lock(&mutex_);
    rings_.fetch_add(1, std::memory_order_release);
    due_ = true;
  }

  // Blocks until it is rung, but no longer than this.
  void Wait(absl::Duration limit) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&due_), limit);
    due_ = false;
  }

  // How often it has been rung. Takes no lock.
  uint64_t rings() const { return rings_.load(std::memory_order_acquire); }

 private:
  absl::Mutex mutex_;
  bool due_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<uint64_t> rings_{0};
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_BELL_H_
