// ExecutorSession: what has become of a request, for a client that fears that it is lost.

#include "src/invoke/executor/session/executor_session.h"

namespace invoker {
namespace {

// Longer than it takes until operations to clients that have gone are written off.
constexpr int64_t kLongestDeliveryNs = 15'000'000'000;

}  // namespace

bootstrap::RequestState ExecutorSession::FindRequest(uint64_t sequence) {
  if (!sequences_.Seen(sequence)) {
    // Which they are that wait is not known before their turn.
    return waiting_.empty() ? bootstrap::RequestState::kNotArrived
                            : bootstrap::RequestState::kInHand;
  }
  if (bulk_ != nullptr && bulk_->Has(sequence)) return bootstrap::RequestState::kInHand;
  return Held(sequence) ? bootstrap::RequestState::kInHand : bootstrap::RequestState::kAnswered;
}

// Whether its response stands ready and has not been on its way yet, for a reason that says nothing
// of the path: others' operations may hold it up.
bool ExecutorSession::Held(uint64_t sequence) {
  bool held = false;
  const auto look = [&](CellRun run) {
    for (uint32_t cell = run.first; !held && run.Contains(cell);) {
      ResponseHeader header;
      const HeaderSnapshot snapshot =
          HeaderSnapshot::Take(staging_.data() + geometry_.OffsetOf(cell));
      if (DecodeResponse(snapshot, &header) != WireError::kNone) break;
      held = header.sequence == sequence;
      cell += geometry_.CellsFor(geometry_.MessageBytes(header.payload_bytes));
    }
  };
  const auto look_at = [&](const transport::Operation& operation) {
    look(CellRun::FromTag(operation.tag));
  };
  // The fabric has not taken it. Not for ever: a post that is refused fails in the end, and the
  // session with it.
  responses_.ForEachPending(look);
  parts_.reactor->ForEachUntold(this, look_at);
  if (held || !parts_.reactor->profile().same_host_only) return held;
  // Where no wire can be cut, what is not delivered waits behind others' operations, to clients
  // that take no part any more, until these are written off.
  parts_.reactor->ForEachUndelivered(this, look_at);
  const int64_t now_ns = transport::MonotonicNs();
  if (!held || undelivered_ != sequence) {
    undelivered_ = held ? sequence : 0;
    undelivered_since_ns_ = now_ns;
  }
  return held && now_ns - undelivered_since_ns_ < kLongestDeliveryNs;
}

}  // namespace invoker
