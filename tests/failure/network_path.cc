#include "tests/failure/network_path.h"

#include <sched.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tests/failure/shell.h"

namespace invoker::failure {
namespace {

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
  const auto here = [](absl::string_view command) { return absl::StrCat("ip ", command, "; "); };
  const auto at_servers = [&](absl::string_view command) {
    return InNamespaceOf(*path->servers_, here(command));
  };
  const auto at_router = [&](absl::string_view command) { return path->InRouter(here(command)); };
  const auto to_servers = [&](absl::string_view name, absl::string_view network) {
    return absl::StrCat(
        at_router(absl::StrCat("link add to_", name, " type veth peer name ", name)),
        at_router(absl::StrCat("link set ", name, " netns ", path->servers_->pid())),
        at_router(absl::StrCat("addr add ", network, ".1/24 dev to_", name)),
        at_router(absl::StrCat("link set to_", name, " up")),
        at_servers(absl::StrCat("addr add ", network, ".2/24 dev ", name)),
        at_servers(absl::StrCat("link set ", name, " up")),
        at_servers(absl::StrCat("route add 10.231.1.0/24 via ", network, ".1 metric ",
                                name == "fabric" ? 1 : 2)));
  };
  const absl::Status made = RunInShell(
      absl::StrCat(here("link set lo up"), here("link add client type veth peer name to_client"),
                   here(absl::StrCat("link set to_client netns ", path->router_->pid())),
                   here(absl::StrCat("addr add ", kClientAddress, "/24 dev client")),
                   here("link set client up"), at_router("addr add 10.231.1.1/24 dev to_client"),
                   at_router("link set to_client up"), here("route add default via 10.231.1.1"),
                   to_servers("fabric", "10.231.2"), to_servers("manage", "10.231.3"),
                   // Answers leave by the cable of the address that was asked.
                   at_servers("rule add from 10.231.3.2 table 3"),
                   at_servers("route add default via 10.231.3.1 table 3")));
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

absl::Status NetworkPath::PullCable() { return RunInShell(InRouter("ip link set to_fabric down")); }

absl::Status NetworkPath::PlugCable() { return RunInShell(InRouter("ip link set to_fabric up")); }

absl::Status NetworkPath::DropPackets() {
  return RunInShell(InRouter("/bin/sh -c 'echo 0 > /proc/sys/net/ipv4/ip_forward'"));
}

absl::Status NetworkPath::ForwardPackets() {
  return RunInShell(InRouter("/bin/sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'"));
}

}  // namespace invoker::failure
