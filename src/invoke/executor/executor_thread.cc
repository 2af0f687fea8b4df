#include "src/invoke/executor/executor_thread.h"

#include "src/base/start_thread.h"

namespace invoker {

absl::Status ExecutorThread::Start(std::function<void()> main) {
  return transport::StartThread(&thread_, std::move(main));
}

bool ExecutorThread::Run(absl::FunctionRef<void()> task) {
  absl::Notification done;
  const bool runs = RunLater([task, &done] {
    task();
    done.Notify();
  });
  if (runs) done.WaitForNotification();
  return runs;
}

bool ExecutorThread::RunLater(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  if (!finished_) inbox_.Submit(std::move(task));
  return !finished_;
}

void ExecutorThread::Finish(absl::FunctionRef<void()> last) {
  absl::MutexLock lock(&mutex_);
  finished_ = true;
  inbox_.RunAll();
  last();
}

}  // namespace invoker
