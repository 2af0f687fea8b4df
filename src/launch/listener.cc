#include "src/launch/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <utility>

namespace invoker::launch {

absl::StatusOr<Listener> ListenAt(const std::string& host) {
  Listener listener;
  listener.address.host = host;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "0", &hints, &found) != 0) {
    return bootstrap::ListenError(EADDRNOTAVAIL, listener.address);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  listener.socket =
      UniqueFd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  const int fd = listener.socket.get();
  if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return bootstrap::ListenError(errno, listener.address);
  }
  // The port is at the same place in addresses of both kinds.
  listener.address.port = ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  return listener;
}

}  // namespace invoker::launch
