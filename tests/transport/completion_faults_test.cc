// What becomes of error entries, entries of nobody, and a completion queue that breaks.

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/transport/faults.h"
#include "tests/transport/node.h"

namespace invoker::transport {
namespace {

constexpr size_t kBytes = 4096;

class CompletionFaultsTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    sender_ = Node::Open(DiscoverWithCompletions(GetParam().provider), kBytes);
    target_ = Node::Open(GetParam().provider, kBytes);
    ASSERT_TRUE(sender_ != nullptr && target_ != nullptr);
    window_ = sender_->WindowTo(*target_);
    ExpectRoundTrip();
    faults_ = std::make_unique<CompletionFaults>(sender_->reactor().completion_queue().get());
  }

  bool Run(const std::function<bool()>& done) {
    return PollUntil({sender_.get(), target_.get()}, done);
  }

  void ExpectRoundTrip() {
    target_->tokens.clear();
    ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 0));
    EXPECT_TRUE(Run([&] { return !target_->tokens.empty() && sender_->outstanding() == 0; }));
  }

  std::unique_ptr<Node> sender_;
  std::unique_ptr<Node> target_;
  RemoteWindow window_;
  // Before the nodes.
  std::unique_ptr<CompletionFaults> faults_;
};

TEST_P(CompletionFaultsTest, OwnerHearsOnceAndTheSlotIsFreedOnce) {
  faults_->judge = [](const fi_cq_data_entry& entry) {
    return entry.op_context != nullptr ? FI_EIO : 0;
  };
  constexpr uint64_t kWrites = 20;
  for (uint64_t tag = 0; tag < kWrites; ++tag) {
    ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 1, tag));
  }
  ASSERT_TRUE(Run([&] { return sender_->outstanding() == 0; }));
  ASSERT_EQ(sender_->failures.size(), kWrites);
  uint64_t seen = 0;
  for (const Node::Failure& failure : sender_->failures) {
    seen |= uint64_t{1} << failure.tag;
    EXPECT_EQ(failure.status.code(), absl::StatusCode::kInternal) << failure.status;
  }
  EXPECT_EQ(seen, (uint64_t{1} << kWrites) - 1);
  EXPECT_EQ(sender_->reactor().counters().posts_failed, kWrites);
  // Each slot was freed once: all of them can be had, and each only once.
  faults_->judge = nullptr;
  size_t taken = 0;
  while (sender_->Write(GetParam(), window_, 0, 8, 1)) ++taken;
  EXPECT_EQ(taken, sender_->reactor().operations().capacity());
  ASSERT_TRUE(Run([&] { return sender_->outstanding() == 0; }));
  EXPECT_EQ(sender_->failures.size(), kWrites);
}

TEST_P(CompletionFaultsTest, FailedWriteIsFollowedByNoSendOfItsOwn) {
  if (GetParam().notification != Notification::kSendAfterWrite ||
      GetParam().order != SendOrder::kAfterDelivery || GetParam().eager) {
    GTEST_SKIP() << "posts nothing after a completion";
  }
  faults_->judge = [](const fi_cq_data_entry&) { return FI_EIO; };
  target_->tokens.clear();
  ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 1));
  ASSERT_TRUE(Run([&] { return sender_->outstanding() == 0; }));
  for (int i = 0; i < 1000; ++i) target_->reactor().Poll();
  EXPECT_TRUE(target_->tokens.empty());
  EXPECT_EQ(sender_->failures.size(), 1u);
}

TEST_P(CompletionFaultsTest, OneOfTwoCompletionsFailingIsOneFailure) {
  if (GetParam().notification == Notification::kWriteImm || GetParam().eager) {
    GTEST_SKIP() << "completes once";
  }
  for (int failing : {0, 1}) {
    int entry_number = 0;
    faults_->judge = [&](const fi_cq_data_entry&) {
      return entry_number++ == failing ? FI_ECONNRESET : 0;
    };
    sender_->failures.clear();
    ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 1, 5));
    ASSERT_TRUE(Run([&] { return sender_->outstanding() == 0; }));
    ASSERT_EQ(sender_->failures.size(), 1u);
    EXPECT_EQ(sender_->failures[0].status.code(), absl::StatusCode::kUnavailable);
  }
  faults_->judge = nullptr;
  ExpectRoundTrip();
}

TEST_P(CompletionFaultsTest, OwnerThatHasGoneHearsNothing) {
  faults_->judge = [](const fi_cq_data_entry&) { return FI_EIO; };
  ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 1));
  sender_->reactor().RetireAllOf(sender_.get());
  ASSERT_TRUE(Run([&] { return sender_->outstanding() == 0; }));
  EXPECT_TRUE(sender_->failures.empty());
}

