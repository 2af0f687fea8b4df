// What libfabric, the kernel and the RDMA devices say about the link under a fabric. Any thread.

#ifndef INVOKER_SRC_TRANSPORT_SELF_TEST_LINK_FACTS_H_
#define INVOKER_SRC_TRANSPORT_SELF_TEST_LINK_FACTS_H_

#include <string>

#include "src/transport/discovery/source_address.h"
#include "src/transport/self_test/fabric_report.h"

namespace invoker::transport {

// The interface that has this IP address, or "".
std::string InterfaceOf(const std::string& address);

// `interface` may be empty. What libfabric knows goes first, then what the device says whose domain
// this is, then what the kernel says of the interface.
LinkFacts FindLinkFacts(const fi_info& info, const std::string& interface,
                        absl::Span<const RdmaDevice> devices);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_SELF_TEST_LINK_FACTS_H_
