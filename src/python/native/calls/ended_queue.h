// Calls that have ended, by their tokens, on their way from the thread that drives a client to the
// Python thread that hands out results.
//
// The driver must never wait for the GIL: other calls, of threads that do hold it, may wait for the
// driver.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CALLS_ENDED_QUEUE_H_
#define INVOKER_SRC_PYTHON_NATIVE_CALLS_ENDED_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "src/base/unique_fd.h"

namespace invoker::python {

// Any thread, with or without the GIL.
class EndedQueue {
 public:
  // From now on the queue has a descriptor that can be read while there is something to take: for
  // an event loop.
  absl::Status AddDescriptor();
  int descriptor() const { return descriptor_.get(); }
  // While it is polled, nobody needs the descriptor.
  void SetPolled(bool polled) ABSL_LOCKS_EXCLUDED(mutex_);

  void Push(uint64_t token) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the wait under way, or the next one, though nothing has ended.
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether there is something to take, or Wake has been called. Takes no lock.
  bool due() const { return due_.load(std::memory_order_acquire); }
  // Blocks until then, but no longer than this.
  void Await(absl::Duration limit) const ABSL_LOCKS_EXCLUDED(mutex_);
  // All so far. Does not block.
  std::vector<uint64_t> Take() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void SetDueLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SignalLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::vector<uint64_t> tokens_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> due_{false};  // changes under the lock
  bool polled_ ABSL_GUARDED_BY(mutex_) = false;
  bool signalled_ ABSL_GUARDED_BY(mutex_) = false;  // the descriptor can be read
  UniqueFd descriptor_;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CALLS_ENDED_QUEUE_H_
