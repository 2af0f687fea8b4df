#include "src/transport/operations/notifier.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/transport/base/ring_message.h"
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
    rma_.injectdata = [](fid_ep*, const void*, size_t, uint64_t, fi_addr_t, uint64_t,
                         uint64_t) -> ssize_t { return 0; };
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
    operation_.eager_bytes = sizeof(bytes_) - 1;  // the peer's
    EXPECT_EQ(Post(Notification::kSendAfterWrite, order), PostResult::kPosted);
    EXPECT_NE(attempts_[0].kind, Kind::kSend);
    attempts_.clear();
    operation_.step = Operation::Step::kWrite;
    operation_.eager_bytes = UINT32_MAX;
    operation_.staging_bytes = kRingHeaderBytes + sizeof(bytes_) - 1;  // this side's
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

// What goes in pieces: every byte once and in order, marked but for the last, which has the token.
class PiecesTest : public NotifierTest {
 protected:
  PiecesTest() : message_(16384, 'x') {
    operation_.source = message_.data();
    operation_.remote_address = kAddress;
    operation_.piece_bytes = kPieceBytes;
  }

  PostResult PostMessage(uint64_t length) {
    operation_.length = length;
    return Post(Notification::kWriteImm, SendOrder::kPipelined);
  }

  // About the attempts that went through.
  void ExpectWhole(const std::vector<EndpointFaults::Attempt>& pieces, uint64_t length) {
    uint64_t done = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const bool last = i + 1 == pieces.size();
      EXPECT_EQ(pieces[i].kind, last ? Kind::kWriteData : Kind::kInjectData) << i;
      EXPECT_EQ(pieces[i].data, last ? uint64_t{0x01020304} : kPieceData) << i;
      EXPECT_EQ(pieces[i].source, message_.data() + done) << i;
      EXPECT_EQ(pieces[i].address, kAddress + done) << i;
      EXPECT_GT(pieces[i].length, 0u) << i;
      EXPECT_LE(pieces[i].length, kPieceBytes) << i;
      done += pieces[i].length;
    }
    EXPECT_EQ(done, length);
  }

  static constexpr uint64_t kAddress = 0x10000;
  static constexpr uint64_t kPieceBytes = 4096;
  std::vector<char> message_;
};

TEST_F(PiecesTest, AreTheFewestThatTakeAllBytes) {
  for (const auto& [length, pieces] : {std::pair<uint64_t, size_t>{1, 1},
                                       {4095, 1},
                                       {4096, 1},
                                       {4097, 2},
                                       {4128, 2},
                                       {8191, 2},
                                       {8192, 2},
                                       {8193, 3},
                                       {12288, 3},
                                       {16384, 4}}) {
    attempts_.clear();
    operation_.source = message_.data();
    operation_.remote_address = kAddress;
    operation_.step = Operation::Step::kWrite;
    EXPECT_EQ(PostMessage(length), PostResult::kPosted) << length;
    EXPECT_EQ(attempts_.size(), pieces) << length;
    ExpectWhole(attempts_, length);
    EXPECT_EQ(operation_.step, Operation::Step::kDone);
    EXPECT_EQ(operation_.completions_due, 1) << "only the last piece has a completion";
  }
}

TEST_F(PiecesTest, NoLimitMeansOneWrite) {
  operation_.piece_bytes = 0;
  EXPECT_EQ(PostMessage(16384), PostResult::kPosted);
  ASSERT_EQ(attempts_.size(), 1u);
  EXPECT_EQ(attempts_[0].kind, Kind::kWriteData);
  EXPECT_EQ(attempts_[0].length, 16384u);
}

// Refused before every piece, the last included, once each.
TEST_F(PiecesTest, RefusalResumesWhereItStopped) {
  std::vector<EndpointFaults::Attempt> taken;
  bool refuse = false;
  faults_->judge = [&](const EndpointFaults::Attempt& attempt) {
    refuse = !refuse;
    if (refuse) return -FI_EAGAIN;
    taken.push_back(attempt);
    return 0;
  };
  EXPECT_EQ(PostMessage(16384), PostResult::kAgain);
  int refusals = 1;
  PostResult result = PostResult::kAgain;
  while (result == PostResult::kAgain && refusals < 100) {
    EXPECT_EQ(operation_.step, Operation::Step::kWrite);
    EXPECT_EQ(operation_.completions_due, 0);
    result = Post(Notification::kWriteImm, SendOrder::kPipelined);
    if (result == PostResult::kAgain) ++refusals;
  }
  EXPECT_EQ(result, PostResult::kPosted);
  EXPECT_EQ(refusals, 4);
  EXPECT_EQ(taken.size(), 4u);
  ExpectWhole(taken, 16384);
  EXPECT_EQ(operation_.completions_due, 1);
}

TEST_F(PiecesTest, FailureOfAnyPieceIsTheOperationsAndEndsIt) {
  for (size_t failing = 0; failing < 3; ++failing) {
    attempts_.clear();
    faults_->judge = [&](const EndpointFaults::Attempt& attempt) {
      attempts_.push_back(attempt);
      return attempts_.size() == failing + 1 ? -FI_EHOSTUNREACH : 0;
    };
    operation_.source = message_.data();
    operation_.step = Operation::Step::kWrite;
    error_ = 0;
    EXPECT_EQ(PostMessage(12000), PostResult::kFailed);
    EXPECT_EQ(error_, -FI_EHOSTUNREACH);
    EXPECT_EQ(attempts_.size(), failing + 1) << "nothing is posted behind it";
    EXPECT_EQ(operation_.completions_due, 0);
  }
}

TEST_F(NotifierTest, AnyOtherCodeIsAFailureThatKeepsTheCode) {
  verdict_ = -FI_EHOSTUNREACH;
  EXPECT_EQ(Post(Notification::kWriteImm, SendOrder::kPipelined), PostResult::kFailed);
  EXPECT_EQ(error_, -FI_EHOSTUNREACH);
}

}  // namespace
}  // namespace invoker::transport
