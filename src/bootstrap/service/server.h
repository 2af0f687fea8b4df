// The worker's side of the bootstrap: a gRPC server in front of a SessionHost.
//
// Start returns with the server listening. grpc.health.v1 says SERVING until Drain.
// There is no server reflection, each stream of which would keep one of the threads for requests
// from others. Connections are encrypted and clients known as ServerOptions::security says. All
// methods may be called from any thread, also from inside the host's methods (but for Stop); a
// stopped server stays stopped.

#ifndef INVOKER_SRC_BOOTSTRAP_SERVICE_SERVER_H_
#define INVOKER_SRC_BOOTSTRAP_SERVICE_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/bootstrap/messages/session_host.h"
#include "src/bootstrap/service/acceptor.h"
#include "src/bootstrap/service/connection_table.h"
#include "src/bootstrap/service/limited_host.h"
#include "src/bootstrap/service/server_credentials.h"
#include "src/bootstrap/service/session_tokens.h"

// gRPC's headers cost ten seconds a file: those who need more than the name include them.
namespace grpc {
class Service;
}  // namespace grpc

namespace invoker::bootstrap {

class LeaseTable;

// What services are made of; all of it outlives them.
struct ServiceParts {
  SessionHost* host = nullptr;
  LeaseTable* leases = nullptr;
  security::AccessControl* access = nullptr;  // nullptr: nobody is asked who they are
};

// Makes a service that answers beside Bootstrap.
using ServiceFactory = std::function<std::unique_ptr<grpc::Service>(const ServiceParts&)>;

struct ServerOptions {
  // HOST:PORT; port 0 picks a free one. A name stands for its first IPv4 address, else its first
  // address. 0.0.0.0 listens on IPv6 as well where the system allows it.
  std::string listen;
  // Asked of every client, unless it wants shorter ones.
  absl::Duration heartbeat_interval = absl::Seconds(1);
  // A lease without a heartbeat for this long, while this process runs, is over. More than
  // heartbeat_interval.
  absl::Duration lease_expiry = absl::Seconds(5);
  std::vector<ServiceFactory> services;
  PortSecurity security;
  // Listen in plaintext also where other machines can reach the port.
  bool allow_plaintext = false;
  absl::Duration session_token_expiry = absl::Seconds(30);
  // A connection that has not been established by then, TLS included, is closed.
  absl::Duration handshake_timeout = absl::Seconds(10);
  // Every connection is asked so often whether its other end is there, and closed if no answer has
  // come after `keepalive_timeout`. gRPC asks once a second at most.
  absl::Duration keepalive_interval = absl::Seconds(10);
  absl::Duration keepalive_timeout = absl::Seconds(5);
  // The server's threads for requests that wait for an executor: one that finds none free is
  // refused (RESOURCE_EXHAUSTED). Leases, heartbeats and uploads need none. At least 2.
  int max_request_threads = 2048;
  ConnectionLimits connections;
  SessionLimits sessions;
};

class Server {
 public:
  // `host` must outlive the server. INVALID_ARGUMENT for options that make no sense, ALREADY_EXISTS
  // if the port is in use, FAILED_PRECONDITION or NOT_FOUND for certificates that cannot be used.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       SessionHost* host);
  // Stops.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // With the real port: "127.0.0.1:41223", "[::1]:41223".
  const std::string& listen_address() const;

  // Session tokens that were refused.
  SessionTokens::Counters refused_session_tokens() const;

  // Connections that were closed at once.
  AcceptorCounters refused_connections() const;

  // Sessions that were refused because of a limit, or of an endpoint that is another client's.
  uint64_t refused_sessions() const;

  // Tells the lease's client that the worker closed one of its sessions. Does not block; ignored if
  // the lease is over.
  void NotifySessionClosed(uint64_t lease, uint64_t handle, absl::string_view reason);

  // Tells every lease, turns the health to NOT_SERVING, and refuses new leases and sessions from
  // now on. Sessions that are open stay so. Does not block.
  void Drain(absl::string_view reason);
  // Behind Drain: the executors end. Waits until all clients know, and so send no further calls; at
  // most for `limit`.
  void CloseToCalls(absl::Duration limit);

  // Ends every lease and waits until the host has closed them and no request is under way. Not from
  // inside a host's method.
  void Stop();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_SERVICE_SERVER_H_
