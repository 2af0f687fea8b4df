// A gRPC unary echo on this host, in every way that a C++ program would write it:
// bench/peers/grpc_echo_server in each of its flavors, over loopback TCP or a UNIX socket, called
// by the synchronous stub or through a completion queue that is polled.

#ifndef INVOKER_BENCH_PROGRAMS_GRPC_CONTENDER_H_
#define INVOKER_BENCH_PROGRAMS_GRPC_CONTENDER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/harness/interleave.h"
#include "bench/harness/server_process.h"

namespace invoker::bench {

// The flavor whose server never sleeps either.
inline constexpr char kPollingFlavor[] = "polled_queue";

// Servers of every flavor, each once on one core and once on whatever core the kernel gives it.
// Their sockets are in a temporary directory, which goes with them. They are stopped but while one
// of the contenders has its turn.
class GrpcServers {
 public:
  static absl::StatusOr<std::unique_ptr<GrpcServers>> Start(int client_core, int server_core);
  ~GrpcServers();
  GrpcServers(const GrpcServers&) = delete;
  GrpcServers& operator=(const GrpcServers&) = delete;

  struct Way {
    std::string server;  // the flavor
    bool unix_socket = false;
    bool polled = false;  // the client's completion queue; else the synchronous stub
    bool pinned = true;   // the server
    // "grpc_sync_unix_polled_unpinned"
    std::string Name() const;
  };
  std::vector<Way> Ways() const;
  static const std::vector<std::string>& Flavors();

  // A client of its own for one way.
  absl::StatusOr<std::unique_ptr<Contender>> Connect(const Way& way) const;

 private:
  struct Server {
    std::string flavor;
    bool pinned = true;
    std::string socket;
    std::unique_ptr<ServerProcess> process;
  };

  explicit GrpcServers(int client_core) : client_core_(client_core) {}

  const int client_core_;
  std::string directory_;
  std::vector<Server> servers_;
};

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_PROGRAMS_GRPC_CONTENDER_H_
