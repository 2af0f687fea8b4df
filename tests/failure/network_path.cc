#include "tests/failure/network_path.h"

#include <sched.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace invoker::failure {
namespace {

absl::Status Run(const std::string& command) {
  const Finished finished = RunToEnd({{"/bin/sh", "-ec", command}});
  if (finished.exit_code == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("\"", command, "\" ended with ", finished.exit_code, ": ", finished.errors));
}

// A process that does nothing but hold a new network namespace, which is there once this returns.
absl::StatusOr<std::unique_ptr<ChildProcess>> Hold() {
  auto holder = ChildProcess::Start({{"/usr/bin/unshare", "--net", "/bin/sh", "-ec",
                                      "ip link set lo up; echo ready; exec sleep infinity"}});
  if (!holder.ok()) return holder.status();
  if (absl::StatusOr<std::string> line = (*holder)->FirstLine(); !line.ok()) {
    return absl::Status(line.status().code(),
                        absl::StrCat("a network namespace cannot be made (this needs root): ",
                                     (*holder)->Errors()));
  }
  return holder;
}

std::string InNamespaceOf(const ChildProcess& holder, absl::string_view command) {
  return absl::StrCat("/usr/bin/nsenter --target ", holder.pid(), " --net ", command);
}

}  // namespace

absl::StatusOr<std::unique_ptr<NetworkPath>> NetworkPath::Make() {
  if (unshare(CLONE_NEWNET) != 0) {
    return absl::ErrnoToStatus(
        errno, "this process cannot have a network namespace of its own, which needs root");
  }
  auto router = Hold();
  if (!router.ok()) return router.status();
  auto servers = Hold();
  if (!servers.ok()) return servers.status();
  std::unique_ptr<NetworkPath> path(new NetworkPath(*std::move(router), *std::move(servers)));
  const auto servers_ip = [&](absl::string_view command) {
    return InNamespaceOf(*path->servers_, absl::StrCat("ip ", command, "; "));
  };
  const auto router_ip = [&](absl::string_view command) {
    return path->InRouter(absl::StrCat("ip ", command, "; "));
  };
  const absl::Status made = Run(absl::StrCat(
      "ip link set lo up; ", "ip link add client type veth peer name to_client; ",
      "ip link set to_client netns ", path->router_->pid(), "; ", "ip addr add ", kClientAddress,
      "/24 dev client; ", "ip link set client up; ",
      router_ip("addr add 10.231.1.1/24 dev to_client"), router_ip("link set to_client up"),
      "ip route add default via 10.231.1.1; ",
      router_ip("link add to_servers type veth peer name servers"),
      router_ip(absl::StrCat("link set servers netns ", path->servers_->pid())),
      router_ip("addr add 10.231.2.1/24 dev to_servers"), router_ip("link set to_servers up"),
      servers_ip(absl::StrCat("addr add ", kServerAddress, "/24 dev servers")),
      servers_ip("link set servers up"), servers_ip("route add default via 10.231.2.1")));
  if (!made.ok()) return made;
  if (absl::Status status = path->ForwardPackets(); !status.ok()) return status;
  return path;
}

NetworkPath::NetworkPath(std::unique_ptr<ChildProcess> router,
                         std::unique_ptr<ChildProcess> servers)
    : router_(std::move(router)), servers_(std::move(servers)) {}

std::string NetworkPath::InRouter(const std::string& command) const {
  return InNamespaceOf(*router_, command);
}

std::vector<std::string> NetworkPath::ServerPrefix() const {
  return {"/usr/bin/nsenter", "--target", absl::StrCat(servers_->pid()), "--net"};
}

absl::Status NetworkPath::PullCable() { return Run(InRouter("ip link set to_servers down")); }

absl::Status NetworkPath::PlugCable() { return Run(InRouter("ip link set to_servers up")); }

absl::Status NetworkPath::DropPackets() {
  return Run(InRouter("/bin/sh -c 'echo 0 > /proc/sys/net/ipv4/ip_forward'"));
}

absl::Status NetworkPath::ForwardPackets() {
  return Run(InRouter("/bin/sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'"));
}

}  // namespace invoker::failure
