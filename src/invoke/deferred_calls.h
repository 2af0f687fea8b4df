// Calls of a group that wait for room in a session's windows, on a thread of their own.
//
// They are those which are tried again when their executor was lost: the thread that brings the
// news has others to tell, and must not wait. The thread tries each now and then, and starts with
// the first call.

#ifndef INVOKER_SRC_INVOKE_DEFERRED_CALLS_H_
#define INVOKER_SRC_INVOKE_DEFERRED_CALLS_H_

#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace invoker {

class DeferredCalls {
 public:
  // Starts the call or ends it, and does not wait for room. False: it is to be tried again.
  using Try = std::function<bool()>;

  DeferredCalls() = default;
  ~DeferredCalls() { Stop(); }
  DeferredCalls(const DeferredCalls&) = delete;
  DeferredCalls& operator=(const DeferredCalls&) = delete;

  // False if the system has no thread for it. Does not block. Any thread.
  bool Add(Try call) ABSL_LOCKS_EXCLUDED(mutex_);

  // No session takes calls any more, so that each call that waits ends when it is tried once more.
  // So does what comes from now on, by Add itself. Waits for the thread.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  absl::CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Try> waiting_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_DEFERRED_CALLS_H_
