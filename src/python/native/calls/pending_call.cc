#include "src/python/native/calls/pending_call.h"

namespace invoker::python {

void PendingCall::End(absl::StatusOr<Response> response) {
  if (!response.ok()) {
    response_ = response.status();
  } else {
    session_ = response->session();
    if (kept_ != nullptr && kept_->large) {
      kept_->response.Truncate(response->size());
      response_ = std::move(kept_->response);
    } else {
      response_ = Memory::CopyOf(response->data());
    }
  }
  kept_.reset();
  const State before = state_.exchange(State::kEnded);
  if (before == State::kWatched) {
    // The queue may outlive the one that watches, but not the other way round.
    queue_->Push(token_);
    queue_.reset();
  }
  if (waiters_.load() != 0) over_.Set();
}

bool PendingCall::Watch(std::shared_ptr<EndedQueue> queue, uint64_t token) {
  queue_ = std::move(queue);
  token_ = token;
  State expected = State::kUnderWay;
  if (state_.compare_exchange_strong(expected, State::kWatched)) return true;
  queue_.reset();
  return false;
}

void PendingCall::Await(absl::Duration limit) {
  waiters_.fetch_add(1);
  // End sees the waiter, or this sees the end.
  if (state_.load() != State::kEnded) over_.Wait(limit);
  waiters_.fetch_sub(1);
}

}  // namespace invoker::python
