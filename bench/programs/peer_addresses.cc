#include "bench/programs/peer_addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace invoker::bench {
namespace {

constexpr uint16_t kPort = 7471;

}  // namespace

absl::StatusOr<PeerAddresses> PeerAddresses::For(const transport::FabricChoice& fabric) {
  const uint32_t format = fabric.info->addr_format;
  if (format != FI_SOCKADDR_IN && format != FI_SOCKADDR_IN6 && format != FI_ADDR_STR) {
    return absl::UnimplementedError(absl::StrCat("addresses of ", fabric.profile.provider,
                                                 " (libfabric's format ", format,
                                                 ") cannot be made up"));
  }
  return PeerAddresses(format);
}

const std::string& PeerAddresses::Get(uint32_t number) {
  if (format_ == FI_SOCKADDR_IN) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(kPort);
    address.sin_addr.s_addr = htonl(10u << 24 | number);
    raw_.assign(reinterpret_cast<const char*>(&address), sizeof(address));
  } else if (format_ == FI_SOCKADDR_IN6) {
    sockaddr_in6 address = {};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(kPort);
    address.sin6_addr.s6_addr[0] = 0xfd;
    const uint32_t low = htonl(number);
    memcpy(&address.sin6_addr.s6_addr[12], &low, sizeof(low));
    raw_.assign(reinterpret_cast<const char*>(&address), sizeof(address));
  } else {
    raw_ = absl::StrCat("fi_shm://nobody-", number);
    raw_.push_back('\0');
  }
  return raw_;
}

}  // namespace invoker::bench
