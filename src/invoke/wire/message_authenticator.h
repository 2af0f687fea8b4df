// The keyed tag of a message: SipHash-2-4 (libsodium's), 64 bits, behind the payload. A peer that
// has no key of the session cannot make a message that passes, even with the memory key of the
// window and everything else that is in the header. docs/reference/wire_format.md says what is
// under the tag.
//
// Constant once made; any thread. Wipes its keys.

#ifndef INVOKER_SRC_INVOKE_WIRE_MESSAGE_AUTHENTICATOR_H_
#define INVOKER_SRC_INVOKE_WIRE_MESSAGE_AUTHENTICATOR_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "invoker/data_auth.h"
#include "src/bootstrap/messages/data_keys.h"
#include "src/invoke/wire/wire.h"
#include "src/transport/fabric/memory_region.h"

namespace invoker {

class MessageAuthenticator {
 public:
  // kHeader or kFull.
  MessageAuthenticator(DataAuth auth, const DataKey& key);
  ~MessageAuthenticator();
  MessageAuthenticator(const MessageAuthenticator&) = delete;
  MessageAuthenticator& operator=(const MessageAuthenticator&) = delete;

  // Writes the tag behind the payload of a message that stands complete at `message`, in memory
  // that nobody else writes to. Its flags have none of kUnauthenticatedFlags yet.
  void Close(std::byte* message, uint32_t payload_bytes) const;

  // Checks what a peer can write to. Returns the payload that may be used: in kFull that of a
  // private copy, which is made at `copy` (header and payload) before it is checked; in kHeader
  // `payload` itself, which is not under the tag, but was placed before it where a fabric places
  // the bytes of a write in their order. nullptr if the tag is wrong, or not there yet.
  [[nodiscard]] const std::byte* Open(const HeaderSnapshot& header, const std::byte* payload,
                                      uint32_t payload_bytes, std::byte* copy) const;

 private:
  const bool covers_payload_;
  DataKey key_;
};

// What one end of a session with tags has.
struct SessionAuthenticators {
  SessionAuthenticators(DataAuth auth, const DataKeys& keys, transport::HostBuffer buffer)
      : requests(auth, keys.request), responses(auth, keys.response), copies(std::move(buffer)) {}

  MessageAuthenticator requests;
  MessageAuthenticator responses;
  // For private copies, in kFull: no peer can write to it.
  transport::HostBuffer copies;
};

// Two keys from the kernel's randomness. INTERNAL if there is none.
absl::StatusOr<DataKeys> DrawDataKeys();

// Overwrites keys that are not needed any more.
void Wipe(DataKeys* keys);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_WIRE_MESSAGE_AUTHENTICATOR_H_
