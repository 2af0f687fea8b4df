// Clients that cannot connect are told why, and those that misbehave disturb nobody.

#include <gmock/gmock.h>

#include <string>

#include "tests/bootstrap/raw_socket.h"
#include "tests/integration/fabric_test.h"
#include "tests/integration/random_calls.h"

namespace invoker {
namespace {

using testing::HasSubstr;

class ConnectErrorsTest : public ServerTest {
 protected:
  absl::Status ConnectError(const std::string& address, const ClientOptions& options = {}) {
    return Client::Connect(address, options).status();
  }
};

TEST_F(ConnectErrorsTest, AnotherProviderIsRefusedWithBothNames) {
  for (const auto& [servers, clients] : {std::pair("tcp;ofi_rxm", "shm"), {"shm", "tcp;ofi_rxm"}}) {
    ServerProcess* server = StartServer({.provider = servers});
    ASSERT_NE(server, nullptr);
    ClientOptions options;
    options.provider = clients;
    const absl::Status status = ConnectError(server->address(), options);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("shm"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("tcp;ofi_rxm"));
  }
}

// All that the worker offers fails in the same way, which is said of each.
TEST_F(ConnectErrorsTest, WhatFailsOnEveryFabricIsToldOfEach) {
  ServerProcess* server = StartServer({.provider = "shm,tcp;ofi_rxm", .notify = "write_imm"});
  ASSERT_NE(server, nullptr);
  ClientOptions options;
  options.notification = Notification::kSendAfterWrite;
  const absl::Status status = ConnectError(server->address(), options);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("shm: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("tcp;ofi_rxm: "));
}

TEST_F(ConnectErrorsTest, AProviderThatDoesNotExistIsRefused) {
  ServerProcess* server = StartServer({});
  ASSERT_NE(server, nullptr);
  ClientOptions options;
  options.provider = "carrier-pigeon";
  const absl::Status status = ConnectError(server->address(), options);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("carrier-pigeon"));
}

TEST_F(ConnectErrorsTest, AFabricAddressThatDoesNotExistIsRefused) {
  ServerProcess* server = StartServer({});
  ASSERT_NE(server, nullptr);
  for (const char* address : {"198.51.100.77", "nosuchif0"}) {
    ClientOptions options;
    options.fabric_address = address;
    const absl::Status status = ConnectError(server->address(), options);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(address));
  }
}

TEST_F(ConnectErrorsTest, NotificationsThatExcludeEachOtherAreRefused) {
  for (const auto& [servers, clients] : {std::pair("write_imm", Notification::kSendAfterWrite),
                                         {"send_after_write", Notification::kWriteImm}}) {
    ServerProcess* server = StartServer({.notify = servers});
    ASSERT_NE(server, nullptr);
    ClientOptions options;
    options.notification = clients;
    const absl::Status status = ConnectError(server->address(), options);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("write_imm"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("send_after_write"));
  }
}

TEST_F(ConnectErrorsTest, OneSidesNotificationIsTakenWhereTheOtherHasNoWish) {
  for (const std::string servers : {"write_imm", "send_after_write", "auto"}) {
    ServerProcess* server = StartServer({.notify = servers});
    ASSERT_NE(server, nullptr);
    for (const Notification clients :
         {Notification::kWriteImm, Notification::kSendAfterWrite, Notification::kAuto}) {
      if (clients != Notification::kAuto && servers != "auto" &&
          NotificationName(clients) != servers) {
        continue;
      }
      ClientOptions options;
      options.notification = clients;
      options.peer_timeout = absl::Seconds(5);
      const auto client = Client::Connect(server->address(), options);
      ASSERT_TRUE(client.ok()) << client.status();
      std::string expected = "write_imm";
      if (clients != Notification::kAuto) {
        expected = std::string(NotificationName(clients));
      }
      if (servers != "auto") expected = servers;
      EXPECT_EQ(NotificationName((*client)->notification()), expected);
      EXPECT_EQ((*client)->downgrade_reason(), "");
    }
  }
}

TEST_F(ConnectErrorsTest, AWindowThatTheServerDoesNotGiveIsRefused) {
  ServerProcess* server = StartServer({.window = "64K"});
  ASSERT_NE(server, nullptr);
  ClientOptions options;
  options.window_bytes = 128 << 10;
  absl::Status status = ConnectError(server->address(), options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("131072"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("65536"));
  options.window_bytes = 5000;
  status = ConnectError(server->address(), options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("power of two"));
}

TEST_F(ConnectErrorsTest, APortWhereNobodyListensIsToldFromAServer) {
  ServerProcess* server = StartServer({});
  ASSERT_NE(server, nullptr);
  const std::string address = server->address();
  ASSERT_EQ(server->Stop(), 0);
  const absl::Status status = ConnectError(address);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(address));
  EXPECT_THAT(std::string(status.message()), HasSubstr("refused"));
}

TEST_F(ConnectErrorsTest, APortThatIsNotGrpcIsToldFromAServer) {
  bootstrap::RawListener listener("220 mail.example.org ESMTP\r\n");
  ASSERT_TRUE(listener.ok());
  ClientOptions options;
  options.connect_timeout = absl::Seconds(2);
  const absl::Status status = ConnectError(listener.address(), options);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(listener.address()));
  EXPECT_THAT(std::string(status.message()), HasSubstr("gRPC"));
}

TEST_F(ConnectErrorsTest, AnAddressThatIsNoneIsRefused) {
  for (const char* address : {"", "localhost", "127.0.0.1:", "127.0.0.1:99999", ":::"}) {
    EXPECT_EQ(ConnectError(address).code(), absl::StatusCode::kInvalidArgument) << address;
  }
}

TEST_F(ConnectErrorsTest, GarbageOnTheBootstrapPortDisturbsNobody) {
  ServerProcess* server = StartServer({});
  ASSERT_NE(server, nullptr);
  ClientOptions options;
  options.hot_timeout = kClientHotTimeout;
  options.peer_timeout = absl::Seconds(5);
  const auto client = Client::Connect(server->address(), options);
  ASSERT_TRUE(client.ok()) << client.status();
  const uint64_t seed = TestSeed();
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (int i = 0; i < 20; ++i) {
    const std::string garbage = RandomBytes(1 + 97 * i, seed + i);
    EXPECT_TRUE(bootstrap::SendRaw(server->port(), i % 2 == 0 ? garbage : preface + garbage));
    EXPECT_EQ(MakeRandomCalls(client->get(), seed + i, 3, 10'000), absl::OkStatus());
  }
  EXPECT_TRUE(bootstrap::SendRaw(server->port(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_TRUE(Client::Connect(server->address(), options).ok());
  EXPECT_EQ((*client)->status(), absl::OkStatus());
}

}  // namespace
}  // namespace invoker
