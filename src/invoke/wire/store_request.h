// Requests to an executor's data store (kStore): their payloads. docs/reference/wire_format.md is
// the specification.

#ifndef INVOKER_SRC_INVOKE_WIRE_STORE_REQUEST_H_
#define INVOKER_SRC_INVOKE_WIRE_STORE_REQUEST_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace invoker {

// What data in a store is found by, chosen at random by the client that puts it there.
using DataId = std::array<std::byte, 16>;

// The function id of a request with kStore. Numbers are part of the format: append, never renumber.
enum class StoreOperation : uint16_t {
  kPut = 0,   // the payload: EncodePutHead, then the value
  kFree = 1,  // the payload: a DataId
};

struct PutRequest {
  DataId id;
  absl::string_view type;             // the value's, as in a signature
  absl::Span<const std::byte> value;  // begins at a multiple of 8 from the request's first byte
};

// What lies before the value.
size_t PutHeadBytes(absl::string_view type);
// Writes exactly so many bytes at `to`.
void EncodePutHead(const DataId& id, absl::string_view type, std::byte* to);

// Reads a request that a peer may be changing. False if it is none. The type and the value point
// into it.
[[nodiscard]] bool DecodePut(absl::Span<const std::byte> request, PutRequest* put);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_WIRE_STORE_REQUEST_H_
