// Keeps the port of a fabric address of IP sockets from being taken again, without listening on it.
// Somebody else could be given it, and would answer; and a socket that tries to connect to a free
// port over and over is given that port as its own sooner or later, and is connected to itself.
//
// One thread's.

#ifndef INVOKER_TESTS_ACCOUNTING_HELD_PORT_H_
#define INVOKER_TESTS_ACCOUNTING_HELD_PORT_H_

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "gtest/gtest.h"

namespace invoker {

class HeldPort {
 public:
  HeldPort() = default;
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;
  ~HeldPort() {
    if (fd_ >= 0) close(fd_);
  }

  // Does nothing for addresses of other fabrics.
  void Hold(const std::string& endpoint_address) {
    sockaddr_in address;
    if (endpoint_address.size() != sizeof(address)) return;
    memcpy(&address, endpoint_address.data(), sizeof(address));
    if (address.sin_family != AF_INET) return;
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_GE(fd_, 0);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0)
        << strerror(errno);
  }

 private:
  int fd_ = -1;
};

}  // namespace invoker

#endif  // INVOKER_TESTS_ACCOUNTING_HELD_PORT_H_
