// The lease stream spoken by hand, by clients that do not behave.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <set>

#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/service/server.h"
#include "tests/bootstrap/fake_host.h"

namespace invoker::bootstrap {
namespace {

using ::testing::HasSubstr;

using Stream = grpc::ClientReaderWriter<v1::LeaseRequest, v1::LeaseEvent>;

class LeaseProtocolTest : public ::testing::Test {
 protected:
  void Start(absl::Duration expiry) {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.heartbeat_interval = absl::Milliseconds(50);
    options.lease_expiry = expiry;
    auto server = Server::Start(options, &host_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    Reconnect();
  }

  void Reconnect() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = v1::Bootstrap::NewStub(grpc::CreateCustomChannel(
        server_->listen_address(), grpc::InsecureChannelCredentials(), arguments));
  }

  // Asks for a lease that shares the worker's executors. The granted lease, or 0.
  static uint64_t Ask(Stream* stream) {
    v1::LeaseEvent event;
    return SendTerms(stream, 0) && stream->Read(&event) ? event.granted().lease() : 0;
  }

  static bool SendTerms(Stream* stream, uint32_t executors) {
    v1::LeaseRequest request;
    request.mutable_terms()->set_executors(executors);
    return stream->Write(request);
  }

  static bool SendHeartbeat(Stream* stream, uint64_t sequence) {
    v1::LeaseRequest request;
    request.mutable_heartbeat()->set_sequence(sequence);
    return stream->Write(request);
  }

  static std::string Closed(uint64_t lease) { return absl::StrCat("close_lease ", lease); }

