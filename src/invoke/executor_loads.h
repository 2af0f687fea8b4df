// How busy each of several executors is, and which of them are lost.
//
// Shared by everything that calls them and by the callbacks of calls, which may come after the
// clients have gone.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_LOADS_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_LOADS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace invoker {

// Any thread.
class ExecutorLoads {
 public:
  explicit ExecutorLoads(size_t executors)
      : size_(executors), loads_(std::make_unique<Load[]>(executors)) {}

  size_t size() const { return size_; }

  // Counts a call for the executor with the fewest under way; those that are equal take turns. If
  // all are lost, why the last one was. Threads that ask at the same moment may get the same one.
  // Until End, the executor is not replaced: of one that is lost, whoever sees that no calls are
  // under way may do so before Restore, since nobody gets it here any more.
  absl::StatusOr<size_t> Begin() ABSL_LOCKS_EXCLUDED(mutex_);
  void End(size_t executor) { loads_[executor].calls.fetch_sub(1, std::memory_order_seq_cst); }

  // Calls under way.
  uint32_t calls(size_t executor) const {
    return loads_[executor].calls.load(std::memory_order_seq_cst);
  }

  // Nothing can be called there any more, until Restore.
  void Lose(size_t executor, const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);
  void Restore(size_t executor) ABSL_LOCKS_EXCLUDED(mutex_);
  // To be told whenever one is lost. Must not block, nor call this object. Nobody is told once it
  // has been set anew.
  void set_on_lost(std::function<void(size_t executor)> on_lost) ABSL_LOCKS_EXCLUDED(mutex_);
  size_t left() const { return size_ - lost_.load(std::memory_order_relaxed); }

  // OK while one is left; then why the last one was lost. At the next moment either may be
  // otherwise: whoever needs an executor, or the reason why there is none, asks Begin.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::optional<size_t> Choose();

  struct Load {
    std::atomic<uint32_t> calls{0};
    std::atomic<bool> lost{false};
  };

  const size_t size_;
  const std::unique_ptr<Load[]> loads_;
  std::atomic<size_t> next_{0};  // where to begin to look
  std::atomic<size_t> lost_{0};  // changed, with the marks of each, under the mutex
  mutable absl::Mutex mutex_;
  absl::Status reason_ ABSL_GUARDED_BY(mutex_);
  std::function<void(size_t)> on_lost_ ABSL_GUARDED_BY(mutex_);
};

// Whether a call that failed like this shows that its executor takes no calls any more: its session
// has ended, or its worker is shutting down.
bool ShowsLostExecutor(const absl::Status& status);

// Whether CallOptions::retry is for a call that failed like this.
bool MayBeRetried(const absl::Status& status);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_LOADS_H_
