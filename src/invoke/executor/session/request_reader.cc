#include "src/invoke/executor/session/request_reader.h"

#include <cstring>
#include <optional>

namespace invoker {

// The sequence first: a doorbell that rings again for a message that was served costs no look at
// its payload.
RequestReader::Opened RequestReader::Open(HeaderSnapshot snapshot, uint64_t sequence,
                                          uint32_t payload_bytes, const std::byte* payload) const {
  if (const Drop drop = DropOf(sequences_.Judge(sequence)); drop != nullptr) {
    return {nullptr, drop};
  }
  return {authenticators_->requests.Open(snapshot, payload, payload_bytes,
                                         authenticators_->copies.data()),
          &DropCounters::bad_tag};
}

RequestReader::Drop RequestReader::RestoreSequence(uint32_t cell, uint32_t upper) {
  const std::optional<HeaderRepeat> repeat = HeaderRepeat::Decode(upper);
  if (!repeat.has_value()) return &DropCounters::not_a_header;
  if (!HasCell(cell)) return &DropCounters::outside_window;
  std::byte* const header = window_.data() + geometry_.OffsetOf(cell);
  if (!MayBeRepeated(header)) return &DropCounters::not_a_header;
  if (!repeat->IsOfEpoch(epoch_)) return &DropCounters::wrong_epoch;
  const uint64_t sequence = sequences_.Nearest(repeat->sequence);
  // A replay leaves the window as it is.
  if (const Drop drop = DropOf(sequences_.Judge(sequence)); drop != nullptr) return drop;
  wire_internal::Store(sequence, header + kSequenceOffset);
  return nullptr;
}

// The copies lie beside one another as the messages do in the window.
const std::byte* RequestReader::Keep(const RequestHeader& header, const std::byte* payload,
                                     uint32_t cell) const {
  if (authenticators_ == nullptr || authenticators_->copies.data() == nullptr) return payload;
  std::byte* const kept = authenticators_->copies.data() + geometry_.window_bytes() +
                          geometry_.OffsetOf(cell) + kHeaderBytes;
  memcpy(kept, payload, header.payload_bytes);
  return kept;
}

}  // namespace invoker
