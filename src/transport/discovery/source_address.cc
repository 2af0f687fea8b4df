#include "src/transport/discovery/source_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

namespace invoker::transport {
namespace {

IpAddress Describe4(const in_addr& address) {
  IpAddress result;
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &address, text, sizeof(text));
  result.text = text;
  const uint32_t bits = ntohl(address.s_addr);
  const bool is_link = (bits >> 16) == 0xa9fe;  // 169.254.0.0/16
  result.scope = (bits >> 24) == 127 ? IpScope::kLoopback
                 : is_link           ? IpScope::kLink
                                     : IpScope::kGlobal;
  return result;
}

IpAddress Describe6(const in6_addr& address) {
  IpAddress result;
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, &address, text, sizeof(text));
  result.text = text;
  result.is_v6 = true;
  result.scope = IN6_IS_ADDR_LOOPBACK(&address)    ? IpScope::kLoopback
                 : IN6_IS_ADDR_LINKLOCAL(&address) ? IpScope::kLink
                                                   : IpScope::kGlobal;
  return result;
}

// AF_INET and AF_INET6; anything else is scope kNone.
IpAddress DescribeIp(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return Describe4(reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  }
  if (address.sa_family == AF_INET6) {
    return Describe6(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  }
  return {};
}

}  // namespace

IpAddress ParseIp(const std::string& text) {
  in_addr v4;
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return Describe4(v4);
  in6_addr v6;
  if (inet_pton(AF_INET6, text.c_str(), &v6) == 1) return Describe6(v6);
  return {};
}

std::vector<IpAddress> AddressesOf(const std::string& interface) {
  std::vector<IpAddress> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || interface != entry->ifa_name) continue;
    IpAddress address = DescribeIp(*entry->ifa_addr);
    if (address.scope != IpScope::kNone) addresses.push_back(std::move(address));
  }
  freeifaddrs(list);
  return addresses;
}

IpAddress SourceOf(const fi_info& info) {
  const bool is_ip = info.addr_format == FI_SOCKADDR_IN || info.addr_format == FI_SOCKADDR_IN6;
  if (!is_ip || info.src_addr == nullptr) return {};
  return DescribeIp(*static_cast<const sockaddr*>(info.src_addr));
}

}  // namespace invoker::transport
