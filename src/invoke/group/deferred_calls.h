// Calls of a group that wait for room in a session's windows, on a thread of their own.
//
// They are those which are tried again when their executor was lost: the thread that brings the
// news has others to tell, and must not wait. The thread tries each now and then, and starts with
// the first call. It runs no callbacks, which may wait for calls that wait here.

#ifndef INVOKER_SRC_INVOKE_GROUP_DEFERRED_CALLS_H_
#define INVOKER_SRC_INVOKE_GROUP_DEFERRED_CALLS_H_

#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "src/base/work_threads.h"

namespace invoker {

class DeferredCalls {
 public:
  // Starts the call or has it ended, by RunApart, and does not wait for room. False: it is to be
  // tried again.
  using Try = std::function<bool()>;

  DeferredCalls() = default;
  ~DeferredCalls() { Stop(); }
  DeferredCalls(const DeferredCalls&) = delete;
  DeferredCalls& operator=(const DeferredCalls&) = delete;

  // False if the system has no thread for it. Does not block. Any thread.
  bool Add(Try call) ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs what may block, soon, on a thread where others do not wait for it: 64 may block at a time.
  // On this one if the system has no other.
  void RunApart(std::function<void()> work) { apart_.Run(std::move(work)); }

  // Sessions take no calls any more, so that each call that waits ends when it is tried again.
  // Later calls end likewise, in Add itself. Blocks until the thread has ended. Only the destructor
  // waits for the work of RunApart.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  absl::CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Try> waiting_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
  bootstrap::WorkThreads apart_{64};
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_DEFERRED_CALLS_H_
