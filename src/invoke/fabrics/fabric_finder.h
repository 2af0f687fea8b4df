// Finds several fabrics on this machine, with one address that the user may have given for them.
//
// What an address of ours means where there are several fabrics, on either side:
// - an IP address or an interface is that of every fabric whose endpoints are addressed by IP; the
//   others have no use for it;
// - any other name is that of a libfabric domain (`fi_info` lists them), and of each fabric that
// has
//   one of that name; the others are found as if no address had been given;
// - an address that is none of the fabrics' is an error.
// With one fabric, the address is simply that fabric's.

#ifndef INVOKER_SRC_INVOKE_FABRICS_FABRIC_FINDER_H_
#define INVOKER_SRC_INVOKE_FABRICS_FABRIC_FINDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/transport/discovery/discovery.h"

namespace invoker {

struct FabricAddresses {
  std::string given;  // by the user, as above; empty: none
  // Without one: an IP address that fabrics addressed by IP are to have. If it is not loopback, one
  // that cannot have it may have another: an RDMA device need not be on the same network.
  std::string preferred_ip;
};

struct FoundFabric {
  transport::FabricRequest request;  // what found it; or what did not
  absl::StatusOr<transport::FabricChoice> choice;
};

// One for each of `wanted`, in that order; their `address` is empty. NOT_FOUND if the given address
// is of none of them. Blocks for some milliseconds for each. Any thread.
absl::StatusOr<std::vector<FoundFabric>> FindFabrics(std::vector<transport::FabricRequest> wanted,
                                                     const FabricAddresses& addresses);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_FABRICS_FABRIC_FINDER_H_
