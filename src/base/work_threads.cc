#include "src/base/work_threads.h"

#include <system_error>
#include <utility>

namespace invoker::bootstrap {

WorkThreads::WorkThreads(size_t most, Started) : most_(most) {
  absl::MutexLock lock(&mutex_);
  threads_.emplace_back([this] { Loop(); });
}

WorkThreads::~WorkThreads() {
  while (true) {
    std::vector<std::thread> threads;
    {
      absl::MutexLock lock(&mutex_);
      ending_ = true;
      threads.swap(threads_);
    }
    // Work may have started further threads meanwhile.
    if (threads.empty()) return;
    for (std::thread& thread : threads) thread.join();
  }
}

void WorkThreads::Run(std::function<void()> work) {
  {
    absl::MutexLock lock(&mutex_);
    work_.push_back(std::move(work));
    if (work_.size() <= idle_ || threads_.size() >= most_) return;
    try {
      threads_.emplace_back([this] { Loop(); });
      return;
    } catch (const std::system_error&) {
      // The system has no thread left. Those that there are do the work in time.
      if (!threads_.empty()) return;
    }
    work = std::move(work_.back());
    work_.pop_back();
  }
  work();
}

void WorkThreads::Loop() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    ++idle_;
    mutex_.Await(absl::Condition(this, &WorkThreads::Wanted));
    --idle_;
    if (work_.empty()) return;
    {
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      mutex_.Unlock();
      work();
      // What it holds ends here, and may take its time.
    }
    mutex_.Lock();
  }
}

}  // namespace invoker::bootstrap
