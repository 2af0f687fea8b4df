#include "src/transport/discovery/discovery.h"

#include <cstdlib>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/transport/base/status.h"
#include "src/transport/discovery/fabric_query.h"
#include "src/transport/discovery/source_address.h"

namespace invoker::transport {
namespace {

std::string AvailableProviders() {
  InfoPtr hints = MakeHints(FindRow(""), "");
  if (hints == nullptr) return "unknown";
  const QueryResult found = QueryFabrics(FindRow(""), "", hints.get(), "");
  std::set<std::string> names;
  for (const fi_info* entry : found.entries) names.insert(entry->fabric_attr->prov_name);
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

absl::Status NothingFound(const FabricRequest& request, const std::string& provider, int code) {
  return absl::NotFoundError(absl::StrCat(
      "no RDM endpoint of provider \"", provider, "\"",
      request.address.empty() ? "" : absl::StrCat(" at fabric address \"", request.address, "\""),
      ": ", ToStatus("fi_getinfo", code).message(),
      ". Providers with RDM endpoints on this machine: ", AvailableProviders(),
      ". Name one of them, or an address that `fi_info` lists"));
}

absl::Status LinkLocal(const std::string& address) {
  return absl::InvalidArgumentError(absl::StrCat(
      "fabric address \"", address,
      "\" is link-local: it means nothing to a peer without the name of an interface of the "
      "peer's own. Use an address that is routed, such as a unique local one (fd00::/8)"));
}

// The family that an endpoint must have to reach the peer; FI_FORMAT_UNSPEC: any.
uint32_t FamilyOfPeer(const FabricRequest& request) {
  const bool is_ip = request.peer_address_format == FI_SOCKADDR_IN ||
                     request.peer_address_format == FI_SOCKADDR_IN6;
  const uint32_t any = FI_FORMAT_UNSPEC;
  return is_ip && !request.peer_address.empty() ? request.peer_address_format : any;
}

bool FamilyMatches(const IpAddress& address, uint32_t family) {
  return family == FI_FORMAT_UNSPEC || address.is_v6 == (family == FI_SOCKADDR_IN6);
}

absl::Status WrongFamily(const std::string& address, uint32_t family) {
  const absl::string_view theirs = family == FI_SOCKADDR_IN6 ? "IPv6" : "IPv4";
  return absl::InvalidArgumentError(
      absl::StrCat("fabric address \"", address, "\" has no ", theirs,
                   " address, and the peer's endpoint is at one. Name an address or interface of "
                   "ours with ",
                   theirs, ", or open the peer's endpoint at an address of the other family"));
}

// The IP address of ours that was asked for, by itself or by its interface: IPv4 before IPv6 where
// either will do. Empty if what was asked for is neither.
absl::StatusOr<std::string> SourceNode(const FabricRequest& request, const ProfileRow& row) {
  const uint32_t family = FamilyOfPeer(request);
  // A zone is given with link-local addresses only.
  const std::string::size_type zone = request.address.find('%');
  const IpAddress literal = ParseIp(request.address.substr(0, zone));
  if (literal.scope == IpScope::kLink && literal.is_v6) return LinkLocal(request.address);
  if (literal.scope != IpScope::kNone) {
    if (!FamilyMatches(literal, family)) return WrongFamily(request.address, family);
    return request.address;
  }
  if (!row.address_is_ip) return std::string();
  const std::vector<IpAddress> addresses = AddressesOf(request.address);
  const IpAddress* best = nullptr;
  bool has_link_local = false;
  for (const IpAddress& address : addresses) {
    if (address.is_v6 && address.scope == IpScope::kLink) {
      has_link_local = true;
    } else if (FamilyMatches(address, family) &&
               (best == nullptr || (best->is_v6 && !address.is_v6))) {
      best = &address;
    }
  }
  if (best != nullptr) return best->text;
  if (addresses.empty()) return std::string();
  if (has_link_local && addresses.size() == 1) return LinkLocal(request.address);
  return WrongFamily(request.address, family);
}

absl::Status AimAtPeer(const FabricRequest& request, fi_info* hints) {
  hints->addr_format = request.peer_address_format;
  hints->dest_addr = malloc(request.peer_address.size());
  if (hints->dest_addr == nullptr) return absl::ResourceExhaustedError("out of memory");
  memcpy(hints->dest_addr, request.peer_address.data(), request.peer_address.size());
  hints->dest_addrlen = request.peer_address.size();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FabricChoice> Discover(const FabricRequest& request) {
  const std::string provider =
      request.provider.empty() ? std::string(DefaultProvider()) : request.provider;
  const ProfileRow& row = FindRow(provider);
  InfoPtr hints = MakeHints(row, provider);
  if (hints == nullptr) return absl::ResourceExhaustedError("fi_allocinfo: out of memory");

  absl::StatusOr<std::string> node = std::string();
  if (!request.address.empty()) {
    node = SourceNode(request, row);
    if (!node.ok()) return node.status();
    if (node->empty()) hints->domain_attr->name = strdup(request.address.c_str());
  } else if (row.address_is_ip && !request.peer_address.empty()) {
    if (absl::Status status = AimAtPeer(request, hints.get()); !status.ok()) return status;
  }
  const QueryResult found = QueryFabrics(row, provider, hints.get(), *node);
  if (found.entries.empty()) return NothingFound(request, provider, found.code);

  const fi_info* chosen = nullptr;
  for (const fi_info* entry : found.entries) {
    // Not every provider heeds the name that was asked for.
    if (hints->domain_attr->name != nullptr &&
        (entry->domain_attr->name == nullptr || request.address != entry->domain_attr->name)) {
      continue;
    }
    const IpAddress source = SourceOf(*entry);
    if (source.scope != IpScope::kNone && !FamilyMatches(source, FamilyOfPeer(request))) continue;
    // The first of those that reach farthest. An IPv6 address of one link only never does.
    if (source.is_v6 && source.scope == IpScope::kLink) continue;
    if (chosen == nullptr || SourceOf(*chosen).scope < source.scope) chosen = entry;
    if (!request.address.empty() || !request.peer_address.empty()) break;
  }
  if (chosen == nullptr) return NothingFound(request, provider, -FI_ENODATA);
  absl::StatusOr<Profile> profile = Resolve(row, *chosen);
  if (!profile.ok()) return profile.status();
  FabricChoice choice;
  choice.info.reset(fi_dupinfo(chosen));
  if (choice.info == nullptr) return absl::ResourceExhaustedError("fi_dupinfo: out of memory");
  choice.profile = *std::move(profile);
  return choice;
}

absl::StatusOr<FabricChoice> CopyOf(const FabricChoice& choice) {
  FabricChoice copy;
  copy.info.reset(fi_dupinfo(choice.info.get()));
  if (copy.info == nullptr) return absl::ResourceExhaustedError("fi_dupinfo: out of memory");
  copy.profile = choice.profile;
  return copy;
}

std::string DescribeSource(const fi_info& info) {
  const IpAddress source = SourceOf(info);
  if (source.scope != IpScope::kNone) return source.text;
  return info.domain_attr->name == nullptr ? "" : info.domain_attr->name;
}

}  // namespace invoker::transport
