// A network between this process and its servers that can be cut: three network namespaces in a
// row, the client's, a router's and the servers'. One virtual cable joins the first two, two join
// the others: one for the fabric and one for management, like the networks of a cluster.
//
// Construct before any thread is started and any socket opened: the process itself moves into the
// client's namespace, which has nothing else but its own loopback. Needs the rights for that
// (root). The kernel removes everything with the last of its processes.

#ifndef INVOKER_TESTS_FAILURE_NETWORK_PATH_H_
#define INVOKER_TESTS_FAILURE_NETWORK_PATH_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/integration/child_process.h"

namespace invoker::failure {

// Addresses that exist in these namespaces only.
inline constexpr char kClientAddress[] = "10.231.1.2";
inline constexpr char kServerAddress[] = "10.231.2.2";
inline constexpr char kServerManagementAddress[] = "10.231.3.2";

class NetworkPath {
 public:
  static absl::StatusOr<std::unique_ptr<NetworkPath>> Make();

  // What a server's command line must begin with.
  std::vector<std::string> ServerPrefix() const;

  // The fabric's cable to the servers is pulled: its link goes down at both ends.
  absl::Status PullCable();
  absl::Status PlugCable();
  // The router drops every packet; links stay up.
  absl::Status DropPackets();
  absl::Status ForwardPackets();

 private:
  NetworkPath(std::unique_ptr<ChildProcess> router, std::unique_ptr<ChildProcess> servers);

  std::string InRouter(const std::string& command) const;

  // Processes that hold the namespaces.
  std::unique_ptr<ChildProcess> router_;
  std::unique_ptr<ChildProcess> servers_;
};

}  // namespace invoker::failure

#endif  // INVOKER_TESTS_FAILURE_NETWORK_PATH_H_
