// Finding the fabric to use: from what the user asked for to one fi_info and its profile.

#ifndef INVOKER_SRC_TRANSPORT_DISCOVERY_DISCOVERY_H_
#define INVOKER_SRC_TRANSPORT_DISCOVERY_DISCOVERY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "src/transport/base/libfabric.h"
#include "src/transport/provider/provider_profile.h"

namespace invoker::transport {

// What is asked of discovery. Everything may be left empty.
struct FabricRequest {
  std::string provider;  // libfabric's name for it; empty: DefaultProvider()
  std::string address;   // our side's: an IP address, an interface name or a libfabric domain name
  // A raw endpoint address of the peer and its format (FI_SOCKADDR_IN, ...). Where the fabric is
  // addressed by IP and `address` is empty, the provider routes to it; where `address` is an
  // interface, its address of the same family is taken.
  std::string peer_address;
  uint32_t peer_address_format = FI_FORMAT_UNSPEC;
};

struct FabricChoice {
  InfoPtr info;
  Profile profile;
};

// Asks libfabric for an RDM endpoint as requested and resolves its profile. NOT_FOUND says what was
// asked for and which providers this machine has; INVALID_ARGUMENT says why an address of ours can
// never do: an IPv6 link-local one, or one of another family than the peer's. Of several matches
// the first is taken, but loopback only if there is nothing else, and of an interface IPv4 before
// IPv6. Blocks for as long as fi_getinfo takes (milliseconds). Any thread.
absl::StatusOr<FabricChoice> Discover(const FabricRequest& request);

// Opening a fabric uses its choice up.
absl::StatusOr<FabricChoice> CopyOf(const FabricChoice& choice);

// The IP address that `info`'s endpoints will have, or its domain's name where it is not addressed
// by IP. For messages.
std::string DescribeSource(const fi_info& info);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_DISCOVERY_DISCOVERY_H_
