// ClientSession: what a PathCheck needs to know.

#include <algorithm>

#include "src/invoke/client_session.h"

namespace invoker {

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
  }
  view.oldest = next_sequence_ - longest_ago;
  const uint64_t held =
      uint64_t{2} * geometry_.cells() - request_cells_.free_cells() - response_cells_.free_cells();
  view.bytes = held * geometry_.cell_bytes();
  return view;
}

}  // namespace invoker
