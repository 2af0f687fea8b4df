#include "bench/programs/socket_contender.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/peers/socket_io.h"
#include "bench/raw/round_trips.h"

namespace invoker::bench {
namespace {

absl::Status SocketError(absl::string_view what) {
  return absl::UnavailableError(
      absl::StrCat(what, ": ", errno == 0 ? "the connection has ended" : strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SocketContender>> SocketContender::Start(bool polls,
                                                                        size_t most_bytes,
                                                                        int core) {
  ServerProcess::Options options;
  options.command = {ProgramPath("bench/peers/socket_peer")};
  if (polls) options.command.push_back("--poll");
  options.core = core;
  absl::StatusOr<std::unique_ptr<ServerProcess>> peer = ServerProcess::Start(options);
  if (!peer.ok()) return peer.status();
  uint32_t port = 0;
  if (!absl::SimpleAtoi((*peer)->first_line(), &port) || port > 65535) {
    return absl::InternalError(
        absl::StrCat("socket_peer printed '", (*peer)->first_line(), "' in place of its port"));
  }
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0) return SocketError("socket");
  std::unique_ptr<SocketContender> contender(
      new SocketContender(*std::move(peer), connection, polls, most_bytes));
  const int one = 1;
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0) {
    return SocketError(absl::StrCat("connecting to socket_peer at port ", port));
  }
  return contender;
}

SocketContender::SocketContender(std::unique_ptr<ServerProcess> peer, int socket, bool polls,
                                 size_t most_bytes)
    : name_(polls ? "tcp_polling" : "tcp_blocking"),
      peer_(std::move(peer)),
      socket_(socket),
      polls_(polls),
      message_(most_bytes, 'x') {}

SocketContender::~SocketContender() { close(socket_); }

absl::Status SocketContender::Burst(size_t bytes, absl::Span<int64_t> times_ns) {
  if (bytes == 0 || bytes > message_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a message over a socket has 1 to ", message_.size(), " bytes here"));
  }
  const absl::Status told =
      peer_->WriteLine(absl::StrCat("pong ", bytes, " ", times_ns.size() + size_t{kSettlingTrips}));
  if (!told.ok()) return told;
  const absl::Status status = TimeTrips(times_ns, [&]() -> absl::Status {
    if (!SendAll(socket_, message_.data(), bytes, polls_)) return SocketError("send");
    if (!ReceiveAll(socket_, message_.data(), bytes, polls_)) return SocketError("recv");
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  const absl::StatusOr<std::string> done = peer_->ReadLine();
  return done.ok() ? absl::OkStatus() : done.status();
}

}  // namespace invoker::bench
