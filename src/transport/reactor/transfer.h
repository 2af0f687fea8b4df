// Reading and writing a peer's memory without telling the peer. Whoever asked for it hears of the
// end instead, and can then tell the peer itself.
//
// A write is over once it has been delivered (FI_DELIVERY_COMPLETE), so that whatever is sent after
// that cannot be overtaken by it, on any fabric. Driver thread only.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_TRANSFER_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_TRANSFER_H_

#include <cstdint>

#include "src/transport/reactor/notifier.h"

namespace invoker::transport {

enum class TransferDirection : uint8_t {
  kRead,   // from the peer's memory into ours
  kWrite,  // from our memory into the peer's
};

// Posts transfers, as a Notifier posts writes: it has no state and lives for ever. Its second step,
// after the completion, posts nothing and says that the transfer is over.
const Notifier* GetTransferrer(TransferDirection direction);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_TRANSFER_H_
