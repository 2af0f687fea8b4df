#include "src/transport/notifier.h"

#include <cstring>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "src/transport/ring_message.h"
#include "tests/transport/faults.h"

namespace invoker::transport {
namespace {

// An endpoint that accepts every post and does nothing, so that what is handed to the provider can
// be looked at.
class NotifierTest : public testing::Test {
 protected:
  NotifierTest() {
    rma_.write = [](fid_ep*, const void*, size_t, void*, fi_addr_t, uint64_t, uint64_t,
                    void*) -> ssize_t { return 0; };
    rma_.writedata = [](fid_ep*, const void*, size_t, void*, uint64_t, fi_addr_t, uint64_t,
                        uint64_t, void*) -> ssize_t { return 0; };
    rma_.writemsg = [](fid_ep*, const fi_msg_rma*, uint64_t) -> ssize_t { return 0; };
    messages_.send = [](fid_ep*, const void*, size_t, void*, fi_addr_t, void*) -> ssize_t {
      return 0;
    };
    endpoint_.rma = &rma_;
    endpoint_.msg = &messages_;
    faults_.emplace(&endpoint_);
    faults_->judge = [this](const EndpointFaults::Attempt& attempt) {
      attempts_.push_back(attempt);
      return verdict_;
    };
    operation_.source = bytes_;
    operation_.length = sizeof(bytes_);
    operation_.staging = staging_;
    operation_.staging_bytes = sizeof(staging_);
    operation_.remote_key = 0x1122334455667788u;
    operation_.remote_offset = 0x1000;
    operation_.token = 0x01020304;
    operation_.step = Operation::Step::kWrite;
  }

  PostResult Post(Notification notification, SendOrder order) {
    return GetNotifier(notification, order)->Post(&endpoint_, &operation_, &error_);
  }

  using Kind = EndpointFaults::Kind;

