#include "src/invoke/session/response_reader.h"

#include <cstring>
#include <utility>

namespace invoker {

ResponseReader::ResponseReader(transport::Reactor* reactor, transport::MemoryRegion window,
                               const WindowGeometry& geometry, uint16_t session)
    : reactor_(reactor),
      window_(std::move(window)),
      geometry_(geometry),
      payloads_(window_.data()),
      doorbell_(Immediate{MessageKind::kResponse, session, 0}.Encode() >> kCellBits) {}

ResponseReader::~ResponseReader() { reactor_->Retire(std::move(window_)); }

void ResponseReader::Attach(const WindowGeometry& geometry, uint32_t epoch,
                            const SessionAuthenticators* authenticators) {
  geometry_ = geometry;
  epoch_ = epoch;
  authenticators_ = authenticators;
  if (authenticators != nullptr && authenticators->copies.data() != nullptr) {
    payloads_ = authenticators->copies.data();
  }
}

// The run belongs to a call that still waits, so nobody else uses the place of the copy.
const std::byte* ResponseReader::Authenticate(HeaderSnapshot snapshot, uint32_t payload_bytes,
                                              uint32_t cell, const std::byte* payload) const {
  std::byte* copies = authenticators_->copies.data();
  std::byte* copy = copies == nullptr ? nullptr : copies + geometry_.OffsetOf(cell);
  return authenticators_->responses.Open(snapshot, payload, payload_bytes, copy);
}

// A call's place is nobody else's, and its own response has not come yet: nothing is lost there.
uint32_t ResponseReader::PutInPlace(uint32_t cell, const CallTable& calls) {
  const auto drop = [this](uint64_t ResponseDropCounters::*reason) {
    Drop(reason);
    return kMaxCells;
  };
  if (!geometry_.Fits(cell, kHeaderBytes)) return drop(&ResponseDropCounters::outside_window);
  const std::byte* const from = window_.data() + geometry_.OffsetOf(cell);
  HeaderSnapshot snapshot = HeaderSnapshot::Take(from);
  const std::optional<uint16_t> place = Relocation::Undo(&snapshot);
  if (!place.has_value() || authenticated()) return cell;
  ResponseHeader header;
  if (DecodeResponse(snapshot, &header) != WireError::kNone) {
    return drop(&ResponseDropCounters::not_a_header);
  }
  const uint64_t bytes = geometry_.MessageBytes(header.payload_bytes);
  if (bytes > Relocation::kMostBytes) return drop(&ResponseDropCounters::too_long);
  if (!geometry_.Fits(cell, bytes) || !geometry_.Fits(*place, kHeaderBytes)) {
    return drop(&ResponseDropCounters::outside_window);
  }
  if (Match(header, *place, calls) == nullptr) return kMaxCells;
  std::byte* const to = window_.data() + geometry_.OffsetOf(*place);
  memmove(to, from, bytes);
  snapshot.CopyTo(to);
  return *place;
}

std::optional<uint32_t> ResponseReader::CompleteHeader(uint64_t token, const CallTable& calls,
                                                       bool repeats_headers) {
  const auto low = static_cast<uint32_t>(token);
  if (!IsDoorbell(low)) {
    ++dropped_.unknown_session;
    return std::nullopt;
  }
  const bool means_nothing = reactor_->profile().immediate_bytes < sizeof(token);
  const auto upper = static_cast<uint32_t>(token >> 32);
  if (!means_nothing &&
      !CompleteHeaderAt(Immediate::Split(low).cell, upper, calls, repeats_headers)) {
    return std::nullopt;
  }
  return low;
}

bool ResponseReader::CompleteHeaderAt(uint32_t cell, uint32_t upper, const CallTable& calls,
                                      bool repeats_headers) {
  const std::optional<HeaderRepeat> repeat = HeaderRepeat::Decode(upper);
  if (!repeat.has_value() || !repeats_headers) return Drop(&ResponseDropCounters::not_a_header);
  if (!geometry_.Fits(cell, kHeaderBytes)) return Drop(&ResponseDropCounters::outside_window);
  std::byte* const header = window_.data() + geometry_.OffsetOf(cell);
  if (!MayBeRepeated(header)) return Drop(&ResponseDropCounters::not_a_header);
  if (!repeat->IsOfEpoch(epoch_)) return Drop(&ResponseDropCounters::wrong_epoch);
  const Call* const call = calls.AtResponseCell(cell);
  if (call == nullptr) return Drop(&ResponseDropCounters::no_such_call);
  if (static_cast<uint16_t>(call->sequence) != repeat->sequence) {
    return Drop(&ResponseDropCounters::wrong_sequence);
  }
  wire_internal::Store(call->sequence, header + kSequenceOffset);
  return true;
}

uint32_t ResponseReader::Detail(const Call& call) const {
  ResponseHeader header;
  const std::byte* const from = window_.data() + geometry_.OffsetOf(call.response.first);
  return DecodeResponse(HeaderSnapshot::Take(from), &header) == WireError::kNone ? header.detail
                                                                                 : 0;
}

}  // namespace invoker
