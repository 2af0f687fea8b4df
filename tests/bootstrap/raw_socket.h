// Plain TCP for tests: something on a port that is not gRPC.

#ifndef INVOKER_TESTS_BOOTSTRAP_RAW_SOCKET_H_
#define INVOKER_TESTS_BOOTSTRAP_RAW_SOCKET_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace invoker::bootstrap {

inline sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// A listener on a free port.
class RawListener {
 public:
  // Calls `accepted` with every connection, on a thread of its own; it takes the connection.
  explicit RawListener(std::function<void(int fd)> accepted) : accepted_(std::move(accepted)) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ok_ = bind(fd_, reinterpret_cast<sockaddr*>(&address), size) == 0 && listen(fd_, 16) == 0 &&
          getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  // Sends `greeting` to each peer that connects and then says nothing more.
  explicit RawListener(std::string greeting)
      : RawListener([this, greeting = std::move(greeting)](int fd) {
          if (send(fd, greeting.data(), greeting.size(), MSG_NOSIGNAL) < 0) {
            shutdown(fd, SHUT_RDWR);
          }
          kept_.push_back(fd);
        }) {}
  ~RawListener() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    close(fd_);
    for (const int fd : kept_) close(fd);
  }
  bool ok() const { return ok_; }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  void Serve() {
    while (true) {
      const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) break;
      accepted_(fd);
    }
  }

  const std::function<void(int fd)> accepted_;
  std::vector<int> kept_;
  int fd_ = -1;
  bool ok_ = false;
  uint16_t port_ = 0;
  std::thread thread_;
};

// Connects to a loopback port, sends `bytes`, and waits until the other side closes. False if any
// of it fails.
inline bool SendRaw(uint16_t port, const std::string& bytes) {
  const sockaddr_in address = Loopback(port);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool ok =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()) &&
      shutdown(fd, SHUT_WR) == 0;
  char sink[512];
  while (ok && recv(fd, sink, sizeof(sink), 0) > 0) {
  }
  close(fd);
  return ok;
}

}  // namespace invoker::bootstrap

#endif  // INVOKER_TESTS_BOOTSTRAP_RAW_SOCKET_H_
