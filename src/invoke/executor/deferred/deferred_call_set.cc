#include "src/invoke/executor/deferred/deferred_call_set.h"

#include <utility>

namespace invoker {

void DeferredCallSet::Add(std::shared_ptr<DeferredCall> call) {
  absl::MutexLock lock(&mutex_);
  // The function that has deferred it runs now.
  if (watch_ != nullptr) call->run_ = watch_->Now().value;
  held_.insert(std::move(call));
  count_.fetch_add(1, std::memory_order_relaxed);
}

void DeferredCallSet::Begin(DeferredCall* call) {
  absl::MutexLock lock(&mutex_);
  // It may have been answered already.
  if (!held_.contains(call)) return;
  running_.push_back(call);
  ShowOldest();
}

void DeferredCallSet::Completed(DeferredCall* call) {
  const std::shared_ptr<DeferredCall> kept = call->shared_from_this();
  {
    absl::MutexLock lock(&mutex_);
    held_.erase(kept);
    running_.remove(call);
    ShowOldest();
    if (watch_ == nullptr) return;
    ++delivering_;
  }
  const auto answered = [calls = shared_from_this()] {
    absl::MutexLock lock(&calls->mutex_);
    calls->count_.fetch_sub(1, std::memory_order_relaxed);
  };
  const bool told = deliver_([kept, answered] {
    if (const auto owner = kept->owner(); owner != nullptr) owner->Finish(kept.get());
    answered();
  });
  if (!told) answered();
  absl::MutexLock lock(&mutex_);
  --delivering_;
}

void DeferredCallSet::ShowOldest() {
  if (watch_ == nullptr) return;
  watch_->ShowDeferred(running_.empty() ? 0 : running_.front()->run_);
}

void DeferredCallSet::AwaitNone(absl::Time until) {
  absl::MutexLock lock(&mutex_);
  const auto none = [this] { return !any(); };
  mutex_.AwaitWithDeadline(absl::Condition(&none), until);
}

void DeferredCallSet::Close() {
  absl::MutexLock lock(&mutex_);
  watch_ = nullptr;
  const auto delivered = [this]()
                             ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return delivering_ == 0; };
  mutex_.Await(absl::Condition(&delivered));
}

}  // namespace invoker
