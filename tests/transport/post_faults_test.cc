// What becomes of writes that the provider refuses when they are posted.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/transport/faults.h"
#include "tests/transport/node.h"

namespace invoker::transport {
namespace {

using testing::HasSubstr;
using Attempt = EndpointFaults::Attempt;
using Kind = EndpointFaults::Kind;

constexpr size_t kBytes = 4096;

class PostFaults : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override { Open({}); }

  void Open(const ReactorOptions& options) {
    faults_.reset();
    sender_ = Node::Open(GetParam().provider, kBytes, options);
    target_ = Node::Open(GetParam().provider, kBytes);
    ASSERT_TRUE(sender_ != nullptr && target_ != nullptr);
    window_ = sender_->WindowTo(*target_);
    ConnectTo(target_.get(), window_);
    faults_ = std::make_unique<EndpointFaults>(sender_->reactor().endpoint().get());
  }

  // The connection is up before any fault. On a busy machine that may take longer than a short
  // retry limit allows.
  void ConnectTo(Node* target, const RemoteWindow& window) {
    const int64_t give_up = MonotonicNs() + int64_t{60'000'000'000};
    do {
      sender_->failures.clear();
      ASSERT_TRUE(sender_->Write(GetParam(), window, 0, 8, 0));
      ASSERT_TRUE(PollUntil({sender_.get(), target}, [&] {
        return (!target->tokens.empty() || !sender_->failures.empty()) &&
               sender_->outstanding() == 0;
      }));
      ASSERT_LT(MonotonicNs(), give_up);
    } while (target->tokens.empty());
    target->tokens.clear();
    sender_->failures.clear();
  }

  bool Run(const std::function<bool()>& done) {
    return PollUntil({sender_.get(), target_.get()}, done);
  }

  // Each token exactly once, in any order.
  void ExpectTokens(uint32_t count) {
    std::vector<uint32_t> sorted = target_->tokens;
    std::sort(sorted.begin(), sorted.end());
    std::vector<uint32_t> expected(count);
    for (uint32_t i = 0; i < count; ++i) expected[i] = i;
    EXPECT_EQ(sorted, expected);
  }

  std::unique_ptr<Node> sender_;
  std::unique_ptr<Node> target_;
  RemoteWindow window_;
  // Before the nodes.
  std::unique_ptr<EndpointFaults> faults_;
};

TEST_P(PostFaults, RefusalsThatEndLoseAndRepeatNothing) {
  constexpr uint32_t kWrites = 100;
  std::map<void*, int> refusals;
  faults_->judge = [&](const Attempt& attempt) {
    if (refusals[attempt.context]++ < 20) return -FI_EAGAIN;
    refusals.erase(attempt.context);
    return 0;
  };
  for (uint32_t i = 0; i < kWrites; ++i) {
    ASSERT_TRUE(sender_->Write(GetParam(), window_, i * 8, 8, i));
  }
  ASSERT_TRUE(
      Run([&] { return target_->tokens.size() >= kWrites && sender_->outstanding() == 0; }));
  for (int i = 0; i < 1000; ++i) target_->reactor().Poll();
  ExpectTokens(kWrites);
  EXPECT_TRUE(sender_->failures.empty());
  EXPECT_GE(sender_->reactor().counters().posts_refused, 20u * kWrites);
}

TEST_P(PostFaults, RefusalOfTheSendAloneDoesNotRepeatTheWrite) {
  if (GetParam().notification == Notification::kWriteImm) GTEST_SKIP() << "sends nothing";
  constexpr uint32_t kWrites = 50;
  uint64_t writes = 0;
  uint32_t refused = 0;
  const uint64_t before = sender_->reactor().counters().posts_refused;
  faults_->judge = [&](const Attempt& attempt) {
    if (attempt.kind != Kind::kSend) ++writes;
    return attempt.kind == Kind::kSend && refused++ < 500 ? -FI_EAGAIN : 0;
  };
  for (uint32_t i = 0; i < kWrites; ++i) {
    ASSERT_TRUE(sender_->Write(GetParam(), window_, i * 8, 8, i));
  }
  ASSERT_TRUE(
      Run([&] { return target_->tokens.size() == kWrites && sender_->outstanding() == 0; }));
  ExpectTokens(kWrites);
  // The provider itself may have refused some.
  EXPECT_LE(writes, kWrites + sender_->reactor().counters().posts_refused - before - 500);
  EXPECT_TRUE(sender_->failures.empty());
}

TEST_P(PostFaults, RefusalsWithoutEndFailAtTheLimitAndHoldUpNobodyElse) {
  ReactorOptions options;
  options.retry_limit = absl::Milliseconds(50);
  Open(options);
  auto other = Node::Open(GetParam().provider, kBytes);
  const RemoteWindow to_other = sender_->WindowTo(*other);
  ConnectTo(other.get(), to_other);
  const uint64_t failed_before = sender_->reactor().counters().posts_failed;
  faults_->judge = [&](const Attempt& attempt) {
    return attempt.peer == window_.peer ? -FI_EAGAIN : 0;
  };
  for (uint64_t tag = 1; tag <= 10; ++tag) {
    ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 1, tag));
  }
  ASSERT_TRUE(sender_->Write(GetParam(), to_other, 0, 8, 7));
  ASSERT_TRUE(PollUntil({sender_.get(), other.get()}, [&] { return !other->tokens.empty(); }));
  ASSERT_TRUE(PollUntil({sender_.get(), target_.get(), other.get()},
                        [&] { return sender_->outstanding() == 0; }));
  ASSERT_EQ(sender_->failures.size(), 10u);
  std::vector<uint64_t> tags;
  for (const Node::Failure& failure : sender_->failures) {
    tags.push_back(failure.tag);
    EXPECT_EQ(failure.status.code(), absl::StatusCode::kDeadlineExceeded) << failure.status;
    EXPECT_THAT(std::string(failure.status.message()), HasSubstr("50 ms"));
  }
  EXPECT_THAT(tags, testing::UnorderedElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_TRUE(target_->tokens.empty());
  EXPECT_EQ(sender_->reactor().counters().posts_failed - failed_before, 10u);
}

TEST_P(PostFaults, PermanentRefusalIsHeardOnceAndFreesTheSlot) {
  faults_->judge = [](const Attempt&) { return -FI_EHOSTUNREACH; };
  ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 1, 42));
  ASSERT_EQ(sender_->failures.size(), 1u);
  EXPECT_EQ(sender_->failures[0].tag, 42u);
  EXPECT_EQ(sender_->failures[0].status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(sender_->outstanding(), 0u);
  faults_->judge = nullptr;
  ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 0));
  ASSERT_TRUE(Run([&] { return !target_->tokens.empty() && sender_->outstanding() == 0; }));
  ExpectTokens(1);
  EXPECT_EQ(sender_->failures.size(), 1u);
}

