// Additions to a peer's 64-bit counters: by the fabric's own atomics, or by a message to the
// counter's owner, whose reactor then adds.
//
// Driver thread only.

#ifndef INVOKER_SRC_TRANSPORT_OPERATIONS_ATOMIC_ADD_H_
#define INVOKER_SRC_TRANSPORT_OPERATIONS_ATOMIC_ADD_H_

#include <cstdint>

#include "src/transport/operations/notifier.h"

namespace invoker::transport {

// How numbers reach a counter. Its owner decides, for every initiator alike: an addition by the
// network and one by a processor are not atomic to each other. The values are part of what owners
// tell their peers: append, never renumber.
enum class AddMethod : uint8_t {
  kNative = 1,   // fi_atomic, FI_SUM on FI_UINT64
  kMessage = 2,  // a message to the owner's receive ring
};

// Whether the endpoint really adds 64-bit numbers in a peer's memory.
bool GrantsNativeAdd(fid_domain* domain, fid_ep* endpoint);

// What posts an addition that PrepareAdd has made ready. Lives for ever.
const Notifier* GetAdder(AddMethod method);

// Writes into the operation's staging what its adder posts. Key and offset or address are set.
void PrepareAdd(AddMethod method, uint64_t offset, uint64_t value, Operation* operation);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_OPERATIONS_ATOMIC_ADD_H_
