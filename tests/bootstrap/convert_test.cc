#include "src/bootstrap/conversion/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/bootstrap/messages/compatibility.h"
#include "tests/bootstrap/fake_host.h"

namespace invoker::bootstrap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void ExpectSame(const FabricIdentity& a, const FabricIdentity& b) {
  EXPECT_EQ(a.provider, b.provider);
  EXPECT_EQ(a.protocol, b.protocol);
  EXPECT_EQ(a.protocol_version, b.protocol_version);
  EXPECT_EQ(a.address_format, b.address_format);
  EXPECT_EQ(a.shared_layout, b.shared_layout);
}

void ExpectSame(const WindowDescriptor& a, const WindowDescriptor& b) {
  EXPECT_EQ(a.base, b.base);
  EXPECT_EQ(a.length, b.length);
  EXPECT_EQ(a.key, b.key);
}

// Over the wire's bytes, as the other side gets it.
template <typename Message>
Message Reparse(const Message& message) {
  Message result;
  EXPECT_TRUE(result.ParseFromString(message.SerializeAsString()));
  return result;
}

template <typename Message>
void ExpectRefused(const Message& message, const std::string& first, const std::string& second) {
  const absl::Status status = FromProto(message).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(first), HasSubstr(second)));
}

TEST(ConvertTest, WorkerInfoSurvivesTheRoundTrip) {
  WorkerInfo info = SampleInfo();
  info.draining = true;
  info.unserved = {{"sockets", "it\ndied"}};
  const absl::StatusOr<WorkerInfo> result = FromProto(Reparse(ToProto(info)));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->protocol_versions.newest, info.protocol_versions.newest);
  EXPECT_EQ(result->protocol_versions.oldest, info.protocol_versions.oldest);
  EXPECT_EQ(result->software_version, info.software_version);
  ASSERT_EQ(result->fabrics.size(), info.fabrics.size());
  for (size_t i = 0; i < info.fabrics.size(); ++i) {
    ExpectSame(result->fabrics[i].identity, info.fabrics[i].identity);
    EXPECT_EQ(result->fabrics[i].source_address, info.fabrics[i].source_address);
    EXPECT_EQ(result->fabrics[i].same_host_only, info.fabrics[i].same_host_only);
  }
  ASSERT_EQ(result->unserved.size(), 1u);
  EXPECT_EQ(result->unserved[0].provider, "sockets");
  EXPECT_EQ(result->unserved[0].reason, "it?died");
  EXPECT_EQ(result->notification, info.notification);
  EXPECT_EQ(result->window_bytes, info.window_bytes);
  EXPECT_EQ(result->executors, info.executors);
  EXPECT_EQ(result->host_identity, info.host_identity);
  EXPECT_EQ(result->draining, info.draining);
  ASSERT_EQ(result->functions.size(), 2u);
  EXPECT_EQ(result->functions[0].name, "echo");
  EXPECT_EQ(result->functions[1].name, "thumbnail");
}

