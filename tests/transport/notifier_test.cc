#include "src/transport/notifier.h"

#include <optional>
#include <vector>

#include "gtest/gtest.h"
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
    operation_.token_source = &word_;
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
  uint32_t word_ = 0;
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

// Where the fabric needs local registration, the slot itself is not registered: its word is.
TEST_F(NotifierTest, TokenIsSentFromTheSlotsSendableWord) {
  for (SendOrder order : {SendOrder::kPipelined, SendOrder::kAfterDelivery}) {
    attempts_.clear();
    word_ = 0;
    operation_.step = Operation::Step::kSend;
    EXPECT_EQ(Post(Notification::kSendAfterWrite, order), PostResult::kPosted);
    ASSERT_EQ(attempts_.size(), 1u);
    EXPECT_EQ(attempts_[0].source, &word_);
    EXPECT_EQ(attempts_[0].length, sizeof(word_));
    EXPECT_EQ(word_, 0x01020304u);
  }
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
