#include "src/transport/reactor/stall_detector.h"

#include <optional>

#include "gtest/gtest.h"

namespace invoker::transport {
namespace {

constexpr int64_t kTickNs = 10'000'000;
constexpr int64_t kLimitNs = 5'000'000'000;
constexpr size_t kDepth = 16;

class StallDetectorTest : public testing::Test {
 protected:
  StallDetectorTest() : detector_(absl::Nanoseconds(kLimitNs)) {
    counts_.every_slot_is_posted = false;
    counts_.depth = kDepth;
  }

  std::optional<int64_t> Tick(int64_t passed_ns = kTickNs) {
    now_ns_ += passed_ns;
    return detector_.Look(now_ns_, counts_, [this] {
      ++times_counted_;
      return posted_;
    });
  }
  // How long it takes until a stall is found; nullopt: it is not.
  std::optional<int64_t> TicksUntilStall(int64_t most = 4 * kLimitNs / kTickNs) {
    for (int64_t tick = 1; tick <= most; ++tick) {
      if (Tick().has_value()) return tick;
    }
    return std::nullopt;
  }

  StallDetector detector_;
  StallDetector::Counts counts_;
  StallDetector::Posted posted_;
  int times_counted_ = 0;
  int64_t now_ns_ = 1'000'000'000'000;
};

TEST_F(StallDetectorTest, FreeSlotsAreNoStall) {
  EXPECT_EQ(TicksUntilStall(), std::nullopt);
  EXPECT_EQ(times_counted_, 0);
}

TEST_F(StallDetectorTest, EverySlotPostedForTheLimitIsAStall) {
  Tick();
  counts_.every_slot_is_posted = true;
  EXPECT_EQ(TicksUntilStall(), kLimitNs / kTickNs + 1);
  EXPECT_EQ(Tick(), kLimitNs);
}

TEST_F(StallDetectorTest, CompletionStartsTheTimeAgain) {
  Tick();
  counts_.every_slot_is_posted = true;
  for (int64_t tick = 0; tick < kLimitNs / kTickNs; ++tick) ASSERT_EQ(Tick(), std::nullopt);
  ++counts_.completions;
  EXPECT_EQ(TicksUntilStall(), kLimitNs / kTickNs + 2);
}

TEST_F(StallDetectorTest, FreeSlotStartsTheTimeAgain) {
  Tick();
  counts_.every_slot_is_posted = true;
  for (int64_t tick = 0; tick < kLimitNs / kTickNs; ++tick) ASSERT_EQ(Tick(), std::nullopt);
  counts_.every_slot_is_posted = false;
  Tick();
  counts_.every_slot_is_posted = true;
  EXPECT_EQ(TicksUntilStall(), kLimitNs / kTickNs + 1);
}

TEST_F(StallDetectorTest, TimeWithoutTicksHardlyCounts) {
  Tick();
  counts_.every_slot_is_posted = true;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Tick(kLimitNs), std::nullopt);
}

TEST_F(StallDetectorTest, QuarantinedOperationsThatLeaveNoRoomAreAStall) {
  Tick();
  counts_.quarantined = 2;
  counts_.refusals = 1;
  posted_ = {kDepth - 2, 2};
  EXPECT_EQ(TicksUntilStall(), kLimitNs / kTickNs + 1);
}

TEST_F(StallDetectorTest, RefusalsWithRoomAreNoStall) {
  Tick();
  counts_.quarantined = 2;
  counts_.refusals = 1;
  posted_ = {kDepth - 3, 2};
  EXPECT_EQ(TicksUntilStall(), std::nullopt);
}

TEST_F(StallDetectorTest, WithoutARefusalSinceTheLastCompletionThereIsNoStall) {
  counts_.refusals = 1;
  ++counts_.completions;
  Tick();
  counts_.quarantined = 2;
  posted_ = {kDepth, 2};
  EXPECT_EQ(TicksUntilStall(), std::nullopt);
  EXPECT_EQ(times_counted_, 0);
}

TEST_F(StallDetectorTest, OnlyQuarantinedOperationsAreASoonerStall) {
  Tick();
  counts_.quarantined = kDepth;
  counts_.refusals = 1;
  posted_ = {0, kDepth};
  const std::optional<int64_t> ticks = TicksUntilStall();
  ASSERT_TRUE(ticks.has_value());
  EXPECT_LT(*ticks, kLimitNs / kTickNs);
  EXPECT_LT(*Tick(), kLimitNs);
}

}  // namespace
}  // namespace invoker::transport
