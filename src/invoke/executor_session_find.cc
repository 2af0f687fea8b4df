// ExecutorSession: what has become of a request, for a client that fears that it is lost.

#include "src/invoke/executor_session.h"

namespace invoker {

bootstrap::RequestState ExecutorSession::FindRequest(uint64_t sequence) const {
  if (!sequences_.Seen(sequence)) {
    // Which they are that wait is not known before their turn.
    return waiting_.empty() ? bootstrap::RequestState::kNotArrived
                            : bootstrap::RequestState::kInHand;
  }
  if (bulk_ != nullptr && bulk_->Has(sequence)) return bootstrap::RequestState::kInHand;
  // What others' operations keep from being posted says nothing of the path. It does not wait for
  // ever: a post that is refused fails in the end, and the session with it.
  return ResponseWaits(sequence) ? bootstrap::RequestState::kInHand
                                 : bootstrap::RequestState::kAnswered;
}

bool ExecutorSession::ResponseWaits(uint64_t sequence) const {
  bool waits = false;
  const auto look = [&](CellRun run) {
    for (uint32_t cell = run.first; !waits && run.Contains(cell);) {
      ResponseHeader header;
      const HeaderSnapshot snapshot =
          HeaderSnapshot::Take(staging_.data() + geometry_.OffsetOf(cell));
      if (DecodeResponse(snapshot, &header) != WireError::kNone) break;
      waits = header.sequence == sequence;
      cell += geometry_.CellsFor(geometry_.MessageBytes(header.payload_bytes));
    }
  };
  responses_.ForEachPending(look);
  parts_.reactor->ForEachUntold(
      this, [&](const transport::Operation& operation) { look(CellRun::FromTag(operation.tag)); });
  return waits;
}

}  // namespace invoker
