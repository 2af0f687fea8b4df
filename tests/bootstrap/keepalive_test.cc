// Connections whose other end is silent, or asks too much, as a client sees it that speaks no more
// of HTTP/2 than frames (RFC 9113).

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "src/bootstrap/messages/host_port.h"
#include "src/bootstrap/service/server.h"
#include "tests/bootstrap/fake_host.h"
#include "tests/bootstrap/raw_socket.h"

namespace invoker::bootstrap {
namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kHeader = 9;
constexpr char kSettings = 4;
constexpr char kPing = 6;
constexpr char kGoAway = 7;
constexpr char kAcknowledged = 1;

struct Frame {
  char type = 0;
  char flags = 0;
  std::string payload;
};

std::string Encode(const Frame& frame) {
  const size_t size = frame.payload.size();
  std::string bytes = {static_cast<char>(size >> 16), static_cast<char>(size >> 8),
                       static_cast<char>(size)};
  bytes += {frame.type, frame.flags, 0, 0, 0, 0};  // stream 0, the connection
  return bytes + frame.payload;
}

// A connection that is open, and on which nothing is called.
class RawClient {
 public:
  explicit RawClient(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in address = Loopback(port);
    const timeval patience = absl::ToTimeval(kPatience);
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    ok_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    Send(kPreface + Encode({kSettings, 0, ""}));
  }
  ~RawClient() { close(fd_); }

  bool ok() const { return ok_; }
  // Whether the server has closed it; false too if nothing has come for longer than in any healthy
  // run.
  bool closed() const { return closed_; }

  void Send(const std::string& bytes) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ok_ = ok_ && sent == static_cast<ssize_t>(bytes.size());
  }

  // The next frame; nothing once there are no more.
  std::optional<Frame> Read() {
    const std::string header = Take(kHeader);
    if (header.size() < kHeader) return std::nullopt;
    const auto byte = [&header](int i) { return size_t{static_cast<uint8_t>(header[i])}; };
    const size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
    return Frame{header[3], header[4], Take(size)};
  }

  // The next question whether this end is there. Nothing if the connection ends before.
  std::optional<Frame> ReadPing() {
    while (std::optional<Frame> frame = Read()) {
      if (frame->type == kPing && (frame->flags & kAcknowledged) == 0) return frame;
    }
    return std::nullopt;
  }

 private:
  std::string Take(size_t size) {
    std::string bytes(size, '\0');
    size_t taken = 0;
    while (taken < size) {
      const ssize_t got = recv(fd_, &bytes[taken], size - taken, 0);
      closed_ = closed_ || got == 0 || (got < 0 && errno == ECONNRESET);
      if (got <= 0) break;
      taken += static_cast<size_t>(got);
    }
    bytes.resize(taken);
    return bytes;
  }

  const int fd_;
  bool ok_ = false;
  bool closed_ = false;
};

class KeepaliveTest : public testing::Test {
 protected:
  void Start(absl::Duration interval, absl::Duration timeout) {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.keepalive_interval = interval;
    options.keepalive_timeout = timeout;
    auto server = Server::Start(options, &host_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  uint16_t Port() const { return ParseHostPort(server_->listen_address())->port; }

  FakeHost host_;
  std::unique_ptr<Server> server_;
};

TEST_F(KeepaliveTest, AConnectionStaysForAsLongAsItsOtherEndAnswers) {
  Start(absl::Milliseconds(100), absl::Seconds(3));
  RawClient client(Port());
  // More than the two that gRPC allows a client to send while nothing is called.
  for (int i = 0; i < 4; ++i) {
    const std::optional<Frame> ping = client.ReadPing();
    ASSERT_TRUE(ping.has_value()) << "ping " << i;
    client.Send(Encode({kPing, kAcknowledged, ping->payload}));
    ASSERT_TRUE(client.ok());
  }
  // Its machine still takes every byte, and only nobody answers.
  while (client.Read().has_value()) {
  }
  EXPECT_TRUE(client.closed());
}

TEST_F(KeepaliveTest, WhoAsksTooOftenIsSentAway) {
  Start(absl::Hours(1), absl::Hours(1));
  RawClient client(Port());
  const std::string ping = Encode({kPing, 0, "12345678"});
  for (int i = 0; i < 8; ++i) client.Send(ping);
  bool sent_away = false;
  while (const std::optional<Frame> frame = client.Read()) {
    if (frame->type != kGoAway) continue;
    sent_away = true;
    EXPECT_NE(frame->payload.find("too_many_pings"), std::string::npos);
  }
  EXPECT_TRUE(sent_away);
  EXPECT_TRUE(client.closed());
}

TEST_F(KeepaliveTest, TimesThatMakeNoSenseAreRefused) {
  for (const absl::Duration wrong : {absl::ZeroDuration(), absl::InfiniteDuration()}) {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.keepalive_interval = wrong;
    EXPECT_EQ(Server::Start(options, &host_).status().code(), absl::StatusCode::kInvalidArgument);
    options.keepalive_interval = absl::Seconds(1);
    options.keepalive_timeout = wrong;
    EXPECT_EQ(Server::Start(options, &host_).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace invoker::bootstrap
