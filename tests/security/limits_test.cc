// What one peer can take of a server by connections and requests alone, and that the others do not
// notice.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/lease.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/bootstrap/service/server.h"
#include "tests/bootstrap/fake_host.h"
#include "tests/security/test_files.h"

namespace invoker::bootstrap {
namespace {

constexpr int kIdle = 200;

class LimitsTest : public ::testing::Test {
 protected:
  void Start(bool tls, absl::Duration handshake_timeout, const ConnectionLimits& limits = {}) {
    ServerOptions options;
    options.connections = limits;
    options.listen = "127.0.0.1:0";
    options.handshake_timeout = handshake_timeout;
    if (tls) {
      const security::IssuedFiles issued = authority_.Issue("server");
      options.security.tls = {issued.certificate, issued.key, ""};
      credentials_.tls_ca = authority_.file();
    }
    auto server = Server::Start(options, &host_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void OpenIdle() {
    for (int i = 0; i < kIdle; ++i) {
      const auto fd = OpenConnection(*ParseHostPort(server_->listen_address()), kPatience);
      ASSERT_TRUE(fd.ok()) << fd.status();
      idle_.push_back(*fd);
    }
  }
  // Asks for a connection from `source`, an address of the loopback interface.
  void OpenFrom(const char* source) {
    idle_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in own{};
    own.sin_family = AF_INET;
    ASSERT_EQ(inet_pton(AF_INET, source, &own.sin_addr), 1);
    ASSERT_EQ(bind(idle_.back(), reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
    ConnectLast();
  }
  void ConnectLast() { Connect(idle_.back()); }
  void Connect(int fd) {
    sockaddr_in server{};
    server.sin_family = AF_INET;
    server.sin_port = htons(ParseHostPort(server_->listen_address())->port);
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&server), sizeof(server)), 0);
  }
  // The server has closed it, without a word.
  static void AwaitClosed(int fd) {
    pollfd entry{fd, POLLIN, 0};
    ASSERT_EQ(poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))), 1);
    char byte;
    ASSERT_LE(recv(fd, &byte, 1, 0), 0);
  }
  void CloseIdle() {
    for (const int fd : idle_) close(fd);
    idle_.clear();
  }
  // The server closes its ends in its own time.
  absl::Status UseSoon() {
    const absl::Time until = absl::Now() + kPatience;
    absl::Status status = Use();
    while (!status.ok() && absl::Now() < until) status = Use();
    return status;
  }
  void TearDown() override {
    for (const int fd : idle_) close(fd);
  }
  absl::Status Use() {
    const auto client =
        BootstrapClient::Connect(server_->listen_address(), kPatience, credentials_);
    if (!client.ok()) return client.status();
    return Lease::Acquire(client->get(), {}, {}, kPatience).status();
  }

  security::TestFiles files_;
  security::TestAuthority authority_{&files_, "authority"};
  ClientCredentials credentials_;
  FakeHost host_;
  std::unique_ptr<Server> server_;
  std::vector<int> idle_;
};

