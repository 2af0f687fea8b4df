#include "src/invoke/session/call_table.h"

#include <algorithm>
#include <utility>

namespace invoker {

bool CallTable::AddSlot() {
  if (calls_.size() >= kMostCalls) return false;
  Call& call = calls_.emplace_back();
  call.index = static_cast<uint16_t>(calls_.size() - 1);
  free_calls_.push_back(&call);
  return true;
}

// In a sound session a request comes to be so far behind only while it waits to be posted again and
// others leave. Bulk calls take long, so many others may overtake them.
bool CallTable::MayBegin() {
  uint64_t longest_ago = 0;
  for (const Call& call : calls_) {
    const bool waits = call.state == Call::State::kOutstanding ||
                       (call.state == Call::State::kTimedOut && !call.answered);
    if (waits && (call.flags & kBulk) == 0) {
      longest_ago = std::max(longest_ago, next_sequence_ - call.sequence);
    }
  }
  limit_ = next_sequence_ - longest_ago + kMostCalls;
  return longest_ago < kMostCalls;
}

void CallTable::ForgetResponses() {
  std::fill(by_response_cell_.begin(), by_response_cell_.end(), nullptr);
}

void CallTable::EndEarly(Call* call, absl::Status status) {
  assert(call->state == Call::State::kOutstanding);
  call->status = std::move(status);
  call->state = Call::State::kTimedOut;
  ++late_;
  --outstanding_;
  Tell(call);
}

void CallTable::EndLate(Call* call) {
  assert(call->state == Call::State::kTimedOut);
  call->answered = false;
  call->state = Call::State::kDone;
  --late_;
  if (call->detached) Free(call);
}

// The slot of a call whose response is still to come waits for that.
void CallTable::Detach(Call* call) {
  call->waiter = nullptr;
  call->on_done = nullptr;
  call->detached = true;
  if (call->state == Call::State::kOutstanding) EndEarly(call, absl::OkStatus());
}

}  // namespace invoker
