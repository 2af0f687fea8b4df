// What one peer can take of a server by connections and requests alone, and that the others do not
// notice.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <vector>

#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/client.h"
#include "src/bootstrap/host_port.h"
#include "src/bootstrap/lease.h"
#include "src/bootstrap/server.h"
#include "tests/bootstrap/fake_host.h"
#include "tests/security/test_files.h"

namespace invoker::bootstrap {
namespace {

constexpr int kIdle = 200;

class LimitsTest : public ::testing::Test {
 protected:
  void Start(bool tls, absl::Duration handshake_timeout) {
    ServerOptions options;
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
  security::ClientCredentials credentials_;
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
