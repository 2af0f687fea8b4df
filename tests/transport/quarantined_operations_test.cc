// Operations that a provider takes and never completes.

#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/transport/faults.h"
#include "tests/transport/node.h"

namespace invoker::transport {
namespace {

constexpr size_t kBytes = 4096;
constexpr size_t kOperations = 16;

class QuarantinedOperationsTest : public testing::TestWithParam<Way> {
 protected:
  void Open(absl::Duration quarantine_after, absl::Duration stall_limit = absl::Hours(1),
            size_t bytes = kBytes) {
    ReactorOptions options;
    options.operations = kOperations;
    options.quarantine_after = quarantine_after;
    options.stall_limit = stall_limit;
    sender_ = Node::Open(DiscoverWithCompletions(GetParam().provider), bytes, options);
    target_ = Node::Open(GetParam().provider, bytes);
    ASSERT_TRUE(sender_ != nullptr && target_ != nullptr);
    window_ = sender_->WindowTo(*target_, target_->window, &peer_);
    ExpectRoundTrip();
    faults_ = std::make_unique<CompletionFaults>(sender_->reactor().completion_queue().get());
  }

  const OperationPool& operations() { return sender_->reactor().operations(); }

  bool Run(const std::function<bool()>& done) {
    return PollUntil({sender_.get(), target_.get()}, done);
  }

  void ExpectRoundTrip() {
    target_->tokens.clear();
    ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 0));
    EXPECT_TRUE(Run([&] { return !target_->tokens.empty() && sender_->outstanding() == 0; }));
  }

  // Takes every slot with operations that do not complete.
  void LoseAll() {
    faults_->swallow = [](const fi_cq_data_entry& entry) {
      return (entry.flags & (FI_RECV | FI_REMOTE_CQ_DATA)) == 0 || (entry.flags & FI_WRITE) != 0;
    };
    const size_t before = faults_->swallowed();
    size_t lost = 0;
    while (sender_->Write(GetParam(), window_, 0, 8, 1)) ++lost;
    EXPECT_EQ(lost, kOperations);
    ASSERT_TRUE(Run([&] { return faults_->swallowed() >= before + lost; }));
    EXPECT_EQ(sender_->outstanding(), kOperations);
  }

  std::unique_ptr<Node> sender_;
  std::unique_ptr<Node> target_;
  const Peer* peer_ = nullptr;
  RemoteWindow window_;
  // Before the nodes.
  std::unique_ptr<CompletionFaults> faults_;
};

TEST_P(QuarantinedOperationsTest, ReactorServesOnWithNewSlots) {
  ASSERT_NO_FATAL_FAILURE(Open(absl::ZeroDuration()));
  for (size_t round = 1; round < OperationPool::kMostGrowth; ++round) {
    ASSERT_NO_FATAL_FAILURE(LoseAll());
    sender_->reactor().RetireAllOf(sender_.get());
    ASSERT_TRUE(Run([&] { return operations().quarantined() == round * kOperations; }));
    EXPECT_EQ(operations().capacity(), kOperations);
    EXPECT_EQ(sender_->outstanding(), 0u);
    faults_->swallow = nullptr;
    // With memory of their own, of which an eager send makes use.
    ASSERT_NO_FATAL_FAILURE(ExpectRoundTrip());
  }
  EXPECT_TRUE(sender_->failures.empty());
  EXPECT_TRUE(sender_->reactor().health().ok()) << sender_->reactor().health();
}

TEST_P(QuarantinedOperationsTest, ReactorThatHasLostEverySlotSaysSo) {
  ASSERT_NO_FATAL_FAILURE(Open(absl::ZeroDuration()));
  for (size_t round = 1; round <= OperationPool::kMostGrowth; ++round) {
    ASSERT_TRUE(sender_->reactor().health().ok()) << sender_->reactor().health();
    ASSERT_NO_FATAL_FAILURE(LoseAll());
    sender_->reactor().RetireAllOf(sender_.get());
    ASSERT_TRUE(Run([&] { return operations().quarantined() == round * kOperations; }));
  }
  EXPECT_EQ(operations().capacity(), 0u);
  EXPECT_EQ(sender_->reactor().health().code(), absl::StatusCode::kResourceExhausted)
      << sender_->reactor().health();
}

