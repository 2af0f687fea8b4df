// ClientSession: calls that end for their callers before their responses have come.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/invoke/session/client_session.h"

namespace invoker {
namespace {

// At a time. Each takes a slot of the reactor's until the executor's side has taken it, which on
// some fabrics is not before a function there ends, and requests need slots too.
constexpr uint32_t kMostMarks = 64;

// Of one call's mark. Each waits until the one before has been delivered.
constexpr uint8_t kMostRepeats = 8;

}  // namespace

// Whether the worker may hear of the request. What waits to be posted, or to be posted again, is
// still in staging alone, and can be changed there.
bool ClientSession::HasLeft(const Call& call) const {
  const uint32_t cell = call.request.first;
  if (requests_->IsPending(cell)) return false;
  bool waits = false;
  reactor_->ForEachUntold(this, [&](const transport::Operation& operation) {
    const CellRun run = CellRun::FromTag(operation.tag);
    if ((operation.tag & kMarkTag) != 0 || !run.Contains(cell)) return;
    // Of a message that goes in pieces, some may have left; and where the token goes after the
    // write, the write may have. One without its header does not take the flag along.
    const bool whole = operation.step == transport::Operation::Step::kWrite &&
                       operation.source == staging_.data() + geometry_.OffsetOf(run.first);
    waits = waits || whole;
  });
  return !waits;
}

// Marks the request as cancelled: here if it has not left, else in the worker's window, by one byte
// that lands before or after the worker has looked. Where too many are under way, or there is no
// room to post one, the call is left to itself.
CallFate ClientSession::Withdraw(Call* call) {
  const bool has_left = HasLeft(*call);
  const uint64_t offset = geometry_.OffsetOf(call->request.first) + kFlagsOffset;
  std::byte* const flags = staging_.data() + offset;
  *flags |= static_cast<std::byte>(kCancelled);
  if (!has_left) {
    requests_->TakeHeaderAlong(call->request.first);
    return CallFate::kNotSent;
  }
  call->marks = 0;
  if (marks_ < kMostMarks) PostMark(call);
  return CallFate::kMaybeExecuted;
}

void ClientSession::PostMark(Call* call) {
  const uint64_t offset = geometry_.OffsetOf(call->request.first) + kFlagsOffset;
  call->marking = reactor_->PostTransfer(transport::TransferDirection::kWrite, requests_->window(),
                                         offset, staging_.data() + offset, staging_.descriptor(),
                                         /*length=*/1, this, kMarkTag | call->index);
  marks_ += call->marking ? 1 : 0;
}

void ClientSession::EndEarly(Call* call, absl::StatusCode code, absl::string_view what) {
  const CallFate fate = Withdraw(call);
  const absl::string_view so = fate == CallFate::kNotSent
                                   ? " before the request left; it will not be executed"
                                   : " before the response came; the function may have run";
  call->status = WithFate(absl::Status(code, absl::StrCat(what, so)), fate);
  call->state = Call::State::kTimedOut;
  ++late_;
  --outstanding_;
  ++changes_;
  if (call->waiter != nullptr) call->waiter->Wake();
  if (call->on_done) finished_.push_back(call);
}

bool ClientSession::marks_hold_room() const {
  return marks_ > 0 &&
         std::any_of(calls_.begin(), calls_.end(), [](const Call& call) { return call.answered; });
}

void ClientSession::OnTransferDone(uint64_t tag) {
  Call* const call = by_index_[tag & ~kMarkTag];
  call->marking = false;
  --marks_;
  if (call->answered) return FreeLate(call);
  // A request that went inside a send is put into its place only when the executor gets to it, and
  // then lies over a mark that has come before.
  const bool may_be_covered = notification_ == transport::Notification::kSendAfterWrite &&
                              requests_->window().eager_bytes > 0;
  if (may_be_covered && call->state == Call::State::kTimedOut && call->marks < kMostRepeats) {
    ++call->marks;
    PostMark(call);
  }
}

}  // namespace invoker