  FakeHost host_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::Bootstrap::Stub> stub_;
};

TEST_F(LeaseProtocolTest, TheGrantComesFirstAndSaysTheTimes) {
  Start(absl::Seconds(30));
  grpc::ClientContext context;
  const auto stream = stub_->Lease(&context);
  v1::LeaseRequest request;
  request.mutable_terms()->set_tenant("biology");
  request.mutable_terms()->set_ttl_us(UINT64_MAX);
  ASSERT_TRUE(stream->Write(request));
  v1::LeaseEvent event;
  ASSERT_TRUE(stream->Read(&event));
  ASSERT_TRUE(event.has_granted());
  EXPECT_EQ(event.granted().terms().tenant(), "biology");
  EXPECT_EQ(event.granted().terms().ttl_us(), UINT64_MAX);
  EXPECT_NE(event.granted().lease(), 0u);
  EXPECT_EQ(event.granted().heartbeat_interval_us(), 50'000u);
  EXPECT_EQ(event.granted().expiry_us(), 30'000'000u);
  context.TryCancel();
}

TEST_F(LeaseProtocolTest, EveryLeaseHasItsOwnId) {
  Start(absl::Seconds(30));
  std::set<uint64_t> ids;
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    const auto stream = stub_->Lease(&context);
    ids.insert(Ask(stream.get()));
    context.TryCancel();
  }
  EXPECT_EQ(ids.size(), 50u);
  EXPECT_EQ(ids.count(0), 0u);
}

TEST_F(LeaseProtocolTest, AHeartbeatIsAcknowledgedWithItsSequence) {
  Start(absl::Seconds(30));
  grpc::ClientContext context;
  const auto stream = stub_->Lease(&context);
  ASSERT_NE(Ask(stream.get()), 0u);
  for (uint64_t sequence : {uint64_t{1}, uint64_t{2}, uint64_t{0xffff'ffff'ffff'ffff}}) {
    ASSERT_TRUE(SendHeartbeat(stream.get(), sequence));
    v1::LeaseEvent event;
    ASSERT_TRUE(stream->Read(&event));
    EXPECT_EQ(event.heartbeat_ack().sequence(), sequence);
  }
  context.TryCancel();
}

TEST_F(LeaseProtocolTest, AFloodOfHeartbeatsIsAcknowledgedUpToTheLast) {
  Start(absl::Seconds(30));
  grpc::ClientContext context;
  const auto stream = stub_->Lease(&context);
  ASSERT_NE(Ask(stream.get()), 0u);
  constexpr uint64_t kHeartbeats = 5000;
  for (uint64_t i = 1; i <= kHeartbeats; ++i) ASSERT_TRUE(SendHeartbeat(stream.get(), i));
  v1::LeaseEvent event;
  uint64_t last = 0;
  while (last < kHeartbeats && stream->Read(&event)) {
    EXPECT_GT(event.heartbeat_ack().sequence(), last);
    last = event.heartbeat_ack().sequence();
  }
  EXPECT_EQ(last, kHeartbeats);
  context.TryCancel();
}

TEST_F(LeaseProtocolTest, AClientThatEndsTheStreamProperlyReleasesTheLease) {
  Start(absl::Seconds(30));
  grpc::ClientContext context;
  const auto stream = stub_->Lease(&context);
  const uint64_t lease = Ask(stream.get());
  ASSERT_NE(lease, 0u);
  EXPECT_TRUE(stream->WritesDone());
  v1::LeaseEvent event;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.ended().cause(), v1::LeaseEvent::Ended::RELEASED);
  EXPECT_FALSE(stream->Read(&event));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(host_.WaitFor(Closed(lease)));
  server_->Stop();
  EXPECT_EQ(host_.Count(Closed(lease)), 1);
}

TEST_F(LeaseProtocolTest, AClientThatDiesReleasesTheLease) {
  Start(absl::Seconds(30));
  uint64_t lease = 0;
  {
    grpc::ClientContext context;
    const auto stream = stub_->Lease(&context);
    lease = Ask(stream.get());
    ASSERT_NE(lease, 0u);
    // Like a process's death: no half-close, and the connection goes.
    context.TryCancel();
    stub_.reset();
  }
  EXPECT_TRUE(host_.WaitFor(Closed(lease)));
  server_->Stop();
  EXPECT_EQ(host_.Count(Closed(lease)), 1);
}

TEST_F(LeaseProtocolTest, ALeaseWithoutHeartbeatsExpiresOnce) {
  Start(absl::Milliseconds(200));
  grpc::ClientContext context;
  const auto stream = stub_->Lease(&context);
  const uint64_t lease = Ask(stream.get());
  ASSERT_NE(lease, 0u);
  v1::LeaseEvent event;
  ASSERT_TRUE(stream->Read(&event));
  ASSERT_TRUE(event.has_ended());
  EXPECT_THAT(event.ended().reason(), HasSubstr("200ms"));
  EXPECT_FALSE(stream->Read(&event));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("no heartbeat arrived for 200ms"));
  EXPECT_TRUE(host_.WaitFor(Closed(lease)));

  grpc::ClientContext close_context;
  v1::CloseSessionRequest close;
  close.set_lease(lease);
  v1::CloseSessionReply reply;
  EXPECT_EQ(stub_->CloseSession(&close_context, close, &reply).error_code(),
            grpc::StatusCode::NOT_FOUND);
  server_->Stop();
  EXPECT_EQ(host_.Count(Closed(lease)), 1);
}

TEST_F(LeaseProtocolTest, AClientThatNeverReadsDoesNotHoldUpTheServer) {
  Start(absl::Milliseconds(200));
  grpc::ClientContext context;
  const auto stream = stub_->Lease(&context);
  const uint64_t lease = Ask(stream.get());
  ASSERT_NE(lease, 0u);
  // More than a stream's flow control lets through unread.
  const std::string reason(1000, 'x');
  for (int i = 0; i < 500; ++i) server_->NotifySessionClosed(lease, i, reason);
  EXPECT_TRUE(host_.WaitFor(Closed(lease)));
  server_->Stop();
  EXPECT_EQ(host_.Count(Closed(lease)), 1);
  context.TryCancel();
}

TEST_F(LeaseProtocolTest, AReleaseIsAnsweredWithTheBillAfterTheHostHasClosedTheLease) {
  Start(absl::Seconds(30));
  grpc::ClientContext context;
  const auto stream = stub_->Lease(&context);
  const uint64_t lease = Ask(stream.get());
  ASSERT_NE(lease, 0u);
  v1::LeaseRequest request;
  request.mutable_release();
  ASSERT_TRUE(stream->Write(request));
  v1::LeaseEvent event;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(host_.Count(Closed(lease)), 1);
  EXPECT_EQ(event.ended().cause(), v1::LeaseEvent::Ended::RELEASED);
  EXPECT_EQ(event.ended().usage().calls(), SampleUsage().calls);
  EXPECT_EQ(event.ended().usage().lease_us(), 3'000'000u);
  EXPECT_EQ(event.ended().usage().function_ns(), 1'234'567'891u);
  EXPECT_FALSE(stream->Read(&event));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(LeaseProtocolTest, AStreamThatDoesNotBeginWithTermsIsRefused) {
  Start(absl::Seconds(30));
  grpc::ClientContext context;
  const auto stream = stub_->Lease(&context);
  ASSERT_TRUE(SendHeartbeat(stream.get(), 1));
  v1::LeaseEvent event;
  EXPECT_FALSE(stream->Read(&event));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("does not begin with terms"));
  server_->Stop();
  EXPECT_THAT(host_.Calls(), ::testing::IsEmpty());
}

TEST_F(LeaseProtocolTest, TermsInTheMiddleEndTheLease) {
  Start(absl::Seconds(30));
  grpc::ClientContext context;
  const auto stream = stub_->Lease(&context);
  const uint64_t lease = Ask(stream.get());
  ASSERT_TRUE(SendTerms(stream.get(), 0));
  v1::LeaseEvent event;
  while (stream->Read(&event)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(host_.Count(Closed(lease)), 1);
}

TEST_F(LeaseProtocolTest, TermsThatMakeNoSenseNeverReachTheHost) {
  Start(absl::Seconds(30));
  v1::LeaseTerms executors, tenant, ttl, polling, kind, long_tenant;
  executors.set_executors(4097);
  tenant.set_tenant("a\nb");
  long_tenant.set_tenant(std::string(129, 'x'));
  ttl.set_ttl_us(UINT64_MAX - 1);
  polling.set_polling(static_cast<v1::Polling>(99));
  kind.set_kind(static_cast<v1::ExecutorKind>(99));
  for (const v1::LeaseTerms& terms : {executors, tenant, long_tenant, ttl, polling, kind}) {
    grpc::ClientContext context;
    const auto stream = stub_->Lease(&context);
    v1::LeaseRequest request;
    *request.mutable_terms() = terms;
    ASSERT_TRUE(stream->Write(request));
    v1::LeaseEvent event;
    EXPECT_FALSE(stream->Read(&event));
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << terms.ShortDebugString();
  }
  server_->Stop();
  EXPECT_THAT(host_.Calls(), ::testing::IsEmpty());
}

TEST_F(LeaseProtocolTest, AClientThatNeverSaysWhatItWantsIsSentAway) {
  Start(absl::Milliseconds(200));
  grpc::ClientContext context;
  const auto stream = stub_->Lease(&context);
  v1::LeaseEvent event;
  EXPECT_FALSE(stream->Read(&event));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(LeaseProtocolTest, AClientThatGoesAwayWhileItWaitsIsTakenOutOfTheLine) {
  Start(absl::Milliseconds(200));
  {
    grpc::ClientContext context;
    const auto stream = stub_->Lease(&context);
    ASSERT_TRUE(SendTerms(stream.get(), 2));
    ASSERT_TRUE(host_.WaitFor("open_lease 2 "));
    host_.ObserverOf(host_.LastAsked())->OnQueued(3);
    v1::LeaseEvent event;
    ASSERT_TRUE(stream->Read(&event));
    EXPECT_EQ(event.queued().ahead(), 3u);
    context.TryCancel();
  }
  EXPECT_TRUE(host_.WaitFor(Closed(host_.LastAsked())));
}

TEST_F(LeaseProtocolTest, AnAddressWhoseLengthDisagreesIsRefused) {
  Start(absl::Seconds(30));
  grpc::ClientContext context;
  v1::OpenSessionRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_notification(v1::NOTIFICATION_AUTO);
  request.mutable_endpoint_address()->set_address("12345678");
  request.mutable_endpoint_address()->set_length(0xffffffff);
  v1::OpenSessionReply reply;
  const grpc::Status status = stub_->OpenSession(&context, request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("4294967295"));
}

}  // namespace
}  // namespace invoker::bootstrap
