// Deadlines that several tries have in common.

#include "src/invoke/session/call_deadline.h"

#include "gtest/gtest.h"

namespace invoker {
namespace {

TEST(CallDeadlineTest, WithoutALimitThereIsAlwaysTimeLeft) {
  for (const CallDeadline& deadline :
       {CallDeadline(), CallDeadline(absl::InfiniteDuration()),
        // Further away than the clock counts.
        CallDeadline(absl::Nanoseconds(INT64_MAX)), CallDeadline(absl::Hours(24 * 365 * 1000))}) {
    EXPECT_TRUE(deadline.none());
    EXPECT_FALSE(deadline.passed());
    EXPECT_EQ(deadline.left(), absl::InfiniteDuration());
  }
}

TEST(CallDeadlineTest, WhatATryTakesIsMissingFromTheNext) {
  const CallDeadline deadline(absl::Hours(1));
  EXPECT_FALSE(deadline.passed());
  const absl::Duration first = deadline.left();
  EXPECT_LE(first, absl::Hours(1));
  const int64_t since_ns = transport::MonotonicNs();
  while (transport::MonotonicNs() == since_ns) {
  }
  EXPECT_LT(deadline.left(), first);
}

TEST(CallDeadlineTest, NothingIsLeftOnceItHasPassed) {
  for (const absl::Duration timeout :
       {absl::ZeroDuration(), absl::Nanoseconds(-1), -absl::InfiniteDuration()}) {
    const CallDeadline deadline(timeout);
    EXPECT_TRUE(deadline.passed());
    EXPECT_LE(deadline.left(), absl::ZeroDuration());
  }
}

}  // namespace
}  // namespace invoker
