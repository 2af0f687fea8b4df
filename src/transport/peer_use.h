// What a provider still has to do with a peer that we have let go of.

#ifndef INVOKER_SRC_TRANSPORT_PEER_USE_H_
#define INVOKER_SRC_TRANSPORT_PEER_USE_H_

#include <cstdint>

namespace invoker::transport {

enum class PeerUse : uint8_t {
  kNone,
  kOutstanding,  // operations to it are outstanding
  kWrittenOff,   // operations to it were written off, and nothing else is outstanding
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_PEER_USE_H_
