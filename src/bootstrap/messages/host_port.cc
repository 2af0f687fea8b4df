#include "src/bootstrap/messages/host_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace invoker::bootstrap {
namespace {

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// strerror is not safe in threads; this is, and its words are the same but for the first letter.
std::string ErrorText(int error) {
  std::string text = std::generic_category().message(error);
  if (!text.empty()) text[0] = absl::ascii_tolower(text[0]);
  return text;
}

absl::StatusOr<AddressList> Lookup(const HostPort& address, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot resolve the host \"", address.host, "\": ", gai_strerror(error)));
  }
  return AddressList(found, &freeaddrinfo);
}

bool IsNumeric(const std::string& host, int family) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(family, host.c_str(), bytes) == 1;
}

absl::Status CheckListenable(const addrinfo& info, const HostPort& address) {
  Socket socket(::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int error = 0;
  if (socket.fd() < 0) {
    error = errno;
  } else {
    // Like the server's own socket: connections in TIME_WAIT do not matter, a listener does.
    const int on = 1;
    setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(socket.fd(), info.ai_addr, info.ai_addrlen) != 0) error = errno;
  }
  return ListenError(error, address);
}

absl::StatusOr<int> ConnectTo(const addrinfo& info, absl::Time deadline) {
  Socket socket(::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.fd() < 0) return absl::UnavailableError(ErrorText(errno));
  if (connect(socket.fd(), info.ai_addr, info.ai_addrlen) == 0) return socket.Release();
  if (errno != EINPROGRESS) return absl::UnavailableError(ErrorText(errno));
  pollfd entry{socket.fd(), POLLOUT, 0};
  int ready = 0;
  do {
    // Rounded up, so that the last millisecond is not spent spinning.
    const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now()) + 1;
    ready = poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000)));
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) return absl::DeadlineExceededError("no answer to the connection attempt");
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return absl::UnavailableError(ErrorText(error));
  return socket.Release();
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  const auto bad = [text](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not HOST:PORT: ", why,
                     "; write for example 127.0.0.1:41223 or [::1]:41223"));
  };
  if (absl::StrContains(text, "://")) {
    return bad("it names a cluster, where one server is wanted (`invoker members` lists them)");
  }
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return bad("the port is missing");
  absl::string_view host = text.substr(0, colon);
  const absl::string_view port = text.substr(colon + 1);
  HostPort result;
  if (!host.empty() && host.front() == '[') {
    if (host.size() < 3 || host.back() != ']')
      return bad("the bracket is not closed before the port");
    result.host = std::string(host.substr(1, host.size() - 2));
    if (!IsNumeric(result.host, AF_INET6))
      return bad("what stands in brackets is not an IPv6 address");
  } else {
    if (host.empty()) return bad("the host is missing");
    if (host.find(':') != absl::string_view::npos) {
      return bad("an IPv6 address must stand in brackets, and nothing may stand before the host");
    }
    for (const char c : host) {
      if (!absl::ascii_isalnum(c) && c != '.' && c != '-' && c != '_') {
        return bad("the host has a character that no host name has");
      }
    }
    result.host = std::string(host);
  }
  uint32_t number = 0;
  const bool digits = !port.empty() && std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(port, &number) ||
      number > std::numeric_limits<uint16_t>::max()) {
    return bad("the port is not a number from 0 to 65535");
  }
  result.port = static_cast<uint16_t>(number);
  return result;
}

std::string FormatHostPort(const HostPort& address) {
  const bool bracket = address.host.find(':') != std::string::npos;
  return bracket ? absl::StrCat("[", address.host, "]:", address.port)
                 : absl::StrCat(address.host, ":", address.port);
}

std::string GrpcTarget(const HostPort& address) {
  const std::string text = FormatHostPort(address);
  if (IsNumeric(address.host, AF_INET)) return absl::StrCat("ipv4:", text);
  if (IsNumeric(address.host, AF_INET6)) return absl::StrCat("ipv6:", text);
  return absl::StrCat("dns:///", text);
}