TEST(ConvertTest, OpenSessionRequestSurvivesTheRoundTrip) {
  OpenSessionRequest request = SampleRequest();
  request.downgrade_reason = "it was lost";
  request.eager_bytes = 4096;
  const v1::OpenSessionRequest message = Reparse(ToProto(0x8000'0000'0000'0001u, request));
  EXPECT_EQ(message.lease(), 0x8000'0000'0000'0001u);
  const absl::StatusOr<OpenSessionRequest> result = FromProto(message);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->protocol_version, request.protocol_version);
  ExpectSame(result->fabric, request.fabric);
  EXPECT_EQ(result->endpoint_address, request.endpoint_address);
  ExpectSame(result->response_window, request.response_window);
  EXPECT_EQ(result->window_bytes, request.window_bytes);
  EXPECT_EQ(result->first_sequence, request.first_sequence);
  EXPECT_EQ(result->response_session, request.response_session);
  EXPECT_EQ(result->downgrade_reason, request.downgrade_reason);
  EXPECT_EQ(result->eager_bytes, request.eager_bytes);
  EXPECT_EQ(result->notification, request.notification);
}

TEST(ConvertTest, OpenSessionReplySurvivesTheRoundTrip) {
  OpenSessionReply reply = SampleReply();
  reply.eager_bytes = 4096;
  const absl::StatusOr<OpenSessionReply> result = FromProto(Reparse(ToProto(reply)));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->handle, reply.handle);
  EXPECT_EQ(result->executor, reply.executor);
  EXPECT_EQ(result->endpoint_address, reply.endpoint_address);
  ExpectSame(result->request_window, reply.request_window);
  EXPECT_EQ(result->request_session, reply.request_session);
  EXPECT_EQ(result->epoch, reply.epoch);
  EXPECT_EQ(result->notification, reply.notification);
  EXPECT_EQ(result->eager_bytes, reply.eager_bytes);
}

TEST(ConvertTest, EveryNotificationSurvivesTheRoundTrip) {
  for (const auto notification :
       {Notification::kAuto, Notification::kWriteImm, Notification::kSendAfterWrite}) {
    const auto result = FromProto(ToProto(notification), /*allow_auto=*/true);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(*result, notification);
  }
}

TEST(ConvertTest, RefusesAnAddressWhoseLengthDisagrees) {
  v1::OpenSessionRequest request = ToProto(1, SampleRequest());
  request.mutable_endpoint_address()->set_length(16);
  ExpectRefused(request, "16", "8");
  v1::OpenSessionReply reply = ToProto(SampleReply());
  reply.mutable_endpoint_address()->set_length(11);
  ExpectRefused(reply, "11", "10");
}

TEST(ConvertTest, RefusesAWorkerWithoutFabricsOrWithTooMany) {
  v1::GetWorkerInfoReply info = ToProto(SampleInfo());
  info.clear_fabrics();
  ExpectRefused(info, "0 fabrics", "64");
  for (size_t i = 0; i < kMaxFabrics; ++i) info.add_fabrics();
  EXPECT_TRUE(FromProto(info).ok());
  info.add_fabrics();
  ExpectRefused(info, "65 fabrics", "64");
}

TEST(ConvertTest, RefusesAnOversizedSourceAddressOfAFabric) {
  WorkerInfo info = SampleInfo();
  info.fabrics[1].source_address.assign(kMaxAddressBytes, 'x');
  EXPECT_TRUE(FromProto(ToProto(info)).ok());
  info.fabrics[1].source_address.push_back('x');
  ExpectRefused(ToProto(info), "257 bytes", "256");
}

TEST(ConvertTest, AReasonIsCutAndMadePrintable) {
  v1::OpenSessionRequest request = ToProto(1, SampleRequest());
  request.set_downgrade_reason("a\nb\tc\x7f\xc3\xa4" + std::string(1000, 'x'));
  const absl::StatusOr<OpenSessionRequest> result = FromProto(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->downgrade_reason, "a?b?c???" + std::string(kMaxReasonBytes - 8, 'x'));
  EXPECT_EQ(PrintableText("", 5), "");
  EXPECT_EQ(PrintableText(" ~", 1), " ");
}

TEST(ConvertTest, RefusesEmptyMissingAndOversizedAddresses) {
  OpenSessionRequest request = SampleRequest();
  request.endpoint_address.clear();
  ExpectRefused(ToProto(1, request), "0 bytes", "256");
  v1::OpenSessionRequest missing = ToProto(1, SampleRequest());
  missing.clear_endpoint_address();
  ExpectRefused(missing, "0 bytes", "256");
  request.endpoint_address.assign(kMaxAddressBytes + 1, 'x');
  ExpectRefused(ToProto(1, request), "257 bytes", "256");
}

TEST(ConvertTest, RefusesUnknownNotifications) {
  v1::OpenSessionRequest request = ToProto(1, SampleRequest());
  request.set_notification(v1::NOTIFICATION_UNSPECIFIED);
  ExpectRefused(request, "notification", "0");
  request.set_notification(static_cast<v1::Notification>(42));
  ExpectRefused(Reparse(request), "notification", "42");
}

TEST(ConvertTest, RefusesAReplyThatLeavesTheNotificationOpen) {
  OpenSessionReply reply = SampleReply();
  reply.notification = Notification::kAuto;
  ExpectRefused(ToProto(reply), "auto", "write_imm");
}

TEST(ConvertTest, RefusesSessionNumbersOfMoreThan16Bits) {
  v1::OpenSessionRequest request = ToProto(1, SampleRequest());
  request.set_response_session(65536);
  ExpectRefused(request, "response_session", "65536");
  v1::OpenSessionReply reply = ToProto(SampleReply());
  reply.set_request_session(0xffffffff);
  ExpectRefused(reply, "request_session", "4294967295");
}

TEST(ConvertTest, NamesBothVersionsOfAnotherReleasesWorker) {
  v1::GetWorkerInfoReply info = ToProto(SampleInfo());
  info.set_protocol_version(9);
  info.set_oldest_protocol_version(8);
  info.clear_fabrics();
  const absl::Status status = FromProto(info).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("worker speaks protocol versions 8 to 9"),
                    HasSubstr("the client protocol version 6"), HasSubstr("upgrade the client")));
}

TEST(ConvertTest, ANewerWorkerThatSpeaksAnOlderVersionIsRead) {
  WorkerInfo newer = SampleInfo();
  newer.protocol_versions = {kProtocolVersion, kProtocolVersion + 3};
  const absl::StatusOr<WorkerInfo> info = FromProto(ToProto(newer));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(AgreeOnVersion(info->protocol_versions, {}).value(), kProtocolVersion);
}

TEST(ConvertTest, AWorkerThatNamesOneVersionSpeaksOne) {
  v1::GetWorkerInfoReply message = ToProto(SampleInfo());
  message.clear_oldest_protocol_version();
  const absl::StatusOr<WorkerInfo> info = FromProto(message);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->protocol_versions.oldest, kProtocolVersion);
}

TEST(ConvertTest, ReadsOnlyTheVersionOfAnotherReleasesRequest) {
  v1::OpenSessionRequest request = ToProto(1, SampleRequest());
  request.set_protocol_version(9);
  request.clear_endpoint_address();
  const absl::StatusOr<OpenSessionRequest> result = FromProto(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->protocol_version, 9u);
}

}  // namespace
}  // namespace invoker::bootstrap
