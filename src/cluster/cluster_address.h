// How people name the workers of a group: a list, a file, or a cluster in etcd.

#ifndef INVOKER_SRC_CLUSTER_CLUSTER_ADDRESS_H_
#define INVOKER_SRC_CLUSTER_CLUSTER_ADDRESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/bootstrap/messages/host_port.h"

namespace invoker::cluster {

// "etcd://HOST:PORT,HOST:PORT/NAME".
struct EtcdAddress {
  std::vector<bootstrap::HostPort> endpoints;  // one at least
  std::string name;  // the cluster's: letters, digits, "-", "_" and "."; 64 at most
};

bool IsEtcdAddress(absl::string_view text);
// A port that is not given is 2379. INVALID_ARGUMENT says what is wrong.
absl::StatusOr<EtcdAddress> ParseEtcdAddress(absl::string_view text);
std::string FormatEtcdAddress(const EtcdAddress& address);

// "file:///PATH".
bool IsFileAddress(absl::string_view text);
// The path. INVALID_ARGUMENT unless it begins at the root.
absl::StatusOr<std::string> ParseFileAddress(absl::string_view text);

// The servers in "HOST:PORT,HOST:PORT". INVALID_ARGUMENT for a gap, or for one that is there twice.
absl::StatusOr<std::vector<std::string>> ParseServerList(absl::string_view text);
// The servers in a file: one a line, and comments after "#". None is no mistake. `name` is for
// errors, which are as for a list.
absl::StatusOr<std::vector<std::string>> ParseServerFile(absl::string_view name,
                                                         absl::string_view text);

}  // namespace invoker::cluster

#endif  // INVOKER_SRC_CLUSTER_CLUSTER_ADDRESS_H_
