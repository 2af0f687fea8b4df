// Reactor: what peers have sent to the receive ring, from the completion to what becomes of it.

#include <cstring>

#include "src/transport/base/ring_message.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::transport {

void Reactor::HandleReceive(void* context, size_t bytes) {
  std::optional<uint32_t> token;
  if (const auto message = receives_->Find(context, bytes); message.has_value()) {
    token = TakeMessage(*message);
  } else {
    ++counters_.stray_messages;
  }
  // Before the handler, which may take long: others' messages need the buffer.
  receives_->Recycle(context);
  if (token.has_value()) handler_->OnToken(*token);
}

// A nonce that is not awaited may be a late one, or anybody's.
void Reactor::TakeCheck(uint64_t nonce) {
  const bool awaited = nonce != 0 && awaited_check_.compare_exchange_strong(nonce, 0);
  ++(awaited ? counters_.checks : counters_.stray_messages);
}

// The token that the handler is to be told, if any.
std::optional<uint32_t> Reactor::TakeMessage(absl::Span<const std::byte> message) {
  if (message.size() == kTokenBytes) {
    uint32_t token;
    memcpy(&token, message.data(), sizeof(token));
    return token;
  }
  RingHeader header;
  if (DecodeRingHeader(message, &header)) {
    if (header.type == RingMessageType::kCheck) {
      TakeCheck(header.key);
      return std::nullopt;
    }
    const RegionTable::Entry* region = regions_.Find(header.key);
    const absl::Span<const std::byte> body = message.subspan(kRingHeaderBytes);
    if (region != nullptr && region->Contains(header.offset, body.size())) {
      if (header.type == RingMessageType::kEager && region->role == RegionRole::kWindow) {
        memcpy(region->data + header.offset, body.data(), body.size());
        ++counters_.eager_messages;
        return header.token;
      }
      if (header.type == RingMessageType::kAdd && region->role == RegionRole::kCounters &&
          header.offset % kCounterBytes == 0) {
        uint64_t value;
        memcpy(&value, body.data(), sizeof(value));
        // Other threads read it.
        __atomic_fetch_add(reinterpret_cast<uint64_t*>(region->data + header.offset), value,
                           __ATOMIC_RELEASE);
        ++counters_.additions;
        return std::nullopt;
      }
    }
  }
  ++counters_.stray_messages;
  return std::nullopt;
}

}  // namespace invoker::transport
