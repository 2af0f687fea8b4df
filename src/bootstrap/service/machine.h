// What counts as one machine where gRPC names the other end of a connection.

#ifndef INVOKER_SRC_BOOTSTRAP_SERVICE_MACHINE_H_
#define INVOKER_SRC_BOOTSTRAP_SERVICE_MACHINE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace invoker::bootstrap {

// MachineOf a peer on this machine.
inline constexpr char kLoopback[] = "loopback";

// The machine of a peer as gRPC 1.51 spells it, "ipv4:192.0.2.7:1234" or
// "ipv6:%5B2001:db8::1%5D:1234": the same for all that SourceOf takes for one source, and for all
// addresses of the loopback. Not for people.
std::string MachineOf(absl::string_view peer);

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_SERVICE_MACHINE_H_
