// Messages between a server and a process of its own; and one end that sends what is no message, or
// never comes to the end of one.

#include "src/isolation/process/control_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <utility>

namespace invoker {
namespace {

class ControlSocketTest : public testing::Test {
 protected:
  ControlSocketTest() : ControlSocketTest(*ControlSocket::Pair()) {}

  // A packet from the other end, as it is.
  void SendPacket(const std::string& packet) {
    ASSERT_EQ(send(other_.fd(), packet.data(), packet.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(packet.size()));
  }

  ControlSocket here_;
  ControlSocket other_;

 private:
  explicit ControlSocketTest(std::pair<UniqueFd, UniqueFd> ends)
      : here_(std::move(ends.first), ControlSocket::Takes::kSender),
        other_(std::move(ends.second), ControlSocket::Takes::kDescriptors) {}
};

const std::string kFullPacket = std::string(1, '\0') + std::string(32 << 10, 'x');

TEST_F(ControlSocketTest, MessagesOfEveryLengthComeWhole) {
  for (const size_t size : {size_t{0}, size_t{1}, ControlSocket::kPacketBytes,
                            ControlSocket::kPacketBytes + 1, ControlSocket::kMessageBytes}) {
    const std::string bytes(size, 'm');
    std::thread sender([&] { EXPECT_TRUE(other_.Send(bytes, {}, /*wait=*/true).ok()); });
    const auto message = here_.Receive(/*wait=*/true);
    sender.join();
    ASSERT_TRUE(message.ok()) << message.status() << " of " << size;
    EXPECT_TRUE(message->bytes == bytes) << size;
  }
  EXPECT_EQ(here_.Receive(/*wait=*/false).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ControlSocketTest, AnUnfinishedPacketThatIsNotFullIsNoMessage) {
  SendPacket(std::string(1, '\0'));
  EXPECT_EQ(here_.Receive(/*wait=*/false).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ControlSocketTest, AnUnknownPacketIsNoMessage) {
  SendPacket("?");
  EXPECT_EQ(here_.Receive(/*wait=*/false).status().code(), absl::StatusCode::kUnavailable);
}

// There is more to read each time that it returns.
TEST_F(ControlSocketTest, WhoNeverEndsAMessageKeepsNobodyThatDoesNotWait) {
  size_t sent = 0;
  absl::Status status = absl::NotFoundError("");
  for (int calls = 0; absl::IsNotFound(status); ++calls) {
    ASSERT_LT(calls, 10'000);
    while (send(other_.fd(), kFullPacket.data(), kFullPacket.size(), MSG_DONTWAIT) > 0) ++sent;
    status = here_.Receive(/*wait=*/false).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_GE(sent, ControlSocket::kMessageBytes / ControlSocket::kPacketBytes);
}

TEST_F(ControlSocketTest, OneCallTakesAFewPacketsAtMost) {
  // Room for more than it takes.
  const int room = 4 << 20;
  setsockopt(other_.fd(), SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
  std::string last = kFullPacket;
  last[0] = '\1';
  int sent = 0;
  while (sent < 40 && send(other_.fd(), kFullPacket.data(), kFullPacket.size(), MSG_DONTWAIT) > 0) {
    ++sent;
  }
  if (sent < 40) GTEST_SKIP() << "not root: this socket has room for " << sent << " packets only";
  SendPacket(last);
  EXPECT_EQ(here_.Receive(/*wait=*/false).status().code(), absl::StatusCode::kNotFound);
  absl::StatusOr<ControlSocket::Message> message = absl::NotFoundError("");
  int calls = 1;
  for (; absl::IsNotFound(message.status()) && calls < 100; ++calls) {
    message = here_.Receive(/*wait=*/false);
  }
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_GT(calls, 2);
  EXPECT_EQ(message->bytes.size(), 41 * ControlSocket::kPacketBytes);
}

}  // namespace
}  // namespace invoker
