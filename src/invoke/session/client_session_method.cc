// ClientSession: messages that are too long for the shortest way.

#include <cstring>
#include <optional>

#include "src/invoke/session/client_session.h"

namespace invoker {

bool ClientSession::may_send_pieces() const {
  return reactor_->profile().may_send_pieces && notification_ == transport::Notification::kWriteImm;
}

void ClientSession::set_pieces_up_to(uint64_t payload_bytes) {
  pieces_up_to_ = payload_bytes;
  requests_->set_pieces_up_to(
      payload_bytes == 0 ? 0 : geometry_.MessageBytes(static_cast<uint32_t>(payload_bytes)));
}

void ClientSession::AddSpecial(const Request& request, const Call& call, uint32_t deadline_us,
                               bool alone) {
  const RequestHeader header = HeaderOf(request, call, deadline_us);
  const uint32_t cell = call.request.first;
  const uint32_t repeat = requests_->PutHeader(cell, Pack(header));
  // What has been injected is never read again.
  if (alone && repeat != 0 &&
      requests_->InjectRepeat(header.kind, cell, request.input.data(), header.payload_bytes,
                              repeat)) {
    return;
  }
  std::byte* const message = staging_.data() + geometry_.OffsetOf(cell);
  CopyInput(request, call, message);
  if (authenticators_ != nullptr) authenticators_->requests.Close(message, header.payload_bytes);
  const auto message_bytes = static_cast<uint32_t>(geometry_.MessageBytes(header.payload_bytes));
  requests_->AddRepeat(header.kind, cell, message_bytes, repeat);
}

// Takes a token that is no doorbell of a whole response of this session.
void ClientSession::TakeRareToken(uint64_t token) {
  const auto low = static_cast<uint32_t>(token);
  if (low >> kCellBits != response_mark_) {
    ++dropped_.unknown_session;
    return;
  }
  const auto upper = static_cast<uint32_t>(token >> 32);
  const bool means_nothing = reactor_->profile().immediate_bytes < sizeof(token);
  if (means_nothing || RestoreSequence(Immediate::Split(low).cell, upper)) OnToken(low);
}

// A response has come without its header. Makes the header whole that the window has, if it may be
// the response's: it is validated then as any other.
bool ClientSession::RestoreSequence(uint32_t cell, uint32_t upper) {
  const std::optional<HeaderRepeat> repeat = HeaderRepeat::Decode(upper);
  if (!repeat.has_value() || !requests_->repeats_headers()) {
    ++dropped_.not_a_header;
    return false;
  }
  if (!geometry_.Fits(cell, kHeaderBytes)) {
    ++dropped_.outside_window;
    return false;
  }
  std::byte* const header = responses_.data() + geometry_.OffsetOf(cell);
  if (!MayBeRepeated(header)) {
    ++dropped_.not_a_header;
    return false;
  }
  if (!repeat->IsOfEpoch(epoch_)) {
    ++dropped_.wrong_epoch;
    return false;
  }
  if (by_response_cell_[cell] == 0) {
    ++dropped_.no_such_call;
    return false;
  }
  const uint64_t sequence = by_index_[by_response_cell_[cell] - 1]->sequence;
  if (static_cast<uint16_t>(sequence) != repeat->sequence) {
    ++dropped_.wrong_sequence;
    return false;
  }
  wire_internal::Store(sequence, header + kSequenceOffset);
  return true;
}

uint32_t ClientSession::Detail(const Call& call) const {
  ResponseHeader header;
  const std::byte* const from = responses_.data() + geometry_.OffsetOf(call.response.first);
  return DecodeResponse(HeaderSnapshot::Take(from), &header) == WireError::kNone ? header.detail
                                                                                 : 0;
}

}  // namespace invoker
