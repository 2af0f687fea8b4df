// Requests in the staging region, and the marks that cancel them.

#include "src/invoke/session/cancellation.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "src/invoke/session/request_sender.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

constexpr uint64_t kWindow = 64 * 1024;
constexpr uint32_t kEpoch = 7;

// The sender is on one reactor, the request window on another; the test drives both.
class CancellationTest : public testing::Test,
                         public transport::OperationOwner,
                         public transport::ReactorHandler {
 protected:
  CancellationTest()
      : reactor_(OpenReactor("shm")),
        target_(OpenReactor("shm")),
        geometry_(*WindowGeometry::Make(kWindow)) {
    auto window = target_->Register(*transport::HostBuffer::Allocate(kWindow),
                                    transport::RegionUse::kRemoteTarget);
    auto staging = reactor_->Register(*transport::HostBuffer::Allocate(kWindow),
                                      transport::RegionUse::kSource);
    EXPECT_TRUE(window.ok() && staging.ok()) << window.status() << staging.status();
    window_ = *std::move(window);
    memset(window_.data(), 0, kWindow);
    sender_ = std::make_unique<RequestSender>(reactor_.get(), *std::move(staging), geometry_);
    absl::StatusOr<const transport::Peer*> peer = reactor_->peers().Insert(target_->address());
    EXPECT_TRUE(peer.ok()) << peer.status();
    peer_ = *peer;
    reactor_->set_handler(this);
    target_->set_handler(this);
    bootstrap::OpenSessionReply reply;
    reply.epoch = kEpoch;
    reply.notification = Notification::kSendAfterWrite;
    reply.request_window = {window_.remote_base(), window_.size(), window_.key()};
    sender_->Attach(reply, peer_->address, geometry_, /*authenticator=*/nullptr, this);
    cancellation_ = std::make_unique<Cancellation>(sender_.get());
    call_.state = Call::State::kOutstanding;
    call_.sequence = 5;
    call_.owns_request_cells = true;
    call_.request = {2, 1};
    call_.response = {4, 1};
  }
  ~CancellationTest() override {
    sender_.reset();
    reactor_->peers().Release(peer_);
    target_->Retire(std::move(window_));
  }

  void OnToken(uint64_t) override {}
  void OnTick(int64_t) override {}
  void OnOperationFailed(const transport::Operation&, const absl::Status& status) override {
    ADD_FAILURE() << status;
  }
  void OnTransferDone(uint64_t tag) override {
    EXPECT_TRUE(RequestSender::IsMark(tag));
    EXPECT_EQ(RequestSender::IndexOfMark(tag), call_.index);
    ++marks_;
  }

  void Add(const std::string& input) {
    input_ = input;
    CallRequest request;
    request.function_id = 3;
    request.input = {reinterpret_cast<const std::byte*>(input_.data()), input_.size()};
    request.response_capacity = 16;
    sender_->Add(request, call_, /*deadline_us=*/77, /*alone=*/false);
  }
  // The request as the target's window has it.
  RequestHeader Placed() {
    RequestHeader header;
    EXPECT_EQ(DecodeRequest(HeaderSnapshot::Take(window_.data() + geometry_.OffsetOf(2)), &header),
              WireError::kNone);
    return header;
  }
  template <typename Condition>
  void PollUntil(Condition condition) {
    while (!condition()) {
      reactor_->Poll();
      target_->Poll();
    }
  }
  bool IsPlaced() const {
    return window_.data()[geometry_.OffsetOf(2) + kFlagsOffset] != std::byte{0} ||
           window_.data()[geometry_.OffsetOf(2) + kHeaderBytes] != std::byte{0};
  }

  std::unique_ptr<transport::Reactor> reactor_;
  std::unique_ptr<transport::Reactor> target_;
  WindowGeometry geometry_;
  transport::MemoryRegion window_;
  const transport::Peer* peer_ = nullptr;
  std::unique_ptr<RequestSender> sender_;
  std::unique_ptr<Cancellation> cancellation_;
  Call call_;
  std::string input_;
  int marks_ = 0;
};

TEST_F(CancellationTest, ARequestIsPlacedAsItsCallSays) {
  Add("input");
  EXPECT_TRUE(sender_->pending());
  sender_->Flush();
  EXPECT_FALSE(sender_->pending());
  PollUntil([this] { return IsPlaced() && sender_->HasLeft(2); });
  const RequestHeader header = Placed();
  EXPECT_EQ(header.function_id, 3u);
  EXPECT_EQ(header.sequence, 5u);
  EXPECT_EQ(header.epoch, kEpoch);
  EXPECT_EQ(header.response_cell, 4u);
  EXPECT_EQ(header.response_capacity, 16u);
  EXPECT_EQ(header.deadline_us, 77u);
  EXPECT_EQ(header.payload_bytes, 5u);
  EXPECT_EQ(memcmp(window_.data() + geometry_.OffsetOf(2) + kHeaderBytes, "input", 5), 0);
}

TEST_F(CancellationTest, ARequestThatHasNotLeftTakesItsMarkAlong) {
  Add("input");
  EXPECT_FALSE(sender_->HasLeft(2));
  EXPECT_EQ(cancellation_->Withdraw(&call_), CallFate::kNotSent);
  EXPECT_EQ(cancellation_->under_way(), 0u);
  sender_->Flush();
  PollUntil([this] { return IsPlaced(); });
  EXPECT_NE(Placed().flags & kCancelled, 0);
}

TEST_F(CancellationTest, ARequestThatHasLeftIsMarkedInTheWindow) {
  Add("input");
  sender_->Flush();
  PollUntil([this] { return IsPlaced() && sender_->HasLeft(2); });
  EXPECT_EQ(Placed().flags & kCancelled, 0);
  EXPECT_EQ(cancellation_->Withdraw(&call_), CallFate::kMaybeExecuted);
  EXPECT_TRUE(call_.marking);
  EXPECT_EQ(cancellation_->under_way(), 1u);
  PollUntil([this] { return marks_ == 1; });
  EXPECT_NE(Placed().flags & kCancelled, 0);
  cancellation_->Landed(&call_);
  EXPECT_FALSE(call_.marking);
  EXPECT_EQ(cancellation_->under_way(), 0u);
}

TEST_F(CancellationTest, OnlySoManyMarksAreUnderWay) {
  Add("input");
  sender_->Flush();
  PollUntil([this] { return IsPlaced() && sender_->HasLeft(2); });
  for (uint32_t i = 0; i < Cancellation::kMostMarks; ++i) {
    EXPECT_EQ(cancellation_->Withdraw(&call_), CallFate::kMaybeExecuted);
  }
  const uint32_t under_way = cancellation_->under_way();
  EXPECT_LE(under_way, Cancellation::kMostMarks);
  EXPECT_EQ(cancellation_->Withdraw(&call_), CallFate::kMaybeExecuted);
  EXPECT_LE(cancellation_->under_way(), Cancellation::kMostMarks);
  PollUntil([&] { return marks_ >= static_cast<int>(under_way); });
}

}  // namespace
}  // namespace invoker
