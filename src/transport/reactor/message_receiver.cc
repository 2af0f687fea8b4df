#include "src/transport/reactor/message_receiver.h"

#include <cstring>

#include "src/transport/base/ring_message.h"

namespace invoker::transport {

std::optional<uint32_t> MessageReceiver::TakeReceive(void* context, size_t bytes,
                                                     ReactorCounters* counters) {
  std::optional<uint32_t> token;
  if (const auto message = ring_->Find(context, bytes); message.has_value()) {
    token = TakeMessage(*message, counters);
  } else {
    ++counters->stray_messages;
  }
  ring_->Recycle(context);
  return token;
}

std::optional<uint32_t> MessageReceiver::TakeMessage(absl::Span<const std::byte> message,
                                                     ReactorCounters* counters) {
  if (message.size() == kTokenBytes) {
    uint32_t token;
    memcpy(&token, message.data(), sizeof(token));
    return token;
  }
  RingHeader header;
  if (!DecodeRingHeader(message, &header)) {
    ++counters->stray_messages;
    return std::nullopt;
  }
  if (header.type == RingMessageType::kCheck) {
    // A nonce that is not awaited may be a late one, or anybody's.
    uint64_t nonce = header.key;
    const bool awaited = nonce != 0 && awaited_check_.compare_exchange_strong(nonce, 0);
    ++(awaited ? counters->checks : counters->stray_messages);
    return std::nullopt;
  }
  const RegionTable::Entry* region = regions_.Find(header.key);
  const absl::Span<const std::byte> body = message.subspan(kRingHeaderBytes);
  if (region != nullptr && region->Contains(header.offset, body.size())) {
    if (header.type == RingMessageType::kEager && region->role == RegionRole::kWindow) {
      memcpy(region->data + header.offset, body.data(), body.size());
      ++counters->eager_messages;
      return header.token;
    }
    if (header.type == RingMessageType::kAdd && region->role == RegionRole::kCounters &&
        header.offset % sizeof(uint64_t) == 0) {
      uint64_t value;
      memcpy(&value, body.data(), sizeof(value));
      // Other threads read it.
      __atomic_fetch_add(reinterpret_cast<uint64_t*>(region->data + header.offset), value,
                         __ATOMIC_RELEASE);
      ++counters->additions;
      return std::nullopt;
    }
  }
  ++counters->stray_messages;
  return std::nullopt;
}

}  // namespace invoker::transport
