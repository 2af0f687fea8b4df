// What a provider still has to do with a peer that we have let go of.

#ifndef INVOKER_SRC_TRANSPORT_BASE_PEER_USE_H_
#define INVOKER_SRC_TRANSPORT_BASE_PEER_USE_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "src/transport/base/libfabric.h"

namespace invoker::transport {

enum class PeerUse : uint8_t {
  kOutstanding,  // operations to it are outstanding
  kQuarantined,  // operations to it were written off, and nothing else is outstanding
};

// The peers that a provider has anything to do with; no other is listed.
using PeerUses = absl::flat_hash_map<fi_addr_t, PeerUse>;

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_BASE_PEER_USE_H_
