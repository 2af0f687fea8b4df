// A peer's memory that we may write to: the only place where a remote address is computed.

#ifndef INVOKER_SRC_TRANSPORT_FABRIC_REMOTE_WINDOW_H_
#define INVOKER_SRC_TRANSPORT_FABRIC_REMOTE_WINDOW_H_

#include <cstdint>

#include "src/transport/base/libfabric.h"

namespace invoker::transport {

struct RemoteWindow {
  fi_addr_t peer = FI_ADDR_UNSPEC;
  uint64_t base = 0;    // what the owner said to add offsets to
  uint64_t length = 0;  // bytes
  uint64_t key = 0;
  // With send-after-write, up to so many bytes may go inside the send: what both sides' rings take
  // (Reactor::eager_bytes). 0: none.
  uint32_t eager_bytes = 0;
  // With write-with-immediate, a write that the provider does not inject whole goes in pieces if it
  // has up to so many bytes (Reactor::may_send_pieces). 0: none does.
  uint64_t pieces_up_to = 0;

  // Whether [offset, offset + size) lies inside. Cannot overflow.
  bool Contains(uint64_t offset, uint64_t size) const {
    return size <= length && offset <= length - size;
  }

  // Only for an offset that Contains() has accepted.
  uint64_t AddressOf(uint64_t offset) const { return base + offset; }
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_FABRIC_REMOTE_WINDOW_H_