TEST_P(QuarantinedOperationsTest, WhatCompletesAfterAllGivesItsSlotBack) {
  ASSERT_NO_FATAL_FAILURE(Open(absl::ZeroDuration()));
  ASSERT_NO_FATAL_FAILURE(LoseAll());
  sender_->reactor().RetireAllOf(sender_.get());
  ASSERT_TRUE(Run([&] { return operations().quarantined() == kOperations; }));
  sender_->reactor().peers().Release(peer_);
  EXPECT_TRUE(Run([&] { return sender_->reactor().peers().quarantined() == 0; }));
  EXPECT_EQ(sender_->reactor().peers().kept(), 1u);
  window_ = sender_->WindowTo(*target_);
  EXPECT_EQ(sender_->reactor().peers().kept(), 0u);
  faults_->swallow = nullptr;
  faults_->GiveBack();
  EXPECT_TRUE(Run([&] { return operations().quarantined() == 0; }));
  EXPECT_EQ(operations().capacity(), kOperations);
  EXPECT_EQ(sender_->reactor().counters().stray_completions, 0u);
  ExpectRoundTrip();
}

TEST_P(QuarantinedOperationsTest, NotWhileTheOwnerIsThere) {
  ASSERT_NO_FATAL_FAILURE(Open(absl::ZeroDuration()));
  ASSERT_NO_FATAL_FAILURE(LoseAll());
  const uint64_t ticks = sender_->ticks;
  ASSERT_TRUE(Run([&] { return sender_->ticks > ticks + 10; }));
  EXPECT_EQ(operations().quarantined(), 0u);
  EXPECT_EQ(sender_->outstanding(), kOperations);
  faults_->swallow = nullptr;
  faults_->GiveBack();
  EXPECT_TRUE(Run([&] { return sender_->outstanding() == 0; }));
}

TEST_P(QuarantinedOperationsTest, ProviderThatCompletesNothingAnyMoreEndsTheReactorsHealth) {
  ASSERT_NO_FATAL_FAILURE(Open(absl::Hours(1), absl::ZeroDuration()));
  ASSERT_NO_FATAL_FAILURE(LoseAll());
  EXPECT_TRUE(Run([&] { return !sender_->reactor().health().ok(); }));
  EXPECT_EQ(sender_->reactor().health().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(sender_->reactor().health().message()),
              testing::HasSubstr("completes nothing"));
}

TEST_P(QuarantinedOperationsTest, RetiredMemoryKeepsThePagesThatOperationsSendFrom) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  ASSERT_NO_FATAL_FAILURE(Open(absl::Hours(1), absl::Hours(1), 5 * page));
  const std::byte* const source = sender_->source.data();
  memset(sender_->source.data(), 'x', 5 * page);
  faults_->swallow = [](const fi_cq_data_entry& entry) { return (entry.flags & FI_RECV) == 0; };
  // One within the other, as a mark is within its request.
  ASSERT_TRUE(sender_->Write(GetParam(), window_, page, page, 1));
  ASSERT_TRUE(sender_->Write(GetParam(), window_, page + 1, 1, 2));
  ASSERT_TRUE(sender_->Write(GetParam(), window_, 3 * page + 8, 8, 3));
  sender_->reactor().Retire(std::move(sender_->source));
  for (size_t i = 0; i < 5; ++i) {
    const bool stays = i == 1 || i == 3;
    EXPECT_EQ(source[i * page], stays ? std::byte{'x'} : std::byte{0}) << i;
    EXPECT_EQ(source[(i + 1) * page - 1], stays ? std::byte{'x'} : std::byte{0}) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, QuarantinedOperationsTest, testing::ValuesIn(AllWays()), NameOfWay);

}  // namespace
}  // namespace invoker::transport
