#include "src/invoke/executor/session/session_turn.h"

#include <memory>

#include "gtest/gtest.h"
#include "src/invoke/executor/session/session_usage.h"

namespace invoker {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

TEST(SessionTurnTest, ATurnEndsAfterAQuantumOfMessages) {
  SessionTurn turn;
  turn.Begin();
  turn.BeginWrite(0);
  for (int i = 0; i < kQuantumCalls; ++i) {
    EXPECT_EQ(turn.calls_left(), kQuantumCalls - i);
    turn.CountMessage();
  }
  EXPECT_TRUE(turn.IsOver());
  turn.Begin();
  EXPECT_EQ(turn.calls_left(), kQuantumCalls);
}

TEST(SessionTurnTest, ATurnEndsWhenItsTimeIsOver) {
  SessionTurn turn;
  turn.Begin();
  turn.BeginWrite(transport::MonotonicNs() - kSecondNs);
  EXPECT_TRUE(turn.IsOver());
  EXPECT_GE(turn.BusyNs(), kSecondNs);
}

TEST(SessionTurnTest, TimeBeforeATurnThatHadToWaitIsNotPartOfIt) {
  SessionTurn turn;
  turn.BeginWaited();
  const int64_t arrived_ns = turn.clock_ns() - kSecondNs;
  turn.BeginWrite(arrived_ns);
  EXPECT_EQ(turn.BusyNs(), 0);
  EXPECT_FALSE(turn.IsOver());
  // It counts against deadlines.
  EXPECT_TRUE(turn.IsPast(999'999));
  EXPECT_FALSE(turn.IsPast(1'000'000));
  EXPECT_FALSE(turn.IsPast(0));
  EXPECT_EQ(turn.DeadlineOf(2, /*clocked=*/true), arrived_ns + 2000);
}

TEST(SessionTurnTest, AMessageThatIsAloneIsNeverLate) {
  SessionTurn turn;
  turn.Begin();
  turn.BeginWrite(0);
  EXPECT_TRUE(turn.alone());
  EXPECT_FALSE(turn.IsPast(1));
  const int64_t before_ns = transport::MonotonicNs();
  EXPECT_GE(turn.DeadlineOf(5, /*clocked=*/false), before_ns + 5000);
  // Messages of the same write follow it.
  turn.EndAlone();
  EXPECT_FALSE(turn.alone());
  const int64_t since_ns = turn.others_since_ns();
  EXPECT_GE(since_ns, before_ns);
  turn.EndAlone();
  EXPECT_EQ(turn.others_since_ns(), since_ns);
}

TEST(SessionTurnTest, OnlySomeTinyFunctionsInARowRunUnclocked) {
  FunctionTimes times(2);
  times.Add(0, 100);
  times.Add(1, 10'000);
  SessionTurn turn;
  turn.Begin();
  EXPECT_FALSE(turn.RunsUnclocked(times, 1, 0));
  EXPECT_FALSE(turn.RunsUnclocked(times, 0, /*deadline_us=*/1));
  int unclocked = 0;
  while (turn.RunsUnclocked(times, 0, 0)) ++unclocked;
  EXPECT_EQ(unclocked, 16);
  EXPECT_TRUE(turn.RunsUnclocked(times, 0, 0));
}

TEST(SessionTurnTest, OnlyAClockedRunIsTimed) {
  SessionTurn turn;
  turn.Begin();
  EXPECT_EQ(turn.EndRun(/*clocked=*/false), 0);
  turn.UpdateClock();
  const int64_t began_ns = turn.clock_ns();
  EXPECT_GE(turn.EndRun(/*clocked=*/true), 0);
  EXPECT_GE(turn.clock_ns(), began_ns);
  // Nothing has run since.
  const int64_t now_ns = turn.clock_ns();
  turn.UpdateClock();
  EXPECT_EQ(turn.clock_ns(), now_ns);
}

TEST(FunctionTimesTest, SlowIsBelievedAtOnceAndFastStepByStep) {
  FunctionTimes times(1);
  EXPECT_TRUE(times.IsSlow(0));
  times.Add(0, 100);
  EXPECT_FALSE(times.IsSlow(0));
  EXPECT_TRUE(times.IsTiny(0));
  times.Add(0, 8 * kCoalesceNs);
  EXPECT_TRUE(times.IsSlow(0));
  times.Add(0, 100);
  EXPECT_TRUE(times.IsSlow(0));
  for (int i = 0; i < 100; ++i) times.Add(0, 100);
  EXPECT_TRUE(times.IsTiny(0));
  times.Grow(2);
  EXPECT_TRUE(times.IsSlow(1));
  EXPECT_TRUE(times.IsTiny(0));
}

TEST(SessionUsageTest, EachPublicationAddsWhatIsNew) {
  const auto meter = std::make_shared<UsageMeter>();
  SessionUsage usage(nullptr, meter);
  TickScale scale;
  UsageCounters sum;
  usage.CountRun(0, 10);
  usage.CountOutput(0, 3);
  usage.set_unpublished();
  usage.Publish(scale, &sum);
  EXPECT_FALSE(usage.unpublished());
  usage.CountRun(0, 20);
  usage.Publish(scale, &sum);
  usage.Publish(scale, &sum);
  EXPECT_EQ(sum.calls, 2u);
  EXPECT_EQ(sum.bytes_in, 30u);
  EXPECT_EQ(sum.bytes_out, 3u);
  EXPECT_EQ(meter->Read().calls, 2u);
  EXPECT_EQ(meter->Read().bytes_in, 30u);
}

TEST(SessionUsageTest, TimeIsAddedOnceItIsKnownHowLongATickIs) {
  SessionUsage usage(nullptr, nullptr);
  TickScale scale;
  while (scale.ToNs(1'000'000) == 0) scale.Refine(ReadTicks());
  UsageCounters sum;
  usage.AddBusy(1'000'000);
  usage.Publish(scale, &sum);
  EXPECT_EQ(sum.function_ns, scale.ToNs(1'000'000));
  usage.Publish(scale, &sum);
  EXPECT_EQ(sum.function_ns, scale.ToNs(1'000'000));
}

TEST(SessionUsageTest, ADropCountsForTheSessionAndItsExecutor) {
  DropCounters executor;
  SessionUsage usage(&executor, nullptr);
  usage.CountDrop(&DropCounters::replayed);
  usage.CountRefusal();
  EXPECT_EQ(usage.counters().dropped.replayed, 1u);
  EXPECT_EQ(usage.counters().refused, 1u);
  EXPECT_EQ(executor.replayed, 1u);
  EXPECT_EQ(TotalDrops(executor), 1u);
}

}  // namespace
}  // namespace invoker
