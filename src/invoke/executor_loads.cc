#include "src/invoke/executor_loads.h"

#include "absl/strings/str_cat.h"
#include "src/invoke/call_fate.h"

namespace invoker {

std::optional<size_t> ExecutorLoads::Begin() {
  std::optional<size_t> best;
  uint32_t fewest = UINT32_MAX;
  const size_t first = next_.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < size_; ++i) {
    const size_t executor = (first + i) % size_;
    if (loads_[executor].lost.load(std::memory_order_relaxed)) continue;
    const uint32_t calls = this->calls(executor);
    if (calls >= fewest) continue;
    best = executor;
    fewest = calls;
  }
  if (best.has_value()) loads_[*best].calls.fetch_add(1, std::memory_order_relaxed);
  return best;
}

void ExecutorLoads::Lose(size_t executor, const absl::Status& reason) {
  absl::MutexLock lock(&mutex_);
  if (loads_[executor].lost.exchange(true, std::memory_order_relaxed)) return;
  lost_.fetch_add(1, std::memory_order_relaxed);
  reason_ = reason;
}

absl::Status ExecutorLoads::status() const {
  if (left() > 0) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  return WithFate(
      absl::Status(reason_.code(), absl::StrCat("none of the ", size_,
                                                " executors is left; the last one was lost "
                                                "because: ",
                                                reason_.message())),
      CallFate::kNotSent);
}

bool ShowsLostExecutor(const absl::Status& status) {
  if (GetCallFate(status) == CallFate::kExecuted) return false;
  switch (status.code()) {
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kInternal:
      return true;
    case absl::StatusCode::kCancelled:
      // A client that has been closed; others are cancelled while they wait.
      return GetCallFate(status) == CallFate::kNotSent;
    default:
      return false;
  }
}

}  // namespace invoker
