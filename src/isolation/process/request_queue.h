// Requests of the server's to an executor's process that wait for the thread that serves them.

#ifndef INVOKER_SRC_ISOLATION_PROCESS_REQUEST_QUEUE_H_
#define INVOKER_SRC_ISOLATION_PROCESS_REQUEST_QUEUE_H_

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/executor_control.pb.h"
#include "src/base/unique_fd.h"

namespace invoker {

struct ExecutorRequest {
  isolation::v1::ToExecutor message;
  std::vector<UniqueFd> fds;
};

// First come, first served. Any thread.
class RequestQueue {
 public:
  explicit RequestQueue(size_t most) : most_(most) {}

  // Takes the request; false, and it stays, if `most` wait already. One to stop is always taken:
  // nobody would be told that it has been refused, and there is one at most.
  [[nodiscard]] bool Put(ExecutorRequest* request) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (requests_.size() >= most_ && !request->message.has_stop()) return false;
    requests_.push_back(std::move(*request));
    return true;
  }

  // Waits for one.
  ExecutorRequest Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](std::deque<ExecutorRequest>* requests) { return !requests->empty(); }, &requests_));
    ExecutorRequest request = std::move(requests_.front());
    requests_.pop_front();
    return request;
  }

 private:
  const size_t most_;
  absl::Mutex mutex_;
  std::deque<ExecutorRequest> requests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_PROCESS_REQUEST_QUEUE_H_
