// Results on their way from the thread that drives a client to the Python thread that hands them
// out.
//
// The driver must never wait for the GIL: other calls, of threads that do hold it, may wait for the
// driver.

#ifndef INVOKER_SRC_PYTHON_NATIVE_CALLS_RESULT_QUEUE_H_
#define INVOKER_SRC_PYTHON_NATIVE_CALLS_RESULT_QUEUE_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "src/python/native/memory.h"

namespace invoker::python {

struct Result {
  uint64_t token;  // names the call
  absl::StatusOr<Memory> response;
  uint64_t session;  // Response::session, of a response
};

// Any thread, with or without the GIL.
class ResultQueue {
 public:
  void Push(Result result) {
    absl::MutexLock lock(&mutex_);
    results_.push_back(std::move(result));
    due_ = true;
  }

  // Ends the Take under way, or the next one, even if there is no result.
  void Wake() {
    absl::MutexLock lock(&mutex_);
    due_ = true;
  }

  // All results so far; blocks until there is one or Wake is called.
  std::vector<Result> Take() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&due_));
    due_ = false;
    std::vector<Result> results;
    results.swap(results_);
    return results;
  }

 private:
  absl::Mutex mutex_;
  std::vector<Result> results_ ABSL_GUARDED_BY(mutex_);
  bool due_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace invoker::python

#endif  // INVOKER_SRC_PYTHON_NATIVE_CALLS_RESULT_QUEUE_H_
