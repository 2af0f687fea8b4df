// ExecutorSession: probes, and messages that are too long for the shortest way.

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "src/invoke/executor/session/executor_session.h"
#include "src/transport/self_test/method_trial.h"

namespace invoker {

void ExecutorSession::AnswerProbe(RequestHeader request, const std::byte* payload) {
  heard_ = true;
  if (request.function_id != 0 && responses_.may_send_pieces()) {
    const uint64_t wanted = (request.function_id - uint64_t{1}) * kPiecesUnit;
    const uint64_t most = transport::MethodTrial::kLongest * parts_.reactor->profile().inject_bytes;
    const auto bytes = static_cast<uint32_t>(std::min(wanted, most));
    responses_.set_pieces_up_to(bytes == 0 ? 0 : geometry_.MessageBytes(bytes));
  }
  const uint32_t bytes = std::min(request.payload_bytes, request.response_capacity);
  memcpy(staging_.data() + geometry_.OffsetOf(request.response_cell) + kHeaderBytes, payload,
         bytes);
  RespondTo(request, StatusCode::kOk, bytes, static_cast<uint32_t>(sched_getcpu() + 1));
}

void ExecutorSession::AddSpecial(ResponseHeader header, uint32_t cell) {
  const uint32_t repeat = responses_.PutHeader(cell, Pack(header));
  if (authenticators_ != nullptr) {
    authenticators_->responses.Close(staging_.data() + geometry_.OffsetOf(cell),
                                     header.payload_bytes);
  }
  const auto message_bytes = static_cast<uint32_t>(geometry_.MessageBytes(header.payload_bytes));
  responses_.AddRepeat(MessageKind::kResponse, cell, message_bytes, repeat);
}

bool ExecutorSession::RestoreSequence(uint32_t cell, uint32_t upper) {
  const std::optional<HeaderRepeat> repeat = HeaderRepeat::Decode(upper);
  if (!repeat.has_value() || !responses_.repeats_headers()) {
    Drop(&DropCounters::not_a_header);
    return false;
  }
  if (!geometry_.Fits(cell, kHeaderBytes)) {
    Drop(&DropCounters::outside_window);
    return false;
  }
  std::byte* const header = requests_.data() + geometry_.OffsetOf(cell);
  if (!MayBeRepeated(header)) {
    Drop(&DropCounters::not_a_header);
    return false;
  }
  if (!repeat->IsOfEpoch(parts_.epoch)) {
    Drop(&DropCounters::wrong_epoch);
    return false;
  }
  // A replay leaves the window as it is.
  const uint64_t sequence = sequences_.Nearest(repeat->sequence);
  if (!CountVerdict(sequences_.Judge(sequence))) return false;
  wire_internal::Store(sequence, header + kSequenceOffset);
  return true;
}

}  // namespace invoker
