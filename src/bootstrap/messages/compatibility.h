// Whether a client and a worker can open a session, decided from what both say and nothing else.
//
// Pure: any thread. A mismatch found here is refused in words; found later it would be a hang.

#ifndef INVOKER_SRC_BOOTSTRAP_MESSAGES_COMPATIBILITY_H_
#define INVOKER_SRC_BOOTSTRAP_MESSAGES_COMPATIBILITY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/bootstrap/messages/messages.h"

namespace invoker::bootstrap {

// "protocol version 5" or "protocol versions 5 to 6".
std::string DescribeVersions(const ProtocolVersions& versions);

// The newest version that both speak. FAILED_PRECONDITION, with both sides' versions, if there is
// none.
absl::StatusOr<uint32_t> AgreeOnVersion(const ProtocolVersions& worker,
                                        const ProtocolVersions& client);

// Every difference with both sides' values, in words; empty: there is none. Compares provider,
// protocol, its version and the address format; and, between processes of one host, the layout of
// the memory that they share.
std::string DescribeDifferences(const FabricIdentity& worker, const FabricIdentity& client,
                                bool same_host);

// OK, or FAILED_PRECONDITION with the differences and what to do.
absl::Status CheckSameFabric(const FabricIdentity& worker, const FabricIdentity& client,
                             bool same_host);

// FAILED_PRECONDITION, with both sides' values, if the worker does not speak the version or the
// fabric is none of the worker's. The client's host is taken to be the worker's if the fabric
// reaches no other. INVALID_ARGUMENT if the request makes no sense in itself or asks for a larger
// window than the worker gives.
absl::Status CheckCompatible(const WorkerInfo& worker, const OpenSessionRequest& client);

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_MESSAGES_COMPATIBILITY_H_
