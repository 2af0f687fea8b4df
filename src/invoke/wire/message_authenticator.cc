#include "src/invoke/wire/message_authenticator.h"

#include <sodium.h>

#include <array>
#include <atomic>
#include <cstring>

#include "src/base/random.h"

namespace invoker {
namespace {

static_assert(crypto_shorthash_siphash24_BYTES == kTagBytes, "the tag is the whole of the hash");
static_assert(crypto_shorthash_siphash24_KEYBYTES == kDataKeyBytes, "a key is SipHash's");

using Tag = std::array<std::byte, kTagBytes>;

const unsigned char* Raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

Tag Compute(const DataKey& key, const std::byte* bytes, size_t size) {
  Tag tag;
  crypto_shorthash_siphash24(reinterpret_cast<unsigned char*>(tag.data()), Raw(bytes), size,
                             Raw(key.data()));
  return tag;
}

// The header as it was when its message was authenticated.
HeaderSnapshot WithoutMutableFlags(const HeaderSnapshot& header) {
  HeaderSnapshot covered = header;
  covered.data()[kFlagsOffset] &= ~static_cast<std::byte>(kUnauthenticatedFlags);
  return covered;
}

}  // namespace

MessageAuthenticator::MessageAuthenticator(DataAuth auth, const DataKey& key)
    : covers_payload_(auth == DataAuth::kFull), key_(key) {}

MessageAuthenticator::~MessageAuthenticator() { sodium_memzero(key_.data(), key_.size()); }

void MessageAuthenticator::Close(std::byte* message, uint32_t payload_bytes) const {
  const Tag tag =
      Compute(key_, message, size_t{kHeaderBytes} + (covers_payload_ ? payload_bytes : 0));
  memcpy(message + kHeaderBytes + payload_bytes, tag.data(), kTagBytes);
}

const std::byte* MessageAuthenticator::Open(const HeaderSnapshot& header, const std::byte* payload,
                                            uint32_t payload_bytes, std::byte* copy) const {
  Tag given;
  memcpy(given.data(), payload + payload_bytes, kTagBytes);
  // The tag lies behind the payload: where a fabric places the bytes of a write in their order, the
  // payload that is read after it is there as well, however early the doorbell was.
  std::atomic_thread_fence(std::memory_order_acquire);
  const HeaderSnapshot covered = WithoutMutableFlags(header);
  Tag wanted;
  if (covers_payload_) {
    memcpy(copy, covered.data(), kHeaderBytes);
    memcpy(copy + kHeaderBytes, payload, payload_bytes);
    // What is checked is the copy, and it is made once.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    wanted = Compute(key_, copy, size_t{kHeaderBytes} + payload_bytes);
  } else {
    wanted = Compute(key_, covered.data(), kHeaderBytes);
  }
  // In a time that says nothing of how much of it was right.
  if (sodium_memcmp(given.data(), wanted.data(), kTagBytes) != 0) return nullptr;
  return covers_payload_ ? copy + kHeaderBytes : payload;
}

absl::StatusOr<DataKeys> DrawDataKeys() {
  DataKeys keys;
  absl::Status status = transport::FillRandom(absl::MakeSpan(keys.request));
  if (status.ok()) status = transport::FillRandom(absl::MakeSpan(keys.response));
  if (!status.ok()) return status;
  return keys;
}

void Wipe(DataKeys* keys) { sodium_memzero(keys, sizeof(*keys)); }

}  // namespace invoker
