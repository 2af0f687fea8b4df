// ClientSession: how far calls are behind one another, and what a PathCheck needs to know.

#include <algorithm>

#include "src/invoke/session/client_session.h"

namespace invoker {

// Whether the worker could still tell the oldest request under way from a replay behind the next
// one. In a sound session it is only a request that waits to be posted again, while others leave,
// that comes to be so far behind. A bulk call is behind many others because it takes so long.
bool ClientSession::MayStart() {
  if (look_due_) return false;
  uint64_t longest_ago = 0;
  for (const Call& call : calls_) {
    const bool waits = call.state == Call::State::kOutstanding ||
                       (call.state == Call::State::kTimedOut && !call.answered);
    if (waits && (call.flags & kBulk) == 0) {
      longest_ago = std::max(longest_ago, next_sequence_ - call.sequence);
    }
  }
  limit_ = next_sequence_ - longest_ago + SequenceWindow::kWidth;
  return longest_ago < SequenceWindow::kWidth;
}

PathView ClientSession::ViewPath(uint64_t known_answers) const {
  PathView view;
  view.answers = answers_;
  view.turns = reactor_->counters().turns;
  view.under_way = !answered() && failure_.ok();
  if (!view.under_way || answers_ != known_answers) return view;
  uint64_t longest_ago = 0;
  for (const Call& call : calls_) {
    if (call.state != Call::State::kOutstanding && call.state != Call::State::kTimedOut) continue;
    longest_ago = std::max(longest_ago, next_sequence_ - call.sequence);
    view.bytes += (uint64_t{call.request.cells} + call.response.cells) * geometry_.cell_bytes();
  }
  view.oldest = next_sequence_ - longest_ago;
  return view;
}

}  // namespace invoker
