// Finds the address by which other machines reach this one.

#ifndef INVOKER_SRC_CLUSTER_OWN_ADDRESS_H_
#define INVOKER_SRC_CLUSTER_OWN_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "src/bootstrap/messages/host_port.h"

namespace invoker::cluster {

// The numeric address that this machine uses on the way to `peer`. Sends nothing, but may ask the
// name service. INVALID_ARGUMENT if there is no such host, or no way there.
absl::StatusOr<std::string> OwnAddressTowards(const bootstrap::HostPort& peer);

}  // namespace invoker::cluster

#endif  // INVOKER_SRC_CLUSTER_OWN_ADDRESS_H_
