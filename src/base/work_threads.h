// A bounded number of threads for work that blocks.
//
// Threads start when work finds none idle, and stay until the end. Any thread may call Run, also
// from inside of work.

#ifndef INVOKER_SRC_BASE_WORK_THREADS_H_
#define INVOKER_SRC_BASE_WORK_THREADS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace invoker::bootstrap {

class WorkThreads {
 public:
  explicit WorkThreads(size_t most) : most_(most) {}
  // Starts one now, so that Run never blocks. std::system_error if the system gives none.
  enum class Started { kOne };
  WorkThreads(size_t most, Started);
  // Waits for all work that was given.
  ~WorkThreads();
  WorkThreads(const WorkThreads&) = delete;
  WorkThreads& operator=(const WorkThreads&) = delete;

  // Runs `work` soon, in the order of the calls as far as threads are free. Does not block, unless
  // there is no thread yet and the system gives none: then the work runs here.
  void Run(std::function<void()> work) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  bool Wanted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !work_.empty() || ending_; }

  const size_t most_;
  absl::Mutex mutex_;
  std::deque<std::function<void()>> work_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BASE_WORK_THREADS_H_
