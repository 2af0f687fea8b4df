// How other threads reach an executor's thread, and how that thread sleeps, whether or not it has
// an endpoint to poll.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_INBOX_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_INBOX_H_

#include <atomic>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/base/inbox.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class ExecutorInbox {
 public:
  // Any thread: runs `task` on the executor's thread in its next turn, and wakes it from Sleep. The
  // reactors that the thread may be sleeping on must live until this has returned.
  void Submit(transport::Inbox::Task task) ABSL_LOCKS_EXCLUDED(mutex_);

  // Any thread. Waits until no thread can wake the executor's through a reactor that it had stopped
  // sleeping on for good before. Such a reactor may be closed then.
  void AwaitWakers() ABSL_LOCKS_EXCLUDED(mutex_) { absl::MutexLock lock(&mutex_); }

  // The rest is the executor's thread's.

  // One load: asked on every turn.
  bool HasTasks() const { return tasks_.HasTasks(); }
  void RunAll() { tasks_.RunAll(); }

  // Sleeps until a task is there, something has come for one of the reactors, or `limit` has
  // passed.
  void Sleep(absl::Span<transport::Reactor* const> reactors, absl::Duration limit);

 private:
  transport::Inbox tasks_;
  std::atomic<transport::Reactor*> sleeper_{nullptr};  // one of those that the thread sleeps on
  absl::Mutex mutex_;  // held to sleep without a reactor, and to wake through one
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_INBOX_H_
