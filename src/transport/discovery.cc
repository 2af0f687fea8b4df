#include "src/transport/discovery.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/transport/status.h"

namespace invoker::transport {
namespace {

bool IsIpAddress(const std::string& text) {
  in6_addr scratch;
  return inet_pton(AF_INET, text.c_str(), &scratch) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &scratch) == 1;
}

std::string IpText(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text,
              sizeof(text));
  } else if (address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
              sizeof(text));
  }
  return text;
}

// The first IPv4 address of the interface, else its first IPv6 address, else "".
std::string AddressOfInterface(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  std::string v4;
  std::string v6;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || interface != entry->ifa_name) continue;
    if (entry->ifa_addr->sa_family == AF_INET && v4.empty()) v4 = IpText(entry->ifa_addr);
    if (entry->ifa_addr->sa_family == AF_INET6 && v6.empty()) v6 = IpText(entry->ifa_addr);
  }
  freeifaddrs(list);
  return v4.empty() ? v6 : v4;
}

bool IsLoopback(const fi_info& info) {
  if (info.src_addr == nullptr) return false;
  if (info.addr_format == FI_SOCKADDR_IN) {
    const auto* address = static_cast<const sockaddr_in*>(info.src_addr);
    return (ntohl(address->sin_addr.s_addr) >> 24) == 127;
  }
  if (info.addr_format == FI_SOCKADDR_IN6) {
    const auto* address = static_cast<const sockaddr_in6*>(info.src_addr);
    return IN6_IS_ADDR_LOOPBACK(&address->sin6_addr);
  }
  return false;
}

bool IsUnserved(const ProfileRow& row, const fi_info& info) {
  return !row.unserved_fabric.empty() && info.fabric_attr->name != nullptr &&
         row.unserved_fabric == info.fabric_attr->name;
}

// What providers read from the environment must be there before the process's first fi_getinfo. A
// process that has used libfabric before, or that reads its environment on another thread just
// then, sets these itself.
void PrepareEnvironment() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const ProfileRow& row : Rows()) {
      if (row.environment.name != nullptr) setenv(row.environment.name, row.environment.value, 0);
    }
  });
}

std::string AvailableProviders() {
  InfoPtr hints = MakeHints(FindRow(""), "");
  if (hints == nullptr) return "unknown";
  fi_info* raw = nullptr;
  if (fi_getinfo(kApiVersion, nullptr, nullptr, 0, hints.get(), &raw) != 0) return "none";
  InfoPtr list(raw);
  std::set<std::string> names;
  for (const fi_info* entry = list.get(); entry != nullptr; entry = entry->next) {
    names.insert(entry->fabric_attr->prov_name);
  }
  return absl::StrJoin(names, ", ");
}

absl::Status NothingFound(const FabricRequest& request, const std::string& provider, int code) {
  return absl::NotFoundError(absl::StrCat(
      "no RDM endpoint of provider \"", provider, "\"",
      request.address.empty() ? "" : absl::StrCat(" at fabric address \"", request.address, "\""),
      ": ", ToStatus("fi_getinfo", code).message(),
      ". Providers with RDM endpoints on this machine: ", AvailableProviders(),
      ". Name one of them, or an address that `fi_info` lists"));
}

}  // namespace

absl::StatusOr<FabricChoice> Discover(const FabricRequest& request) {
  PrepareEnvironment();
  const std::string provider =
      request.provider.empty() ? std::string(DefaultProvider()) : request.provider;
  const ProfileRow& row = FindRow(provider);
  InfoPtr hints = MakeHints(row, provider);
  if (hints == nullptr) return absl::ResourceExhaustedError("fi_allocinfo: out of memory");

  std::string node;
  if (IsIpAddress(request.address)) {
    node = request.address;
  } else if (!request.address.empty() && row.address_is_ip) {
    node = AddressOfInterface(request.address);
  }
  if (node.empty() && !request.address.empty()) {
    hints->domain_attr->name = strdup(request.address.c_str());
  }
  if (request.address.empty() && row.address_is_ip && !request.peer_address.empty()) {
    hints->addr_format = request.peer_address_format;
    hints->dest_addr = malloc(request.peer_address.size());
    if (hints->dest_addr == nullptr) return absl::ResourceExhaustedError("out of memory");
    memcpy(hints->dest_addr, request.peer_address.data(), request.peer_address.size());
    hints->dest_addrlen = request.peer_address.size();
  }
  fi_info* raw = nullptr;
  const int code = fi_getinfo(kApiVersion, node.empty() ? nullptr : node.c_str(), nullptr,
                              node.empty() ? 0 : FI_SOURCE, hints.get(), &raw);
  if (code != 0) return NothingFound(request, provider, code);
  InfoPtr list(raw);

  const fi_info* chosen = nullptr;
  for (const fi_info* entry = list.get(); entry != nullptr; entry = entry->next) {
    if (provider != entry->fabric_attr->prov_name || IsUnserved(row, *entry)) continue;
    // Not every provider heeds the name that was asked for.
    if (hints->domain_attr->name != nullptr &&
        (entry->domain_attr->name == nullptr || request.address != entry->domain_attr->name)) {
      continue;
    }
    if (chosen == nullptr || (IsLoopback(*chosen) && !IsLoopback(*entry))) chosen = entry;
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

std::string DescribeSource(const fi_info& info) {
  const bool is_ip = info.addr_format == FI_SOCKADDR_IN || info.addr_format == FI_SOCKADDR_IN6;
  if (is_ip && info.src_addr != nullptr) {
    return IpText(static_cast<const sockaddr*>(info.src_addr));
  }
  return info.domain_attr->name == nullptr ? "" : info.domain_attr->name;
}

}  // namespace invoker::transport
