// Reads and writes a peer's memory without telling the peer. The owner hears of the end instead,
// and can then tell the peer itself.
//
// A write is over once it has been delivered (FI_DELIVERY_COMPLETE), so that it cannot overtake a
// later send, on any fabric. Driver thread only.

#ifndef INVOKER_SRC_TRANSPORT_OPERATIONS_TRANSFER_H_
#define INVOKER_SRC_TRANSPORT_OPERATIONS_TRANSFER_H_

#include <cstdint>

#include "src/transport/operations/notifier.h"

namespace invoker::transport {

enum class TransferDirection : uint8_t {
  kRead,   // from the peer's memory into ours
  kWrite,  // from our memory into the peer's
};

// Posts transfers, as a Notifier posts writes: it has no state and lives for ever. Its second step,
// after the completion, posts nothing and says that the transfer is over.
const Notifier* GetTransferrer(TransferDirection direction);

// Posts a write that completes once it has been delivered. Returns 0 or a negative fi_errno.
ssize_t PostDeliveredWrite(fid_ep* endpoint, Operation* operation);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_OPERATIONS_TRANSFER_H_
