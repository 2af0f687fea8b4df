// ExecutorSession: what waits for the session's turn.

#include <algorithm>

#include "src/invoke/executor/session/executor_session.h"

namespace invoker {

// Whether others are to go first now. Of the clock, Run reads no more for it than it would anyway.
bool ExecutorSession::QuantumIsOver() {
  if (quantum_left_ <= 0) return true;
  if (!clock_is_now_ && unclocked_ == 0) {
    clock_ns_ = transport::MonotonicNs();
    clock_is_now_ = true;
  }
  return clock_ns_ - std::max(turn_began_ns_, quantum_began_ns_) > kQuantumNs;
}

// Of the write at hand, from `cell` on.
void ExecutorSession::LeaveRest(MessageKind kind, uint32_t cell) {
  if (!geometry_.Fits(cell, kHeaderBytes)) return Drop(&DropCounters::outside_window);
  waiting_.PushFront({kind, cell, turn_began_ns_});
  parts_.ring->Join(this);
}

void ExecutorSession::Wait(MessageKind kind, uint32_t cell, int64_t arrived_ns) {
  if (!geometry_.Fits(cell, kHeaderBytes)) return Drop(&DropCounters::outside_window);
  waiting_.Push({kind, cell, arrived_ns});
  parts_.ring->Join(this);
}

int32_t ExecutorSession::Serve() {
  BeginQuantum();
  clock_ns_ = quantum_began_ns_ = transport::MonotonicNs();
  clock_is_now_ = true;
  unclocked_ = 0;
  bool over = false;
  while (!over && !waiting_.empty()) {
    const DoorbellQueue::Doorbell doorbell = waiting_.Pop();
    OnDoorbell(doorbell.kind, doorbell.cell, doorbell.arrived_ns);
    over = QuantumIsOver();
  }
  if (!waiting_.empty()) parts_.ring->Join(this);
  return over ? kQuantumCalls : kQuantumCalls - quantum_left_;
}

}  // namespace invoker
