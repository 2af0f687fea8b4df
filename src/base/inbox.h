// Tasks for a reactor's driver thread, from any thread. Not for the hot path: a task takes a lock
// and may allocate.

#ifndef INVOKER_SRC_BASE_INBOX_H_
#define INVOKER_SRC_BASE_INBOX_H_

#include <atomic>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace invoker::transport {

class Inbox {
 public:
  using Task = absl::AnyInvocable<void()>;

  void Put(Task task) {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
    waiting_.store(true, std::memory_order_seq_cst);
  }

  // One load: may be asked on every turn.
  bool HasTasks() const { return waiting_.load(std::memory_order_seq_cst); }

  // Runs what was there at the call, in order. Driver thread only. Tasks may put tasks; those wait
  // for the next call.
  void RunAll() {
    std::vector<Task> tasks;
    {
      absl::MutexLock lock(&mutex_);
      tasks.swap(tasks_);
      waiting_.store(false, std::memory_order_seq_cst);
    }
    for (Task& task : tasks) std::move(task)();
  }

 private:
  absl::Mutex mutex_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> waiting_{false};
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_BASE_INBOX_H_
