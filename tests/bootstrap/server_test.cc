// Listening, health, and strangers on the port.

#include "src/bootstrap/service/server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <gtest/gtest.h>

#include <atomic>

#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/lease.h"
#include "src/bootstrap/messages/host_port.h"
#include "tests/bootstrap/fake_host.h"
#include "tests/bootstrap/raw_socket.h"
#include "tests/bootstrap/standard_services.pb.h"

namespace invoker::bootstrap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kServiceName[] = "invoker.bootstrap.v1.Bootstrap";

class ServerTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Server>> StartAt(const std::string& listen) {
    ServerOptions options;
    options.listen = listen;
    return Server::Start(options, &host_);
  }
  void Start() {
    auto server = StartAt("127.0.0.1:0");
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->listen_address(), grpc::InsecureChannelCredentials());
  }

  testing::HealthCheckResponse::ServingStatus Health(const std::string& service) {
    grpc::TemplatedGenericStub<testing::HealthCheckRequest, testing::HealthCheckResponse> stub(
        channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    testing::HealthCheckRequest request;
    request.set_service(service);
    testing::HealthCheckResponse response;
    grpc::Status status;
    auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
    call->StartCall();
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.status();
  }

  uint16_t Port() const { return ParseHostPort(server_->listen_address())->port; }

  FakeHost host_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(ServerTest, TellsTheRealPort) {
  Start();
  EXPECT_THAT(server_->listen_address(), StartsWith("127.0.0.1:"));
  EXPECT_NE(Port(), 0);
}

TEST_F(ServerTest, ListensOnIpv6WithBrackets) {
  if (!ResolveListenAddress({"::1", 0}).ok()) GTEST_SKIP() << "this machine has no IPv6 loopback";
  auto server = StartAt("[::1]:0");
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT((*server)->listen_address(), StartsWith("[::1]:"));
  EXPECT_TRUE(BootstrapClient::Connect((*server)->listen_address(), kPatience).ok());
}

TEST_F(ServerTest, AllInterfacesAreReachedOverLoopback) {
  ServerOptions options;
  options.listen = "0.0.0.0:0";
  options.allow_plaintext = true;
  auto server = Server::Start(options, &host_);
  ASSERT_TRUE(server.ok()) << server.status();
  const absl::StatusOr<HostPort> address = ParseHostPort((*server)->listen_address());
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->host, "0.0.0.0");
  EXPECT_TRUE(BootstrapClient::Connect(absl::StrCat("127.0.0.1:", address->port), kPatience).ok());
}

TEST_F(ServerTest, IsReachedByName) {
  if (!LeadsToLoopback("localhost").value_or(false)) {
    GTEST_SKIP() << "this machine's resolver does not know localhost (no /etc/hosts)";
  }
  Start();
  const absl::StatusOr<HostPort> address = ParseHostPort(server_->listen_address());
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_TRUE(BootstrapClient::Connect(absl::StrCat("localhost:", address->port), kPatience).ok());
}

TEST_F(ServerTest, APortInUseIsNamed) {
  Start();
  const absl::Status status = StartAt(server_->listen_address()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(server_->listen_address()), HasSubstr("in use")));
}

TEST_F(ServerTest, APortIsFreeAgainAfterStop) {
  Start();
  ASSERT_TRUE(BootstrapClient::Connect(server_->listen_address(), kPatience).ok());
  server_->Stop();
  const auto again = StartAt(server_->listen_address());
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST_F(ServerTest, BadListenAddressesAreQuoted) {
  for (const std::string listen : {"", "41223", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"}) {
    const absl::Status status = StartAt(listen).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << listen;
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"" + listen + "\""));
  }
}

TEST_F(ServerTest, AnExpiryWithinTheHeartbeatIntervalIsRefused) {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.lease_expiry = options.heartbeat_interval;
  EXPECT_EQ(Server::Start(options, &host_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ServerTest, HealthSaysServingUntilDrain) {
  Start();
  EXPECT_EQ(Health(""), testing::HealthCheckResponse::SERVING);
  EXPECT_EQ(Health(kServiceName), testing::HealthCheckResponse::SERVING);
  server_->Drain("upgrade");
  EXPECT_EQ(Health(""), testing::HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health(kServiceName), testing::HealthCheckResponse::NOT_SERVING);
}

TEST_F(ServerTest, GarbageOnThePortDisturbsNobody) {
  Start();
  auto client = BootstrapClient::Connect(server_->listen_address(), kPatience);
  ASSERT_TRUE(client.ok()) << client.status();
  std::atomic<bool> lost{false};
  LeaseEvents events;
  events.on_lost = [&lost](absl::Status) { lost = true; };
  auto lease = Lease::Acquire(client->get(), {}, events, kPatience);
  ASSERT_TRUE(lease.ok()) << lease.status();
  const std::string http2_preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const std::string zeros(4096, '\0'), ones(4096, '\xff');
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), zeros, ones, http2_preface,
        http2_preface + zeros, http2_preface + ones, std::string()}) {
    EXPECT_TRUE(SendRaw(Port(), bytes));
  }
  EXPECT_TRUE((*client)->OpenSession((*lease)->id(), SampleRequest(), kPatience).ok());
  EXPECT_TRUE(BootstrapClient::Connect(server_->listen_address(), kPatience).ok());
  EXPECT_FALSE(lost);
}

TEST_F(ServerTest, StopTwiceAndDestructionAfterStopAreFine) {
  Start();
  server_->Stop();
  server_->Stop();
  server_->NotifySessionClosed(1, 1, "late");
  server_->Drain("late");
  server_.reset();
}

TEST_F(ServerTest, StopEndsTheLeasesOfClientsThatStay) {
  Start();
  auto client = BootstrapClient::Connect(server_->listen_address(), kPatience);
  ASSERT_TRUE(client.ok()) << client.status();
  auto lease = Lease::Acquire(client->get(), {}, {}, kPatience);
  ASSERT_TRUE(lease.ok()) << lease.status();
  server_->Stop();
  EXPECT_EQ(host_.Count(absl::StrCat("close_lease ", (*lease)->id())), 1);
}

}  // namespace
}  // namespace invoker::bootstrap
