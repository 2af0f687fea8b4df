// "HOST:PORT" as people type it, for --listen and --server.
//
// HOST is a name, an IPv4 address, or an IPv6 address in brackets. Functions here are free of
// state; all but TryConnect, OpenConnection,
// LeadsToLoopback, ResolveListenAddress and InterfaceToListenOn are pure.

#ifndef INVOKER_SRC_BOOTSTRAP_MESSAGES_HOST_PORT_H_
#define INVOKER_SRC_BOOTSTRAP_MESSAGES_HOST_PORT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace invoker::bootstrap {

struct HostPort {
  std::string host;  // without brackets
  uint16_t port = 0;
};

// INVALID_ARGUMENT, with an example of what is right, for anything but HOST:PORT or [IPV6]:PORT.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// "127.0.0.1:41223" or "[::1]:41223".
std::string FormatHostPort(const HostPort& address);

// What gRPC calls a target: numeric addresses go past its resolver ("ipv4:127.0.0.1:41223"), names
// through it.
std::string GrpcTarget(const HostPort& address);

// Whether a numeric address is of the loopback interface, which nothing but this machine reaches.
bool IsLoopback(const std::string& numeric_host);
// The same of all addresses that a name stands for now. Blocks for as long as the resolver does.
// UNAVAILABLE if it stands for none.
absl::StatusOr<bool> LeadsToLoopback(const std::string& host);

// A numeric address of this machine for `address` (IPv4 before IPv6), which could be listened on a
// moment ago. Blocks for as long as the resolver does. ALREADY_EXISTS if another socket listens
// there; INVALID_ARGUMENT if the host is unknown or not this machine's.
absl::StatusOr<HostPort> ResolveListenAddress(const HostPort& address);

// The numeric address of the one interface that "HOST:PORT" is to be listened on at; "" for every
// interface. Errors as ResolveListenAddress.
absl::StatusOr<std::string> InterfaceToListenOn(absl::string_view listen);

// Why an address could not be listened on, for the system's `error`; OK for 0.
absl::Status ListenError(int error, const HostPort& address);

// A TCP connection, not blocking, which is the caller's to close. Errors as TryConnect's.
absl::StatusOr<int> OpenConnection(const HostPort& address, absl::Duration timeout);

// Opens a TCP connection and closes it: tells why a server could not be reached. OK if something
// accepted the connection, else UNAVAILABLE or DEADLINE_EXCEEDED with the system's words
// ("connection refused").
absl::Status TryConnect(const HostPort& address, absl::Duration timeout);

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_MESSAGES_HOST_PORT_H_
