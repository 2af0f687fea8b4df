#include "src/invoke/session/driver/lent_memory.h"

#include "absl/time/time.h"

namespace invoker {

void LentMemory::Settle(ClientSession* session, transport::Reactor* reactor) {
  constexpr absl::Duration kLimit = absl::Milliseconds(150);
  session->PostQuiesceWrite();
  settled_ = reactor->AwaitQuiesceWrite(kLimit);
  quiet_ = settled_;
  if (settled_) return;
  // Transfers to a reactor that is never driven again stay in others' way, where they wait for this
  // side to take part.
  if (!reactor->profile().close_needs_quiet) LetTransfersEnd(reactor);
  reactor->QuarantineEndpoint();
}

void LentMemory::LetTransfersEnd(transport::Reactor* reactor) {
  constexpr int kPolls = 64;
  for (int i = 0; i < kPolls && !reactor->endpoint_quarantined(); ++i) reactor->Poll();
}

}  // namespace invoker