TEST_F(LimitsTest, ConnectionsThatSayNothingKeepNobodyOut) {
  for (const bool tls : {false, true}) {
    Start(tls, absl::Hours(1));
    OpenIdle();
    const absl::Status status = Use();
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_F(LimitsTest, OneSourceKeepsNoOtherOut) {
  Start(/*tls=*/false, absl::Hours(1), {64, 16});
  for (int i = 0; i < 16; ++i) OpenFrom("127.0.0.2");
  for (int i = 0; i < 100; ++i) {
    OpenFrom("127.0.0.2");
    AwaitClosed(idle_.back());
  }
  EXPECT_EQ(server_->refused_connections().too_many_of_one, 100u);
  const absl::Status status = Use();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(LimitsTest, AServerThatWasFullTakesConnectionsAgain) {
  Start(/*tls=*/false, absl::Hours(1), {16, 8});
  for (const char* source : {"127.0.0.2", "127.0.0.3"}) {
    for (int i = 0; i < 8; ++i) OpenFrom(source);
  }
  for (int i = 0; i < 50; ++i) {
    OpenFrom("127.0.0.4");
    AwaitClosed(idle_.back());
  }
  EXPECT_EQ(server_->refused_connections().too_many, 50u);
  EXPECT_FALSE(Use().ok());
  CloseIdle();
  const absl::Status status = UseSoon();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(LimitsTest, AProcessWithoutDescriptorsIsDeafOnlyForSoLong) {
  Start(/*tls=*/false, absl::Hours(1), {1'000'000, 1'000'000});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low = {256, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  for (int i = 0; i < 20; ++i) idle_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  std::vector<int> all_others;
  for (int fd = 0; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) all_others.push_back(fd);
  EXPECT_EQ(errno, EMFILE);
  for (const int fd : idle_) {
    Connect(fd);
    AwaitClosed(fd);
  }
  EXPECT_EQ(server_->refused_connections().no_descriptor, 20u);
  for (const int fd : all_others) close(fd);
  CloseIdle();
  const absl::Status status = Use();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(LimitsTest, WithoutNumbersHalfOfTheDescriptorsAreForConnections) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const ConnectionLimits limits = ResolveLimits({});
  EXPECT_LE(limits.total, files.rlim_cur / 2);
  EXPECT_EQ(limits.per_source, limits.total / 2);
  EXPECT_EQ(ResolveLimits({10, 0}).per_source, 5u);
  EXPECT_EQ(ResolveLimits({10, 20}).per_source, 10u);
}

TEST_F(LimitsTest, ASourceIsAnAddressOrAnIpv6Network) {
  const auto source = [](const char* text) {
    sockaddr_storage storage{};
    auto* six = reinterpret_cast<sockaddr_in6*>(&storage);
    auto* four = reinterpret_cast<sockaddr_in*>(&storage);
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
      storage.ss_family = AF_INET;
    } else {
      EXPECT_EQ(inet_pton(AF_INET6, text, &six->sin6_addr), 1);
      storage.ss_family = AF_INET6;
    }
    return SourceOf(storage);
  };
  EXPECT_EQ(source("192.0.2.1"), source("::ffff:192.0.2.1"));
  EXPECT_NE(source("192.0.2.1"), source("192.0.2.2"));
  EXPECT_EQ(source("2001:db8::1"), source("2001:db8::ffff:2"));
  EXPECT_NE(source("2001:db8::1"), source("2001:db8:0:1::1"));
}

TEST_F(LimitsTest, HandshakesThatTakeTooLongAreEnded) {
  for (const bool tls : {false, true}) {
    Start(tls, absl::Milliseconds(100));
    OpenIdle();
    for (const int fd : idle_) {
      // Plaintext connections get the server's settings first.
      char bytes[256];
      ssize_t got = 1;
      while (got > 0) {
        pollfd entry{fd, POLLIN, 0};
        ASSERT_EQ(poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))), 1);
        got = read(fd, bytes, sizeof(bytes));
      }
      close(fd);
    }
    idle_.clear();
    const absl::Status status = Use();
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_F(LimitsTest, WhatIsTooLargeIsRefused) {
  Start(/*tls=*/false, absl::Seconds(10));
  const auto stub = v1::Bootstrap::NewStub(
      grpc::CreateChannel(server_->listen_address(), grpc::InsecureChannelCredentials()));
  v1::OpenSessionRequest request;
  request.set_downgrade_reason(std::string(100 << 10, 'x'));
  v1::OpenSessionReply reply;
  grpc::ClientContext large_message;
  EXPECT_EQ(stub->OpenSession(&large_message, request, &reply).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  grpc::ClientContext large_metadata;
  large_metadata.AddMetadata("authorization", std::string(100 << 10, 'x'));
  v1::GetWorkerInfoReply info;
  EXPECT_EQ(stub->GetWorkerInfo(&large_metadata, v1::GetWorkerInfoRequest(), &info).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  const absl::Status status = Use();
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace invoker::bootstrap
