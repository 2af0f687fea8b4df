// Reactor: posts, and what happens to those that the provider refuses.

#include "absl/strings/str_cat.h"
#include "src/transport/base/status.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::transport {

void Reactor::PostFirst(Operation* operation, ssize_t code) {
  if (code == 0) return PostStep(operation);
  int error = 0;
  const PostResult result = JudgePost(code, &error);
  Settle(operation, result, error);
}

void Reactor::PostStep(Operation* operation) {
  int error = 0;
  const PostResult result = operation->notifier->Post(endpoint_->poster(), operation, &error);
  Settle(operation, result, error);
}

// What follows from an attempt to post.
void Reactor::Settle(Operation* operation, PostResult result, int error) {
  switch (result) {
    case PostResult::kPosted:
      return;
    case PostResult::kAgain:
      ++counters_.posts_refused;
      QueueRetry(operation);
      return;
    case PostResult::kFailed:
      Fail(operation, ToStatus(absl::StrCat("posting ", operation->notifier->what()), error));
      ReleaseIfDone(operation);
      return;
    case PostResult::kOver: {
      OperationOwner* const owner = operation->owner;
      const uint64_t tag = operation->tag;
      operations_.Release(operation);
      owner->OnTransferDone(tag);
      return;
    }
  }
}

void Reactor::Fail(Operation* operation, const absl::Status& status) {
  // Of two completions both may fail.
  if (!operation->failed) ++counters_.posts_failed;
  operation->failed = true;
  operation->step = Operation::Step::kDone;
  OperationOwner* owner = operation->owner;
  operations_.Abandon(operation, MonotonicNs());
  if (owner != nullptr) owner->OnOperationFailed(*operation, status);
}

void Reactor::ReleaseIfDone(Operation* operation) {
  if (operation->step == Operation::Step::kDone && operation->completions_due == 0 &&
      !operation->queued) {
    operations_.Release(operation);
  }
}

// The queue is bounded by the slots, and every entry by its own deadline.
void Reactor::QueueRetry(Operation* operation) {
  operation->retry_deadline_ns = MonotonicNs() + retry_limit_ns_;
  operation->queued = true;
  operation->next = nullptr;
  if (retry_head_ == nullptr) {
    retry_head_ = operation;
  } else {
    retry_tail_->next = operation;
  }
  retry_tail_ = operation;
}

void Reactor::ForEachUntold(const OperationOwner* owner,
                            absl::FunctionRef<void(const Operation&)> visit) const {
  for (const Operation* at = retry_head_; at != nullptr; at = at->next) {
    if (at->owner == owner && at->completions_due == 0) visit(*at);
  }
}

void Reactor::ForEachUndelivered(const OperationOwner* owner,
                                 absl::FunctionRef<void(const Operation&)> visit) const {
  operations_.ForEachOf(owner, [&](const Operation& operation) {
    if (operation.step == Operation::Step::kSend && !operation.queued) visit(operation);
  });
}

// Tries every entry once, so that one peer that takes nothing does not hold up the others.
void Reactor::RunRetries(int64_t now_ns) {
  Operation* rest = retry_head_;
  retry_head_ = nullptr;
  retry_tail_ = nullptr;
  while (rest != nullptr) {
    Operation* operation = rest;
    rest = operation->next;
    const int64_t deadline_ns = operation->retry_deadline_ns;
    operation->queued = false;
    operation->next = nullptr;
    if (operation->owner == nullptr) operation->step = Operation::Step::kDone;
    if (operation->step == Operation::Step::kDone) {
      ReleaseIfDone(operation);
      continue;
    }
    if (now_ns > deadline_ns) {
      Fail(operation, absl::DeadlineExceededError(absl::StrCat(
                          "posting ", operation->notifier->what(),
                          ": the provider refused it (-FI_EAGAIN) for ",
                          retry_limit_ns_ / 1'000'000, " ms; the peer takes nothing")));
      ReleaseIfDone(operation);
      continue;
    }
    PostStep(operation);
    // A refusal starts no new deadline.
    if (operation->queued) operation->retry_deadline_ns = deadline_ns;
  }
}

}  // namespace invoker::transport
