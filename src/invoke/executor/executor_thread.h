// The thread of one executor, and the tasks that other threads give it.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_THREAD_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_THREAD_H_

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/invoke/executor/executor_inbox.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class ExecutorThread {
 public:
  // Once. `main` calls RunTasks in every turn, and Finish at its end. RESOURCE_EXHAUSTED without a
  // thread.
  absl::Status Start(std::function<void()> main);
  // After Start, once no thread gives tasks any more: waits for the thread.
  void Join() { thread_.join(); }
  bool joinable() const { return thread_.joinable(); }

  // Any thread, for these.

  // Runs `task` on the thread and waits for it. False if the thread has finished.
  bool Run(absl::FunctionRef<void()> task) ABSL_LOCKS_EXCLUDED(mutex_);
  // Does the same and does not wait.
  bool RunLater(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs `ask` on the thread and waits for its answer. Nothing if the thread has finished, or after
  // `limit`: then `ask` may still run, so it must own what it uses.
  template <typename Answer>
  std::optional<Answer> Ask(absl::Duration limit, std::function<Answer()> ask)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    struct Question {
      absl::Notification answered;
      std::optional<Answer> answer;
    };
    const auto question = std::make_shared<Question>();
    const bool runs = RunLater([question, ask = std::move(ask)] {
      question->answer = ask();
      question->answered.Notify();
    });
    if (!runs || !question->answered.WaitForNotificationWithTimeout(limit)) return std::nullopt;
    return std::move(question->answer);
  }
  bool finished() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return finished_;
  }
  // See ExecutorInbox::AwaitWakers.
  void AwaitWakers() { inbox_.AwaitWakers(); }

  // Executor thread only, for the rest.

  // One load.
  bool HasTasks() const { return inbox_.HasTasks(); }
  void RunTasks() {
    if (inbox_.HasTasks()) inbox_.RunAll();
  }
  void Sleep(absl::Span<transport::Reactor* const> reactors, absl::Duration limit) {
    inbox_.Sleep(reactors, limit);
  }
  // Takes no more tasks. Runs those that are there, and then `last`; a thread that sees finished()
  // sees what these have done.
  void Finish(absl::FunctionRef<void()> last) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  ExecutorInbox inbox_;
  mutable absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_THREAD_H_
