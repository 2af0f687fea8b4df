#include "src/invoke/executor/executor_inbox.h"

namespace invoker {

void ExecutorInbox::Submit(transport::Inbox::Task task) {
  tasks_.Put(std::move(task));
  // A thread that waits for a task without a reactor looks again when the mutex is released.
  absl::MutexLock lock(&mutex_);
  // The thread announces the reactor before it looks for tasks, and this looks for the reactor
  // after it has put one: one of the two sees the other.
  if (transport::Reactor* sleeper = sleeper_.load(std::memory_order_seq_cst); sleeper != nullptr) {
    sleeper->Submit([] {});
  }
}

void ExecutorInbox::Sleep(absl::Span<transport::Reactor* const> reactors, absl::Duration limit) {
  if (reactors.empty()) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&tasks_, &transport::Inbox::HasTasks), limit);
    return;
  }
  sleeper_.store(reactors.front(), std::memory_order_seq_cst);
  if (!tasks_.HasTasks()) transport::WaitAny(reactors, limit);
  sleeper_.store(nullptr, std::memory_order_relaxed);
}

}  // namespace invoker
