#include "src/isolation/spawner/executor_limits.h"

#include <gtest/gtest.h>

namespace invoker {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);
const ExecutorWatch::Run kIdle;

ExecutorWatch::Run Running(uint64_t value) {
  ExecutorWatch::Run run;
  run.value = value;
  return run;
}

struct Found {
  KillReason reason;
  absl::Time again;
};

Found Look(ExecutorLimits& limits, absl::Time now, bool ready, ExecutorWatch::Run run) {
  Found found;
  found.reason = limits.Look(now, ready, run, &found.again);
  return found;
}

TEST(ExecutorLimits, WithoutLimitsThereIsNothingToLookFor) {
  ExecutorLimits limits;
  const Found found = Look(limits, kStart, /*ready=*/true, Running(1));
  EXPECT_EQ(found.reason, KillReason::kNone);
  EXPECT_EQ(found.again, absl::InfiniteFuture());
}

TEST(ExecutorLimits, TheStartLimitEndsWithTheAnswer) {
  ExecutorLimits limits;
  limits.SetStartLimit(absl::Seconds(3), kStart);
  EXPECT_EQ(Look(limits, kStart, false, kIdle).again, kStart + absl::Seconds(3));
  EXPECT_EQ(Look(limits, kStart + absl::Seconds(3), false, kIdle).reason, KillReason::kStartLimit);
  limits.ClearStartLimit();
  EXPECT_EQ(Look(limits, kStart + absl::Seconds(3), false, kIdle).reason, KillReason::kNone);
  EXPECT_EQ(limits.start_limit(), absl::Seconds(3));
}

TEST(ExecutorLimits, OneFunctionMayNotRunForLongerThanTheCallLimit) {
  ExecutorLimits limits;
  limits.set_call_limit(absl::Seconds(1));
  limits.AddSessions(1);
  EXPECT_EQ(Look(limits, kStart, true, Running(7)).reason, KillReason::kNone);
  const Found before = Look(limits, kStart + absl::Milliseconds(999), true, Running(7));
  EXPECT_EQ(before.reason, KillReason::kNone);
  EXPECT_EQ(before.again, kStart + absl::Seconds(1));
  EXPECT_EQ(Look(limits, kStart + absl::Seconds(1), true, Running(7)).reason,
            KillReason::kCallLimit);
  EXPECT_EQ(limits.seen().value, 7u);
}

TEST(ExecutorLimits, AnotherRunBeginsAnew) {
  ExecutorLimits limits;
  limits.set_call_limit(absl::Seconds(1));
  limits.AddSessions(1);
  Look(limits, kStart, true, Running(7));
  EXPECT_EQ(Look(limits, kStart + absl::Seconds(2), true, Running(8)).reason, KillReason::kNone);
  EXPECT_EQ(Look(limits, kStart + absl::Seconds(3), true, Running(8)).reason,
            KillReason::kCallLimit);
}

TEST(ExecutorLimits, WithoutSessionsOnlyAFunctionThatOutlivesThemIsLookedAt) {
  ExecutorLimits limits;
  limits.set_call_limit(absl::Seconds(1));
  limits.AddSessions(1);
  limits.AddSessions(-2);  // no fewer than none
  EXPECT_EQ(Look(limits, kStart, true, kIdle).again, absl::InfiniteFuture());
  Look(limits, kStart, true, Running(7));
  EXPECT_EQ(Look(limits, kStart + absl::Seconds(1), true, Running(7)).reason,
            KillReason::kCallLimit);
}

TEST(ExecutorLimits, ALoadHasTheCallLimitForItself) {
  ExecutorLimits limits;
  limits.set_call_limit(absl::Seconds(1));
  limits.BeginLoad(kStart);
  // A function runs first: its time is not the load's.
  Look(limits, kStart + absl::Milliseconds(900), true, Running(7));
  EXPECT_EQ(Look(limits, kStart + absl::Milliseconds(1800), true, kIdle).reason, KillReason::kNone);
  EXPECT_EQ(Look(limits, kStart + absl::Milliseconds(1900), true, kIdle).reason,
            KillReason::kLoadLimit);
}

TEST(ExecutorLimits, TheNextLoadBeginsWhenThePreviousOneIsAnswered) {
  ExecutorLimits limits;
  limits.set_call_limit(absl::Seconds(1));
  limits.BeginLoad(kStart);
  limits.BeginLoad(kStart);
  limits.EndLoad(kStart + absl::Milliseconds(900));
  EXPECT_EQ(Look(limits, kStart + absl::Milliseconds(1800), true, kIdle).reason, KillReason::kNone);
  limits.EndLoad(kStart + absl::Milliseconds(1800));
  EXPECT_EQ(Look(limits, kStart + absl::Hours(1), true, kIdle).again, absl::InfiniteFuture());
}

TEST(ExecutorLimits, AnIdleExecutorHasTimeToStop) {
  ExecutorLimits limits;
  limits.SetStopLimit(absl::Milliseconds(100), kStart);
  EXPECT_TRUE(limits.stop_requested());
  const absl::Time stop_at = kStart + absl::Milliseconds(100);
  EXPECT_EQ(Look(limits, stop_at, true, kIdle).reason, KillReason::kNone);
  EXPECT_EQ(Look(limits, stop_at, true, Running(7)).reason, KillReason::kStopLimit);
  EXPECT_EQ(Look(limits, stop_at, /*ready=*/false, kIdle).reason, KillReason::kStopLimit);
  EXPECT_EQ(Look(limits, stop_at + absl::Seconds(2), true, kIdle).reason, KillReason::kStopLimit);
}

TEST(ExecutorLimits, AProcessWithAClosedSocketHasAMoment) {
  ExecutorLimits limits;
  limits.ExpectEnd(kStart);
  EXPECT_EQ(Look(limits, kStart, true, kIdle).again, kStart + absl::Seconds(1));
  EXPECT_EQ(Look(limits, kStart + absl::Seconds(1), true, kIdle).reason, KillReason::kSocketClosed);
}

TEST(ExecutorLimits, TheFirstKillReasonCounts) {
  ExecutorLimits limits;
  limits.SetStartLimit(absl::Seconds(1), kStart);
  EXPECT_TRUE(limits.SetKillReason(KillReason::kNotNeeded));
  EXPECT_FALSE(limits.SetKillReason(KillReason::kStopLimit));
  EXPECT_EQ(limits.kill_reason(), KillReason::kNotNeeded);
  EXPECT_EQ(Look(limits, kStart + absl::Hours(1), true, kIdle).reason, KillReason::kNone);
}

}  // namespace
}  // namespace invoker
