// A function that an executor runs on threads of its own, several calls at a time, so that it
// delays no other function: every call of it is deferred, and a thread answers it.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_DEFERRED_CONCURRENT_FUNCTION_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_DEFERRED_CONCURRENT_FUNCTION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "invoker/function_entry.h"
#include "src/invoke/executor/deferred/deferred_call.h"

namespace invoker {

class ConcurrentFunction {
 public:
  // At most `entry.concurrency` threads, which are started when calls need them. `draining` is the
  // executor's: calls that no thread has begun are refused then.
  ConcurrentFunction(FunctionEntry entry, const std::atomic<bool>* draining);
  // Stop.
  ~ConcurrentFunction();
  ConcurrentFunction(const ConcurrentFunction&) = delete;
  ConcurrentFunction& operator=(const ConcurrentFunction&) = delete;

  // What the executor calls in the function's place; refers to this object.
  FunctionEntry Entry();

  // Refuses the calls that wait, and waits for those that run, however long they take.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static int64_t Call(invoker_call* call);
  int64_t Take(invoker_call* call) ABSL_LOCKS_EXCLUDED(mutex_);
  void ThreadMain() ABSL_LOCKS_EXCLUDED(mutex_);
  void Run(DeferredCall* call);

  const FunctionEntry entry_;
  const std::atomic<bool>* const draining_;
  absl::Mutex mutex_;
  std::deque<DeferredCall*> waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;  // threads
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_DEFERRED_CONCURRENT_FUNCTION_H_
