#include "src/cluster/own_address.h"

#include <netdb.h>
#include <sys/socket.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "src/base/unique_fd.h"

namespace invoker::cluster {

absl::StatusOr<std::string> OwnAddressTowards(const bootstrap::HostPort& peer) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(peer.host.c_str(), absl::StrCat(peer.port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(absl::StrCat(peer.host, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  const UniqueFd socket_fd(socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own = {};
  socklen_t size = sizeof(own);
  char host[NI_MAXHOST];
  if (socket_fd.get() < 0 || connect(socket_fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      getsockname(socket_fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&own), size, host, sizeof(host), nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("there is no way to ", peer.host));
  }
  return std::string(host);
}

}  // namespace invoker::cluster
