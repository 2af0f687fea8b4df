#include "src/bootstrap/service/acceptor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace invoker::bootstrap {
namespace {

// How long to wait where nothing tells when the system can accept again.
constexpr int kShortWaitMs = 50;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

SocketAddress FromV4(const in_addr& host, uint16_t port) {
  SocketAddress address;
  auto* four = reinterpret_cast<sockaddr_in*>(&address.storage);
  four->sin_family = AF_INET;
  four->sin_addr = host;
  four->sin_port = htons(port);
  address.size = sizeof(*four);
  return address;
}

SocketAddress FromV6(const in6_addr& host, uint16_t port) {
  SocketAddress address;
  auto* six = reinterpret_cast<sockaddr_in6*>(&address.storage);
  six->sin6_family = AF_INET6;
  six->sin6_addr = host;
  six->sin6_port = htons(port);
  address.size = sizeof(*six);
  return address;
}

// A socket that listens, or -1 with errno.
int ListenAt(const SocketAddress& address) {
  const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1;
  const int off = 0;
  // A server that was restarted has its port again, whatever is in TIME_WAIT there.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.storage.ss_family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0 &&
      listen(fd, SOMAXCONN) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int ListenAtHost(const HostPort& address) {
  in_addr four;
  in6_addr six = IN6ADDR_ANY_INIT;
  if (inet_pton(AF_INET, address.host.c_str(), &four) == 1) {
    if (four.s_addr != INADDR_ANY) return ListenAt(FromV4(four, address.port));
    const int both = ListenAt(FromV6(six, address.port));
    // Without IPv6 in the system; else IPv4 has the same to say.
    return both >= 0 ? both : ListenAt(FromV4(four, address.port));
  }
  if (inet_pton(AF_INET6, address.host.c_str(), &six) == 1) {
    return ListenAt(FromV6(six, address.port));
  }
  errno = EINVAL;
  return -1;
}

uint16_t PortOf(int fd) {
  SocketAddress own;
  own.size = sizeof(own.storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own.storage), &own.size) != 0) return 0;
  return ntohs(own.storage.ss_family == AF_INET
                   ? reinterpret_cast<const sockaddr_in&>(own.storage).sin_port
                   : reinterpret_cast<const sockaddr_in6&>(own.storage).sin6_port);
}

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(const HostPort& address,
                                                           const ConnectionLimits& limits,
                                                           absl::Duration user_timeout) {
  const int fd = ListenAtHost(address);
  if (fd < 0) return ListenError(errno, address);
  const int stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop_fd < 0) {
    const int error = errno;
    close(fd);
    return ListenError(error, address);
  }
  return std::unique_ptr<Acceptor>(
      new Acceptor(fd, stop_fd, OpenSpare(), PortOf(fd), ResolveLimits(limits), user_timeout));
}

Acceptor::Acceptor(int fd, int stop_fd, int spare_fd, uint16_t port, const ConnectionLimits& limits,
                   absl::Duration user_timeout)
    : fd_(fd),
      stop_fd_(stop_fd),
      spare_fd_(spare_fd),
      port_(port),
      user_timeout_ms_(static_cast<int>(absl::ToInt64Milliseconds(user_timeout))),
      table_(limits) {}

Acceptor::~Acceptor() {
  Stop();
  close(stop_fd_);
  if (spare_fd_ >= 0) close(spare_fd_);
}

void Acceptor::Start(Take take) {
  take_ = std::move(take);
  thread_ = std::thread([this] { Run(); });
}

void Acceptor::Stop() {
  if (thread_.joinable()) {
    eventfd_write(stop_fd_, 1);
    thread_.join();
  }
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

AcceptorCounters Acceptor::counters() const {
  return {too_many_.load(std::memory_order_relaxed),
          too_many_of_one_.load(std::memory_order_relaxed),
          no_descriptor_.load(std::memory_order_relaxed)};
}

void Acceptor::Run() {
  while (true) {
    pollfd entries[] = {{stop_fd_, POLLIN, 0}, {fd_, POLLIN, 0}};
    if (poll(entries, 2, -1) < 0 && errno != EINTR) poll(entries, 1, kShortWaitMs);
    if (entries[0].revents != 0) return;
    if (entries[1].revents != 0 && !AcceptOne()) {
      // What the system is short of is not always told of: it is asked again soon.
      poll(entries, 1, kShortWaitMs);
      if (entries[0].revents != 0) return;
    }
  }
}

bool Acceptor::AcceptOne() {
  SocketAddress peer;
  peer.size = sizeof(peer.storage);
  const int fd = accept4(fd_, reinterpret_cast<sockaddr*>(&peer.storage), &peer.size,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    switch (errno) {
      case EMFILE:
      case ENFILE:
        return TurnOneAway();
      case ENOMEM:
      case ENOBUFS:
        return false;
      default:
        // It was over before it was accepted, or somebody else's signal came: poll knows.
        return true;
    }
  }
  if (spare_fd_ < 0) spare_fd_ = OpenSpare();
  switch (table_.Admit(fd, SourceOf(peer.storage), absl::Now())) {
    case ConnectionTable::Verdict::kAdmitted:
      break;
    case ConnectionTable::Verdict::kTotalReached:
      too_many_.fetch_add(1, std::memory_order_relaxed);
      close(fd);
      return true;
    case ConnectionTable::Verdict::kSourceReached:
      too_many_of_one_.fetch_add(1, std::memory_order_relaxed);
      close(fd);
      return true;
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms_, sizeof(user_timeout_ms_));
  take_(fd);
  return true;
}

bool Acceptor::TurnOneAway() {
  if (spare_fd_ < 0) return false;
  close(std::exchange(spare_fd_, -1));
  const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) {
    no_descriptor_.fetch_add(1, std::memory_order_relaxed);
    close(fd);
  }
  spare_fd_ = OpenSpare();
  return fd >= 0 || errno == EAGAIN;
}

}  // namespace invoker::bootstrap
