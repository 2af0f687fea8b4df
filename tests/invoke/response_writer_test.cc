#include "src/invoke/executor/session/response_writer.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

constexpr uint64_t kWindow = 64 * 1024;
constexpr uint32_t kEpoch = 7;

// Responses are queued and not posted, so a test finds them in the staging memory.
class ResponseWriterTest : public testing::Test, public transport::OperationOwner {
 protected:
  ResponseWriterTest() : reactor_(OpenReactor("shm")), usage_(nullptr, nullptr) {
    ResponseWriter::Parts parts;
    parts.reactor = reactor_.get();
    parts.window.length = kWindow;
    parts.epoch = kEpoch;
    auto staging = reactor_->Register(*transport::HostBuffer::Allocate(kWindow),
                                      transport::RegionUse::kSource);
    EXPECT_TRUE(staging.ok()) << staging.status();
    writer_ = std::make_unique<ResponseWriter>(parts, *std::move(staging),
                                               *WindowGeometry::Make(kWindow), this, &usage_,
                                               /*authenticators=*/nullptr);
    request_.sequence = 5;
    request_.response_cell = 2;
    request_.response_capacity = 8;
  }

  void OnOperationFailed(const transport::Operation&, const absl::Status& status) override {
    ADD_FAILURE() << status;
  }

  ResponseHeader Header() {
    ResponseHeader header;
    EXPECT_EQ(
        DecodeResponse(HeaderSnapshot::Take(writer_->PayloadOf(request_).data() - kHeaderBytes),
                       &header),
        WireError::kNone);
    return header;
  }
  std::string Payload() {
    return std::string(reinterpret_cast<const char*>(writer_->PayloadOf(request_).data()),
                       Header().payload_bytes);
  }

  std::unique_ptr<transport::Reactor> reactor_;
  SessionUsage usage_;
  std::unique_ptr<ResponseWriter> writer_;
  RequestHeader request_;
};

TEST_F(ResponseWriterTest, AResponseStandsInTheCellThatItsRequestNames) {
  EXPECT_EQ(writer_->PayloadOf(request_).size(), 8u);
  writer_->Respond(request_, StatusCode::kOk, 3, 9, /*now_ns=*/77);
  const ResponseHeader header = Header();
  EXPECT_EQ(header.status, StatusCode::kOk);
  EXPECT_EQ(header.sequence, 5u);
  EXPECT_EQ(header.epoch, kEpoch);
  EXPECT_EQ(header.payload_bytes, 3u);
  EXPECT_EQ(header.detail, 9u);
  EXPECT_TRUE(writer_->pending());
  EXPECT_EQ(writer_->pending_since_ns(), 77);
}

TEST_F(ResponseWriterTest, ResponsesAreQueuedSinceTheFirstOfThem) {
  writer_->Respond(request_, StatusCode::kOk, 0, 0, /*now_ns=*/77);
  request_.response_cell = 3;
  writer_->Respond(request_, StatusCode::kOk, 0, 0, /*now_ns=*/78);
  EXPECT_EQ(writer_->pending_since_ns(), 77);
  EXPECT_EQ(writer_->batch().messages(), 2u);
  EXPECT_EQ(writer_->batch().writes(), 0u);
}

TEST_F(ResponseWriterTest, SmallResponsesOfCallsWithMuchRoomLieTogether) {
  request_.response_capacity = 4096;
  writer_->RespondWith(request_, StatusCode::kOk, "first", 0, 0);
  RequestHeader second = request_;
  second.sequence = 6;
  second.response_cell = 500;
  writer_->RespondWith(second, StatusCode::kOk, "second", 0, 0);
  EXPECT_TRUE(writer_->IsHeldUp(5));
  EXPECT_TRUE(writer_->IsHeldUp(6));

  const WindowGeometry geometry = *WindowGeometry::Make(kWindow);
  const std::byte* const first = writer_->PayloadOf(request_).data() - kHeaderBytes;
  EXPECT_EQ(first[kFlagsOffset], std::byte{kMoreFollows});
  const std::byte* const behind = first + geometry.cell_bytes();
  HeaderSnapshot header = HeaderSnapshot::Take(behind);
  EXPECT_EQ(Relocation::Undo(&header), 500);
  ResponseHeader relocated;
  ASSERT_EQ(DecodeResponse(header, &relocated), WireError::kNone);
  EXPECT_EQ(relocated.sequence, 6u);
  EXPECT_EQ(relocated.payload_bytes, 6u);
  EXPECT_EQ(memcmp(behind + kHeaderBytes, "second", 6), 0);
  // What is not at the client cannot be repeated there.
  EXPECT_FALSE(MayBeRepeated(writer_->PayloadOf(second).data() - kHeaderBytes));
}

TEST_F(ResponseWriterTest, ARefusalIsCountedAndItsMessageCut) {
  writer_->Refuse(request_, StatusCode::kDraining, "goes away soon", 0);
  EXPECT_EQ(Header().status, StatusCode::kDraining);
  EXPECT_EQ(Payload(), "goes awa");
  EXPECT_EQ(usage_.counters().refused, 1u);
  EXPECT_EQ(usage_.counters().bytes_out, 0u);
}

TEST_F(ResponseWriterTest, AFailureHasTheFunctionsCodeAndMessage) {
  CallOutcome outcome;
  outcome.code = -5;
  writer_->RespondFailure(request_, outcome, "broken", 0);
  EXPECT_EQ(Header().status, StatusCode::kFunctionFailed);
  EXPECT_EQ(static_cast<int32_t>(Header().detail), -5);
  EXPECT_EQ(Payload(), "broken");
  EXPECT_EQ(usage_.counters().bytes_out, 6u);
}

TEST_F(ResponseWriterTest, AnOutputWithoutRoomSaysHowMuchItNeeds) {
  CallOutcome outcome;
  outcome.kind = CallOutcome::Kind::kOutputTooSmall;
  outcome.output_needed = uint64_t{1} << 40;
  writer_->RespondFailure(request_, outcome, "", 0);
  EXPECT_EQ(Header().status, StatusCode::kResponseTooLarge);
  EXPECT_EQ(Header().detail, UINT32_MAX);
  EXPECT_EQ(Header().payload_bytes, 0u);
}

TEST_F(ResponseWriterTest, AProbeGetsItsPayloadBackAndTheProcessor) {
  request_.kind = MessageKind::kProbe;
  request_.payload_bytes = 4;
  writer_->AnswerProbe(request_, reinterpret_cast<const std::byte*>("ping"), 0);
  EXPECT_EQ(Header().status, StatusCode::kOk);
  EXPECT_EQ(Payload(), "ping");
  EXPECT_GT(Header().detail, 0u);
}

TEST_F(ResponseWriterTest, AResponseThatHasNotLeftIsHeldUp) {
  writer_->Respond(request_, StatusCode::kOk, 0, 0, 0);
  EXPECT_TRUE(writer_->IsHeldUp(5));
  EXPECT_FALSE(writer_->IsHeldUp(6));
}

}  // namespace
}  // namespace invoker
