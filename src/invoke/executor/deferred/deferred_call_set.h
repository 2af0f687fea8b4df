// The calls of one executor that are answered later. Outlives the executor for as long as a
// function still has one of them. Any thread, unless a method says otherwise.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_DEFERRED_DEFERRED_CALL_SET_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_DEFERRED_DEFERRED_CALL_SET_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "src/invoke/executor/deferred/deferred_call.h"
#include "src/invoke/executor/executor_watch.h"

namespace invoker {

class DeferredCallSet : public std::enable_shared_from_this<DeferredCallSet> {
 public:
  // Has `task` run on the executor's thread; false if that has ended.
  using Deliver = std::function<bool(std::function<void()> task)>;

  // `watch` shows the call that has been running longest.
  DeferredCallSet(ExecutorWatch* watch, Deliver deliver)
      : deliver_(std::move(deliver)), watch_(watch) {}

  // One load: whether there are any.
  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }
  // Waits until there are none, or `until`.
  void AwaitNone(absl::Time until) ABSL_LOCKS_EXCLUDED(mutex_);
  // The executor is about to go: what is completed from now on is answered to nobody, and the watch
  // is left alone.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class DeferredCall;

  void Add(std::shared_ptr<DeferredCall> call) ABSL_LOCKS_EXCLUDED(mutex_);
  void Begin(DeferredCall* call) ABSL_LOCKS_EXCLUDED(mutex_);
  void Completed(DeferredCall* call) ABSL_LOCKS_EXCLUDED(mutex_);
  void ShowOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<size_t> count_{0};  // that have not been delivered
  const Deliver deliver_;         // without the lock, which its tasks take
  absl::Mutex mutex_;
  ExecutorWatch* watch_ ABSL_GUARDED_BY(mutex_);  // nullptr: closed
  size_t delivering_ ABSL_GUARDED_BY(mutex_) = 0;
  // Those whose functions have them.
  absl::flat_hash_set<std::shared_ptr<DeferredCall>> held_ ABSL_GUARDED_BY(mutex_);
  std::list<DeferredCall*> running_ ABSL_GUARDED_BY(mutex_);  // the first has been for longest
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_DEFERRED_DEFERRED_CALL_SET_H_