TEST_P(PostFaults, PermanentRefusalOfTheSendIsHeardOnceAndFreesTheSlotWithTheWrite) {
  if (GetParam().notification == Notification::kWriteImm) GTEST_SKIP() << "sends nothing";
  faults_->judge = [](const Attempt& attempt) { return attempt.kind == Kind::kSend ? -FI_EIO : 0; };
  ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 1, 42));
  ASSERT_TRUE(Run([&] { return sender_->outstanding() == 0; }));
  ASSERT_EQ(sender_->failures.size(), 1u);
  EXPECT_EQ(sender_->failures[0].status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(target_->tokens.empty());
}

TEST_P(PostFaults, OwnerMayPostAgainFromTheNewsOfAFailure) {
  faults_->judge = [](const Attempt&) { return -FI_EIO; };
  sender_->on_failure = [&](const Operation& operation, const absl::Status&) {
    faults_->judge = nullptr;
    EXPECT_TRUE(sender_->Write(GetParam(), window_, 0, 8, operation.token));
  };
  ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 0));
  ASSERT_TRUE(Run([&] { return !target_->tokens.empty() && sender_->outstanding() == 0; }));
  ExpectTokens(1);
}

TEST_P(PostFaults, OwnerThatHasGoneHearsNothingAndItsRefusedPostsAreDropped) {
  faults_->judge = [](const Attempt&) { return -FI_EAGAIN; };
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 1));
  sender_->reactor().RetireAllOf(sender_.get());
  ASSERT_TRUE(Run([&] { return sender_->outstanding() == 0; }));
  EXPECT_TRUE(sender_->failures.empty());
  EXPECT_TRUE(target_->tokens.empty());
}

TEST_P(PostFaults, DroppedImmediateDeliversTheBytesAndNoToken) {
  if (GetParam().notification != Notification::kWriteImm) GTEST_SKIP() << "has no immediate";
  faults_->drop_immediates = true;
  sender_->source.data()[0] = std::byte{9};
  ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 5));
  const volatile std::byte* first = target_->window.data();
  ASSERT_TRUE(Run([&] { return *first == std::byte{9} && sender_->outstanding() == 0; }));
  for (int i = 0; i < 1000; ++i) target_->reactor().Poll();
  EXPECT_TRUE(target_->tokens.empty());
  EXPECT_EQ(faults_->immediates_dropped, 1u);
  EXPECT_TRUE(sender_->failures.empty());
}

INSTANTIATE_TEST_SUITE_P(Every, PostFaults, testing::ValuesIn(AllWays()), NameOfWay);

}  // namespace
}  // namespace invoker::transport
