// Whether a client and a worker can open a session, decided from what both say and nothing else.
//
// Pure: any thread. A mismatch found here is refused in words; found later it would be a hang.

#ifndef INVOKER_SRC_BOOTSTRAP_COMPATIBILITY_H_
#define INVOKER_SRC_BOOTSTRAP_COMPATIBILITY_H_

#include "absl/status/status.h"
#include "src/bootstrap/messages.h"

namespace invoker::bootstrap {

// FAILED_PRECONDITION, naming every difference with both sides' values, if provider, protocol, its
// version or the address format differ.
absl::Status CheckSameFabric(const FabricIdentity& worker, const FabricIdentity& client);

// FAILED_PRECONDITION, with both sides' values, if the protocol version differs or the fabric is
// none of the worker's. INVALID_ARGUMENT if the request makes no sense in itself or asks for a
// larger window than the worker gives.
absl::Status CheckCompatible(const WorkerInfo& worker, const OpenSessionRequest& client);

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_COMPATIBILITY_H_
