#include "src/invoke/fabrics/fabric_finder.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/transport/discovery/source_address.h"
#include "src/transport/provider/provider_profile.h"

namespace invoker {
namespace {

using transport::FabricRequest;
using transport::IpScope;

bool IsIpOrInterface(const std::string& address) {
  return transport::ParseIp(address).scope != IpScope::kNone ||
         !transport::AddressesOf(address).empty();
}

// Whether an IP address can be one of this host's. fi_getinfo does not say: an endpoint at a
// foreign one fails when it is opened.
bool MayBeOurs(const std::string& ip) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* address = nullptr;
  if (getaddrinfo(ip.c_str(), nullptr, &hints, &address) != 0) return true;
  bool ours = true;
  const int descriptor = socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor >= 0) {
    ours = bind(descriptor, address->ai_addr, address->ai_addrlen) == 0 || errno != EADDRNOTAVAIL;
    close(descriptor);
  }
  freeaddrinfo(address);
  return ours;
}

// With `address` if that finds it; else, if it may, without.
FoundFabric Find(FabricRequest request, const std::string& address, bool may_do_without) {
  FabricRequest with = request;
  with.address = address;
  FoundFabric found = {with, transport::Discover(with)};
  if (found.choice.ok() || !may_do_without) return found;
  absl::StatusOr<transport::FabricChoice> without = transport::Discover(request);
  return {std::move(request), std::move(without)};
}

absl::Status NobodysAddress(const std::string& address, const std::vector<FoundFabric>& found) {
  std::vector<std::string> reasons;
  for (const FoundFabric& fabric : found) {
    const bool tried = fabric.request.address == address && !fabric.choice.ok();
    reasons.push_back(absl::StrCat(
        fabric.request.provider, ": ",
        tried ? fabric.choice.status().message() : absl::string_view("has no such address")));
  }
  return absl::NotFoundError(
      absl::StrCat("fabric address \"", address,
                   "\" is of none of the fabrics: ", absl::StrJoin(reasons, "; ")));
}

}  // namespace

absl::StatusOr<std::vector<FoundFabric>> FindFabrics(std::vector<FabricRequest> wanted,
                                                     const FabricAddresses& addresses) {
  std::vector<FoundFabric> found;
  const bool alone = wanted.size() == 1;
  const bool given_is_ip = !addresses.given.empty() && IsIpOrInterface(addresses.given);
  const bool leaves_this_host =
      transport::ParseIp(addresses.preferred_ip).scope != IpScope::kLoopback;
  bool matched = alone || addresses.given.empty();
  if (!matched && transport::ParseIp(addresses.given).scope != IpScope::kNone &&
      !MayBeOurs(addresses.given)) {
    return absl::NotFoundError(
        absl::StrCat("fabric address \"", addresses.given, "\" is of no interface of this host"));
  }
  for (FabricRequest& request : wanted) {
    const bool by_ip = transport::FindRow(request.provider).address_is_ip;
    if (addresses.given.empty()) {
      found.push_back(Find(std::move(request), by_ip ? addresses.preferred_ip : "",
                           by_ip && leaves_this_host && !addresses.preferred_ip.empty()));
    } else if (alone || (given_is_ip && by_ip)) {
      found.push_back(Find(std::move(request), addresses.given, false));
    } else {
      found.push_back(Find(std::move(request), given_is_ip ? "" : addresses.given, !given_is_ip));
    }
    matched |= found.back().choice.ok() && found.back().request.address == addresses.given;
  }
  if (!matched) return NobodysAddress(addresses.given, found);
  return found;
}

}  // namespace invoker