  fi_ops_rma rma_ = {};
  fi_ops_msg messages_ = {};
  fid_ep endpoint_ = {};
  std::optional<EndpointFaults> faults_;
  std::vector<EndpointFaults::Attempt> attempts_;
  int verdict_ = 0;
  Operation operation_;
  char bytes_[64] = {};
  std::byte staging_[128] = {};
  int error_ = 0;
};

TEST_F(NotifierTest, WriteImmIsOnePost) {
  EXPECT_EQ(Post(Notification::kWriteImm, SendOrder::kPipelined), PostResult::kPosted);
  ASSERT_EQ(attempts_.size(), 1u);
  EXPECT_EQ(attempts_[0].kind, Kind::kWriteData);
  EXPECT_EQ(operation_.step, Operation::Step::kDone);
  EXPECT_EQ(operation_.completions_due, 1);
}

TEST_F(NotifierTest, PipelinedPostsTheSendRightBehindTheWriteEachWithItsOwnContext) {
  EXPECT_EQ(Post(Notification::kSendAfterWrite, SendOrder::kPipelined), PostResult::kPosted);
  ASSERT_EQ(attempts_.size(), 2u);
  EXPECT_EQ(attempts_[0].kind, Kind::kWrite);
  EXPECT_EQ(attempts_[1].kind, Kind::kSend);
  EXPECT_EQ(attempts_[0].context, &operation_.contexts[0]);
  EXPECT_EQ(attempts_[1].context, &operation_.contexts[1]);
  EXPECT_EQ(operation_.completions_due, 2);
}

TEST_F(NotifierTest, AfterDeliveryPostsTheSendOnlyWhenAskedAgain) {
  EXPECT_EQ(Post(Notification::kSendAfterWrite, SendOrder::kAfterDelivery), PostResult::kPosted);
  ASSERT_EQ(attempts_.size(), 1u);
  EXPECT_EQ(attempts_[0].kind, Kind::kWriteMsg);
  EXPECT_TRUE(Notifier::HasNextStep(operation_));
  EXPECT_EQ(operation_.completions_due, 1);
  operation_.completions_due = 0;
  EXPECT_EQ(Post(Notification::kSendAfterWrite, SendOrder::kAfterDelivery), PostResult::kPosted);
  ASSERT_EQ(attempts_.size(), 2u);
  EXPECT_EQ(attempts_[1].kind, Kind::kSend);
  EXPECT_EQ(operation_.step, Operation::Step::kDone);
  EXPECT_EQ(operation_.completions_due, 1);
}

TEST_F(NotifierTest, AfterDeliveryOfNothingIsOnlyTheSend) {
  operation_.length = 0;
  EXPECT_EQ(Post(Notification::kSendAfterWrite, SendOrder::kAfterDelivery), PostResult::kPosted);
  ASSERT_EQ(attempts_.size(), 1u);
  EXPECT_EQ(attempts_[0].kind, Kind::kSend);
  EXPECT_EQ(operation_.completions_due, 1);
}

// Where the fabric needs local registration, the slot itself is not registered: its staging is.
TEST_F(NotifierTest, TokenIsSentFromTheSlotsStaging) {
  for (SendOrder order : {SendOrder::kPipelined, SendOrder::kAfterDelivery}) {
    attempts_.clear();
    memset(staging_, 0, sizeof(staging_));
    operation_.step = Operation::Step::kSend;
    EXPECT_EQ(Post(Notification::kSendAfterWrite, order), PostResult::kPosted);
    ASSERT_EQ(attempts_.size(), 1u);
    EXPECT_EQ(attempts_[0].source, staging_);
    EXPECT_EQ(attempts_[0].length, 4u);
    const std::byte expected[4] = {std::byte{4}, std::byte{3}, std::byte{2}, std::byte{1}};
    EXPECT_EQ(memcmp(staging_, expected, 4), 0);
  }
}

TEST_F(NotifierTest, FewBytesGoInsideTheSendInEitherOrder) {
  operation_.eager_bytes = sizeof(bytes_);
  memset(bytes_, 'x', sizeof(bytes_));
  for (SendOrder order : {SendOrder::kPipelined, SendOrder::kAfterDelivery}) {
    attempts_.clear();
    operation_.step = Operation::Step::kWrite;
    operation_.completions_due = 0;
    EXPECT_EQ(Post(Notification::kSendAfterWrite, order), PostResult::kPosted);
    ASSERT_EQ(attempts_.size(), 1u);
    EXPECT_EQ(attempts_[0].kind, Kind::kSend);
    EXPECT_EQ(attempts_[0].source, staging_);
    EXPECT_EQ(attempts_[0].length, kRingHeaderBytes + sizeof(bytes_));
    EXPECT_EQ(attempts_[0].context, &operation_.contexts[1]);
    EXPECT_FALSE(Notifier::HasNextStep(operation_));
    EXPECT_EQ(operation_.step, Operation::Step::kDone);
    EXPECT_EQ(operation_.completions_due, 1);
    RingHeader header;
    ASSERT_TRUE(DecodeRingHeader({staging_, attempts_[0].length}, &header));
    EXPECT_EQ(header.type, RingMessageType::kEager);
    EXPECT_EQ(header.token, 0x01020304u);
    EXPECT_EQ(header.key, 0x1122334455667788u);
    EXPECT_EQ(header.offset, 0x1000u);
    EXPECT_EQ(memcmp(staging_ + kRingHeaderBytes, bytes_, sizeof(bytes_)), 0);
  }
}

TEST_F(NotifierTest, OneByteTooManyIsWritten) {
  for (SendOrder order : {SendOrder::kPipelined, SendOrder::kAfterDelivery}) {
    attempts_.clear();
    operation_.step = Operation::Step::kWrite;
    operation_.eager_bytes = sizeof(bytes_) - 1;  // of the peer
    EXPECT_EQ(Post(Notification::kSendAfterWrite, order), PostResult::kPosted);
    EXPECT_NE(attempts_[0].kind, Kind::kSend);
    attempts_.clear();
    operation_.step = Operation::Step::kWrite;
    operation_.eager_bytes = UINT32_MAX;
    operation_.staging_bytes = kRingHeaderBytes + sizeof(bytes_) - 1;  // of this side
    EXPECT_EQ(Post(Notification::kSendAfterWrite, order), PostResult::kPosted);
    EXPECT_NE(attempts_[0].kind, Kind::kSend);
    operation_.staging_bytes = sizeof(staging_);
  }
}

TEST_F(NotifierTest, WriteImmSendsNothingInsideAMessage) {
  operation_.eager_bytes = sizeof(bytes_);
  EXPECT_EQ(Post(Notification::kWriteImm, SendOrder::kPipelined), PostResult::kPosted);
  ASSERT_EQ(attempts_.size(), 1u);
  EXPECT_EQ(attempts_[0].kind, Kind::kWriteData);
}

TEST_F(NotifierTest, RefusedEagerSendLeavesTheOperationWhereItWas) {
  operation_.eager_bytes = sizeof(bytes_);
  verdict_ = -FI_EAGAIN;
  EXPECT_EQ(Post(Notification::kSendAfterWrite, SendOrder::kAfterDelivery), PostResult::kAgain);
  EXPECT_EQ(operation_.step, Operation::Step::kWrite);
  EXPECT_EQ(operation_.completions_due, 0);
  verdict_ = -FI_EIO;
  EXPECT_EQ(Post(Notification::kSendAfterWrite, SendOrder::kAfterDelivery), PostResult::kFailed);
  EXPECT_EQ(error_, -FI_EIO);
}

TEST_F(NotifierTest, RefusedPostLeavesTheOperationWhereItWas) {
  verdict_ = -FI_EAGAIN;
  for (Notification notification : {Notification::kWriteImm, Notification::kSendAfterWrite}) {
    for (SendOrder order : {SendOrder::kPipelined, SendOrder::kAfterDelivery}) {
      EXPECT_EQ(Post(notification, order), PostResult::kAgain);
      EXPECT_EQ(operation_.step, Operation::Step::kWrite);
      EXPECT_EQ(operation_.completions_due, 0);
    }
  }
}

TEST_F(NotifierTest, RefusedSendIsResumedWithoutWritingTwice) {
  faults_->judge = [this](const EndpointFaults::Attempt& attempt) {
    attempts_.push_back(attempt);
    return attempt.kind == Kind::kSend ? verdict_ : 0;
  };
  verdict_ = -FI_EAGAIN;
  EXPECT_EQ(Post(Notification::kSendAfterWrite, SendOrder::kPipelined), PostResult::kAgain);
  EXPECT_EQ(operation_.step, Operation::Step::kSend);
  EXPECT_EQ(operation_.completions_due, 1);
  verdict_ = 0;
  EXPECT_EQ(Post(Notification::kSendAfterWrite, SendOrder::kPipelined), PostResult::kPosted);
  ASSERT_EQ(attempts_.size(), 3u);
  EXPECT_EQ(attempts_[2].kind, Kind::kSend);
  EXPECT_EQ(operation_.completions_due, 2);
}

TEST_F(NotifierTest, AnyOtherCodeIsAFailureThatKeepsTheCode) {
  verdict_ = -FI_EHOSTUNREACH;
  EXPECT_EQ(Post(Notification::kWriteImm, SendOrder::kPipelined), PostResult::kFailed);
  EXPECT_EQ(error_, -FI_EHOSTUNREACH);
}

}  // namespace
}  // namespace invoker::transport
