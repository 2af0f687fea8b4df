// The calls of a client's session: their slots, sequences, states and deadlines.
//
// A slot goes kFree -> kOutstanding (Begin) -> kDone (End) -> kFree (Release). A call that ends
// before its response goes kOutstanding -> kTimedOut (EndEarly) -> kDone (EndLate).
//
// Not thread-safe. Slots never move. Allocates only when more calls are under way than ever before.

#ifndef INVOKER_SRC_INVOKE_SESSION_CALL_TABLE_H_
#define INVOKER_SRC_INVOKE_SESSION_CALL_TABLE_H_

#include <cassert>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "invoker/response.h"
#include "src/invoke/session/call.h"
#include "src/invoke/wire/sequence_window.h"

namespace invoker {

class CallTable {
 public:
  // The executor recognizes a replay only this far back, so no more calls may be under way.
  static constexpr uint64_t kMostCalls = SequenceWindow::kWidth;

  // `cells` of the response window.
  CallTable(uint32_t cells, uint64_t first_sequence)
      : next_sequence_(first_sequence),
        limit_(first_sequence + kMostCalls),
        by_response_cell_(cells, nullptr) {}

  // The next Begin must ask MayBegin first.
  bool at_limit() const { return next_sequence_ == limit_; }
  void StopAtNext() { limit_ = next_sequence_; }
  // Whether the executor can still tell the oldest unanswered request from a replay when it sees
  // the next one. Sets the next limit.
  bool MayBegin();

  // Takes a slot for a call whose response comes to `response`. nullptr if kMostCalls are taken.
  ABSL_ATTRIBUTE_ALWAYS_INLINE Call* Begin(HeldCells response) {
    if (ABSL_PREDICT_FALSE(free_calls_.empty()) && !AddSlot()) return nullptr;
    assert(response.first < by_response_cell_.size());
    Call* call = free_calls_.back();
    free_calls_.pop_back();
    call->state = Call::State::kOutstanding;
    call->detached = false;
    call->sequence = next_sequence_++;
    call->response = response;
    by_response_cell_[response.first] = call;
    ++outstanding_;
    return call;
  }

  // The call that waits for a response at this cell of the response window; nullptr if there is
  // none.
  Call* AtResponseCell(uint32_t cell) const {
    assert(cell < by_response_cell_.size());
    return by_response_cell_[cell];
  }
  void ResponseHasCome(uint32_t cell) { by_response_cell_[cell] = nullptr; }
  // From now on no call waits for a response. The session has failed.
  void ForgetResponses();

  // The response, or the end of the session, has come. `call->status` and the payload are set.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void End(Call* call) {
    assert(call->state == Call::State::kOutstanding);
    call->state = Call::State::kDone;
    --outstanding_;
    Tell(call);
  }
  // Ends a call for its caller before its response has come.
  void EndEarly(Call* call, absl::Status status);
  // The response of a call that ended early has come.
  void EndLate(Call* call);

  // Its caller gives back a call in any state.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Release(Call* call) {
    if (ABSL_PREDICT_FALSE(call->state != Call::State::kDone)) return Detach(call);
    Free(call);
  }

  // Ends with `end` every outstanding call whose deadline is not after `now_ns`.
  template <typename End>
  void EndOverdue(int64_t now_ns, End end) {
    if (earliest_deadline_ns_ == 0 || now_ns < earliest_deadline_ns_) return;
    earliest_deadline_ns_ = 0;
    for (Call& call : calls_) {
      if (call.state != Call::State::kOutstanding || call.deadline_ns == 0) continue;
      if (call.deadline_ns <= now_ns) {
        end(&call);
      } else {
        NoteDeadline(call.deadline_ns);
      }
    }
  }
  // An outstanding call has this deadline.
  void NoteDeadline(int64_t deadline_ns) {
    if (earliest_deadline_ns_ == 0 || deadline_ns < earliest_deadline_ns_) {
      earliest_deadline_ns_ = deadline_ns;
    }
  }

  // Every slot, free ones too.
  std::deque<Call>& slots() { return calls_; }
  const std::deque<Call>& slots() const { return calls_; }

  uint64_t next_sequence() const { return next_sequence_; }
  // Calls whose callers still wait.
  uint32_t outstanding() const { return outstanding_; }
  // Calls in kTimedOut.
  uint32_t late() const { return late_; }
  // Moves whenever a call begins or ends: twice the calls begun, less those that have not ended.
  uint64_t changes() const { return 2 * next_sequence_ - outstanding_; }
  // Calls that have ended and have an on_done. The caller runs the callbacks and clears this.
  std::vector<Call*>& finished() { return finished_; }

 private:
  bool AddSlot();
  void Detach(Call* call);
  void Free(Call* call) {
    call->state = Call::State::kFree;
    call->waiter = nullptr;
    if (call->on_done) call->on_done = nullptr;
    if (!call->status.ok()) call->status = absl::OkStatus();
    free_calls_.push_back(call);
  }
  // Tells a call's caller that it has ended.
  void Tell(Call* call) {
    if (call->waiter != nullptr) call->waiter->Wake();
    if (call->on_done) finished_.push_back(call);
  }

  uint64_t next_sequence_;
  uint64_t limit_;  // the next sequence that MayBegin is to look at
  std::deque<Call> calls_;
  std::vector<Call*> free_calls_;
  std::vector<Call*> by_response_cell_;
  std::vector<Call*> finished_;
  uint32_t outstanding_ = 0;
  uint32_t late_ = 0;
  int64_t earliest_deadline_ns_ = 0;  // no call's deadline is before it; 0: none has one
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_CALL_TABLE_H_