bool IsLoopback(const std::string& numeric_host) {
  in_addr four;
  if (inet_pton(AF_INET, numeric_host.c_str(), &four) == 1) {
    return ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  in6_addr six;
  if (inet_pton(AF_INET6, numeric_host.c_str(), &six) != 1) return false;
  if (IN6_IS_ADDR_V4MAPPED(&six)) return six.s6_addr[12] == IN_LOOPBACKNET;
  return IN6_IS_ADDR_LOOPBACK(&six) != 0;
}

absl::StatusOr<bool> LeadsToLoopback(const std::string& host) {
  absl::StatusOr<AddressList> list = Lookup(HostPort{host, 0}, 0);
  if (!list.ok()) return absl::UnavailableError(list.status().message());
  for (const addrinfo* info = list->get(); info != nullptr; info = info->ai_next) {
    char numeric[NI_MAXHOST];
    if (getnameinfo(info->ai_addr, info->ai_addrlen, numeric, sizeof(numeric), nullptr, 0,
                    NI_NUMERICHOST) != 0 ||
        !IsLoopback(numeric)) {
      return false;
    }
  }
  return true;
}

absl::Status ListenError(int error, const HostPort& address) {
  const std::string where = FormatHostPort(address);
  switch (error) {
    case 0:
      return absl::OkStatus();
    case EADDRINUSE:
      return absl::AlreadyExistsError(
          absl::StrCat("cannot listen on ", where,
                       ": the port is in use by another process; stop it, "
                       "or choose another port (0 picks a free one)"));
    case EADDRNOTAVAIL:
      return absl::InvalidArgumentError(absl::StrCat(
          "cannot listen on ", where, ": no interface of this machine has that address"));
    case EACCES:
      return absl::PermissionDeniedError(absl::StrCat(
          "cannot listen on ", where, ": ports below 1024 need privileges; choose a larger one"));
    default:
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", where, ": ", ErrorText(error)));
  }
}

absl::StatusOr<HostPort> ResolveListenAddress(const HostPort& address) {
  absl::StatusOr<AddressList> list = Lookup(address, AI_PASSIVE);
  if (!list.ok()) return list.status();
  const addrinfo* chosen = list->get();
  for (const addrinfo* info = chosen; info != nullptr; info = info->ai_next) {
    if (info->ai_family == AF_INET) {
      chosen = info;
      break;
    }
  }
  if (absl::Status status = CheckListenable(*chosen, address); !status.ok()) return status;
  char host[NI_MAXHOST];
  const int error = getnameinfo(chosen->ai_addr, chosen->ai_addrlen, host, sizeof(host), nullptr, 0,
                                NI_NUMERICHOST);
  if (error != 0) {
    return absl::InternalError(absl::StrCat("cannot write the address of \"", address.host,
                                            "\" in numbers: ", gai_strerror(error)));
  }
  return HostPort{host, address.port};
}

absl::StatusOr<std::string> InterfaceToListenOn(absl::string_view listen) {
  absl::StatusOr<HostPort> address = ParseHostPort(listen);
  if (!address.ok()) return address.status();
  address = ResolveListenAddress(*address);
  if (!address.ok()) return address.status();
  const bool any = address->host == "0.0.0.0" || address->host == "::";
  return any ? std::string() : address->host;
}

absl::StatusOr<int> OpenConnection(const HostPort& address, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  absl::StatusOr<AddressList> list = Lookup(address, 0);
  if (!list.ok()) return absl::UnavailableError(list.status().message());
  absl::StatusOr<int> connected = absl::UnavailableError("no address to connect to");
  for (const addrinfo* info = list->get(); info != nullptr && !connected.ok();
       info = info->ai_next) {
    connected = ConnectTo(*info, deadline);
  }
  return connected;
}

absl::Status TryConnect(const HostPort& address, absl::Duration timeout) {
  const absl::StatusOr<int> connected = OpenConnection(address, timeout);
  if (!connected.ok()) return connected.status();
  close(*connected);
  return absl::OkStatus();
}

}  // namespace invoker::bootstrap
