// Tells the worker that requests are cancelled, by a mark: the flags byte of a request, written
// again into the request window. The mark lands before or after the worker has looked.
//
// Not thread-safe. `sender` outlives this.

#ifndef INVOKER_SRC_INVOKE_SESSION_CANCELLATION_H_
#define INVOKER_SRC_INVOKE_SESSION_CANCELLATION_H_

#include <cstdint>

#include "invoker/call_fate.h"
#include "src/invoke/session/call.h"
#include "src/invoke/session/request_sender.h"

namespace invoker {

class Cancellation {
 public:
  // Marks under way at a time. Each takes a slot of the reactor's until the executor's side has
  // taken it, which on some fabrics is not before a function there ends. Requests need slots too.
  static constexpr uint32_t kMostMarks = 64;
  // Marks of one call. Each waits until the one before has been delivered.
  static constexpr uint8_t kMostRepeats = 8;

  explicit Cancellation(RequestSender* sender) : sender_(sender) {}

  // Cancels the request of an outstanding call. Returns kNotSent if it has not left: then the
  // worker will not execute it. Where too many marks are under way, or no slot is free, the worker
  // is not told.
  CallFate Withdraw(Call* call) {
    if (!sender_->MarkCancelled(call->request.first)) return CallFate::kNotSent;
    call->marks = 0;
    if (under_way_ < kMostMarks) Post(call);
    return CallFate::kMaybeExecuted;
  }

  // The mark of this call has landed. The call's cells may be freed if it has been answered.
  // Repeats the mark if the request may have been placed over it.
  void Landed(Call* call) {
    call->marking = false;
    --under_way_;
    const bool waits = call->state == Call::State::kTimedOut && !call->answered;
    if (!waits || !sender_->marks_may_be_covered() || call->marks >= kMostRepeats) return;
    ++call->marks;
    Post(call);
  }

  uint32_t under_way() const { return under_way_; }

 private:
  void Post(Call* call) {
    call->marking = sender_->PostMark(*call);
    under_way_ += call->marking ? 1 : 0;
  }

  RequestSender* sender_;
  uint32_t under_way_ = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_CANCELLATION_H_
