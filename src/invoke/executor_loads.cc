#include "src/invoke/executor_loads.h"

#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "src/invoke/call_fate.h"

namespace invoker {

absl::StatusOr<size_t> ExecutorLoads::Begin() {
  while (true) {
    const std::optional<size_t> best = Choose();
    if (ABSL_PREDICT_FALSE(!best.has_value())) {
      absl::Status none = status();
      if (!none.ok()) return none;
      // One was restored meanwhile, or each in turn while it was not looked at.
      continue;
    }
    loads_[*best].calls.fetch_add(1, std::memory_order_seq_cst);
    // In this order: either whoever is to replace it sees this call, or this sees that it is lost.
    if (ABSL_PREDICT_TRUE(!loads_[*best].lost.load(std::memory_order_seq_cst))) return *best;
    End(*best);
  }
}

std::optional<size_t> ExecutorLoads::Choose() {
  std::optional<size_t> best;
  uint32_t fewest = UINT32_MAX;
  const size_t first = next_.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < size_; ++i) {
    const size_t executor = (first + i) % size_;
    if (loads_[executor].lost.load(std::memory_order_relaxed)) continue;
    const uint32_t calls = loads_[executor].calls.load(std::memory_order_relaxed);
    if (calls >= fewest) continue;
    best = executor;
    fewest = calls;
  }
  return best;
}

void ExecutorLoads::Lose(size_t executor, const absl::Status& reason) {
  absl::MutexLock lock(&mutex_);
  if (loads_[executor].lost.exchange(true, std::memory_order_seq_cst)) return;
  lost_.fetch_add(1, std::memory_order_relaxed);
  reason_ = reason.ok() ? absl::UnavailableError("no reason was given") : reason;
  if (on_lost_) on_lost_(executor);
}

void ExecutorLoads::Restore(size_t executor) {
  absl::MutexLock lock(&mutex_);
  if (!loads_[executor].lost.exchange(false, std::memory_order_seq_cst)) return;
  lost_.fetch_sub(1, std::memory_order_relaxed);
}

void ExecutorLoads::set_on_lost(std::function<void(size_t)> on_lost) {
  absl::MutexLock lock(&mutex_);
  on_lost_ = std::move(on_lost);
}

absl::Status ExecutorLoads::status() const {
  absl::MutexLock lock(&mutex_);
  if (left() > 0) return absl::OkStatus();
  return WithFate(
      absl::Status(reason_.code(), absl::StrCat("none of the ", size_,
                                                " executors is left; the last one was lost "
                                                "because: ",
                                                reason_.message())),
      CallFate::kNotSent);
}

bool MayBeRetried(const absl::Status& status) {
  switch (GetCallFate(status)) {
    case CallFate::kNotSent:
    case CallFate::kMaybeExecuted:
      return ShowsLostExecutor(status) && !absl::IsCancelled(status);
    case CallFate::kNotExecuted:
      // It drains: what else was not executed would not be elsewhere either.
      return absl::IsUnavailable(status);
    case CallFate::kUnknown:
    case CallFate::kExecuted:
      break;
  }
  return false;
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
