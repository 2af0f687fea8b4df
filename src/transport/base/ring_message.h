// What peers send to an endpoint's receive ring: tokens, whole messages, and additions to counters.
// docs/reference/wire_format.md, "Messages on the receive ring", is the specification.
//
// A message names memory as a remote write does, by key and offset, and so needs the same
// authority. What arrives is checked before it is used: any peer that reaches the endpoint may send
// anything.

#ifndef INVOKER_SRC_TRANSPORT_BASE_RING_MESSAGE_H_
#define INVOKER_SRC_TRANSPORT_BASE_RING_MESSAGE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"

namespace invoker::transport {

// A message of this length is a token and nothing else.
inline constexpr size_t kTokenBytes = 4;

// In front of everything else. Its bytes are followed by the payload (kEager), by the number to add
// (kAdd) or by nothing (kCheck).
inline constexpr size_t kRingHeaderBytes = 24;
inline constexpr size_t kAddMessageBytes = kRingHeaderBytes + sizeof(uint64_t);

// The longest message where up to `eager_bytes` go inside one.
inline constexpr size_t MaxRingMessageBytes(size_t eager_bytes) {
  return std::max(kRingHeaderBytes + eager_bytes, kAddMessageBytes);
}

// Zeroed memory is no message.
enum class RingMessageType : uint8_t { kEager = 1, kAdd = 2, kCheck = 3 };

struct RingHeader {
  RingMessageType type = RingMessageType::kEager;
  uint32_t token = 0;   // kEager: what the peer is told once the payload is in place; else 0
  uint64_t key = 0;     // the region that is meant; kCheck: the nonce of the check
  uint64_t offset = 0;  // in that region, in bytes; kCheck: 0
};

namespace ring_internal {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a big-endian host must swap here");

template <typename T>
void Put(std::byte* to, T value) {
  memcpy(to, &value, sizeof(value));
}

template <typename T>
T Get(const std::byte* from) {
  T value;
  memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace ring_internal

// `to` has kRingHeaderBytes.
inline void EncodeRingHeader(const RingHeader& header, std::byte* to) {
  ring_internal::Put<uint32_t>(to, static_cast<uint8_t>(header.type));
  ring_internal::Put(to + 4, header.token);
  ring_internal::Put(to + 8, header.key);
  ring_internal::Put(to + 16, header.offset);
}

// `to` has kAddMessageBytes.
inline void EncodeAdd(uint64_t key, uint64_t offset, uint64_t value, std::byte* to) {
  EncodeRingHeader({RingMessageType::kAdd, 0, key, offset}, to);
  ring_internal::Put(to + kRingHeaderBytes, value);
}

// `to` has kRingHeaderBytes, which is all of the message.
inline void EncodeCheck(uint64_t nonce, std::byte* to) {
  EncodeRingHeader({RingMessageType::kCheck, 0, nonce, 0}, to);
}

// False for anything that is not a header with a defined type and zeros where they must be. Key and
// offset are still to be checked against what exists.
inline bool DecodeRingHeader(absl::Span<const std::byte> message, RingHeader* header) {
  if (message.size() < kRingHeaderBytes) return false;
  const uint32_t type = ring_internal::Get<uint32_t>(message.data());
  header->token = ring_internal::Get<uint32_t>(message.data() + 4);
  header->key = ring_internal::Get<uint64_t>(message.data() + 8);
  header->offset = ring_internal::Get<uint64_t>(message.data() + 16);
  switch (type) {
    case static_cast<uint32_t>(RingMessageType::kEager):
      header->type = RingMessageType::kEager;
      return true;
    case static_cast<uint32_t>(RingMessageType::kAdd):
      header->type = RingMessageType::kAdd;
      return header->token == 0 && message.size() == kAddMessageBytes;
    case static_cast<uint32_t>(RingMessageType::kCheck):
      header->type = RingMessageType::kCheck;
      return header->token == 0 && header->offset == 0 && message.size() == kRingHeaderBytes;
    default:
      return false;
  }
}

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_BASE_RING_MESSAGE_H_