TEST_P(CompletionFaultsTest, ErrorsOfNobodyAreCountedAndHarmless) {
  int foreign = 0;
  const uint64_t before = sender_->reactor().counters().stray_completions;
  faults_->AddError(nullptr, FI_EIO);
  faults_->AddError(&foreign, FI_EIO);
  faults_->AddError(reinterpret_cast<void*>(UINTPTR_MAX), FI_EIO);
  ASSERT_TRUE(Run([&] { return faults_->errors_waiting() == 0; }));
  EXPECT_EQ(sender_->reactor().counters().stray_completions - before, 3u);
  EXPECT_EQ(sender_->reactor().counters().completion_errors, 3u);
  EXPECT_TRUE(sender_->failures.empty());
  EXPECT_TRUE(sender_->reactor().health().ok());
  ExpectRoundTrip();
}

TEST_P(CompletionFaultsTest, QueueThatOverranIsUnhealthyForGoodAndPollingItIsHarmless) {
  faults_->read_result = -FI_EOVERRUN;
  sender_->reactor().Poll();
  EXPECT_FALSE(sender_->reactor().health().ok());
  const absl::Status first = sender_->reactor().health();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(sender_->reactor().Poll(), 0);
  for (ssize_t later : {ssize_t{-FI_EAGAIN}, ssize_t{0}, ssize_t{-FI_EIO}}) {
    faults_->read_result = later;
    EXPECT_EQ(sender_->reactor().Poll(), 0);
    EXPECT_EQ(sender_->reactor().health(), first);
  }
  faults_->read_result = CompletionFaults::kReadReally;
  ExpectRoundTrip();
  EXPECT_EQ(sender_->reactor().health(), first);
}

TEST_P(CompletionFaultsTest, ErrorEntryOfAnOverrunIsUnhealthyForGood) {
  faults_->AddError(nullptr, FI_EOVERRUN);
  sender_->reactor().Poll();
  const absl::Status health = sender_->reactor().health();
  EXPECT_FALSE(health.ok());
  EXPECT_THAT(std::string(health.message()), testing::HasSubstr("overran"));
  for (int i = 0; i < 1000; ++i) sender_->reactor().Poll();
  faults_->read_result = -FI_EOVERRUN;
  sender_->reactor().Poll();
  EXPECT_EQ(sender_->reactor().health(), health);
}

TEST_P(CompletionFaultsTest, AnnouncedErrorThatIsNotThereIsHarmless) {
  faults_->read_result = -FI_EAVAIL;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(sender_->reactor().Poll(), 0);
  EXPECT_TRUE(sender_->reactor().health().ok());
  faults_->read_result = CompletionFaults::kReadReally;
  ExpectRoundTrip();
}

// A receive that fails gives its buffer back: more of them than the ring has do not silence it.
TEST_P(CompletionFaultsTest, FailedReceivesAreNotLostToTheRing) {
  if (GetParam().notification == Notification::kWriteImm) GTEST_SKIP() << "receives nothing";
  CompletionFaults target_faults(target_->reactor().completion_queue().get());
  uint64_t failed = 0;
  target_faults.judge = [&](const fi_cq_data_entry& entry) {
    const bool receive = (entry.flags & FI_RECV) != 0;
    if (receive) ++failed;
    return receive ? FI_ETRUNC : 0;
  };
  target_->tokens.clear();
  const uint64_t writes = target_->reactor().profile().receive_buffers + 50;
  for (uint64_t i = 0; i < writes; ++i) {
    ASSERT_TRUE(Run([&] { return sender_->outstanding() < 16; }));
    ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 1));
  }
  ASSERT_TRUE(Run([&] { return failed == writes; }));
  EXPECT_TRUE(target_->tokens.empty());
  target_faults.judge = nullptr;
  ExpectRoundTrip();
  EXPECT_EQ(target_->reactor().counters().stray_completions, 0u);
}

// libfabric 1.17 says so on efa.
TEST_P(CompletionFaultsTest, APeersWriteMayBeSaidToBeOneOfOurs) {
  fi_cq_data_entry entry = {};
  entry.flags = FI_RMA | FI_WRITE | FI_REMOTE_CQ_DATA;
  entry.data = 42;
  faults_->Add(entry);
  entry.op_context = &entry;  // somebody's, but none of ours
  faults_->Add(entry);
  entry.op_context = nullptr;
  entry.flags = FI_RMA | FI_WRITE;
  faults_->Add(entry);
  sender_->tokens.clear();
  const uint64_t stray = sender_->reactor().counters().stray_completions;
  ASSERT_TRUE(Run([&] { return sender_->reactor().counters().stray_completions == stray + 2; }));
  EXPECT_EQ(sender_->tokens, std::vector<uint32_t>{42});
}

INSTANTIATE_TEST_SUITE_P(Every, CompletionFaultsTest, testing::ValuesIn(AllWays()), NameOfWay);

}  // namespace
}  // namespace invoker::transport
