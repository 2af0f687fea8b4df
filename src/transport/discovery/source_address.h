// The IP addresses of this machine that endpoints have. Any thread.

#ifndef INVOKER_SRC_TRANSPORT_DISCOVERY_SOURCE_ADDRESS_H_
#define INVOKER_SRC_TRANSPORT_DISCOVERY_SOURCE_ADDRESS_H_

#include <string>
#include <vector>

#include "src/transport/base/libfabric.h"

namespace invoker::transport {

// What an IP address can be used for: within this machine, between two machines of one link, or
// between any two.
enum class IpScope { kNone, kLoopback, kLink, kGlobal };

struct IpAddress {
  std::string text;  // inet_ntop's
  bool is_v6 = false;
  IpScope scope = IpScope::kNone;
};

// A literal, without a zone; scope kNone if `text` is none.
IpAddress ParseIp(const std::string& text);

// Every IP address of an interface in the system's order; empty if there is no such interface.
std::vector<IpAddress> AddressesOf(const std::string& interface);

// Where the endpoints of `info` will be; scope kNone where they are not addressed by IP.
IpAddress SourceOf(const fi_info& info);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_DISCOVERY_SOURCE_ADDRESS_H_
