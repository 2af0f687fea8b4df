#include "src/launch/pool_plan.h"

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace invoker::launch {
namespace {

using Ids = std::vector<std::string>;

PoolLimits Limits(uint32_t least, uint32_t most) {
  PoolLimits limits;
  limits.least = least;
  limits.most = most;
  limits.idle = absl::Seconds(10);
  return limits;
}

absl::Duration At(int seconds) { return absl::Seconds(seconds); }

PoolJob Coming(const std::string& id) { return {id, false, false}; }
PoolJob Idle(const std::string& id) { return {id, true, true}; }
PoolJob Busy(const std::string& id) { return {id, true, false}; }

TEST(PoolPlan, KeepsTheLeast) {
  PoolPlan plan(Limits(3, 8));
  EXPECT_EQ(plan.Next({}, 0, At(0)).submit, 3u);
  EXPECT_EQ(plan.Next({Coming("1"), Idle("2")}, 0, At(1)).submit, 1u);
  // However long they are idle.
  EXPECT_EQ(plan.Next({Idle("1"), Idle("2"), Idle("3")}, 0, At(100)).submit, 0u);
  EXPECT_EQ(plan.Next({Idle("1"), Idle("2"), Idle("3")}, 0, At(200)).drain, Ids());
}

TEST(PoolPlan, GrowsWhileLeasesWaitForMoreThanWhatIsComing) {
  PoolPlan plan(Limits(1, 4));
  EXPECT_EQ(plan.Next({Busy("1")}, 2, At(0)).submit, 2u);
  EXPECT_EQ(plan.Next({Busy("1"), Coming("2"), Coming("3")}, 2, At(1)).submit, 0u);
  EXPECT_EQ(plan.Next({Busy("1"), Coming("2"), Busy("3")}, 9, At(2)).submit, 1u);
  EXPECT_EQ(plan.Next({Busy("1"), Busy("2"), Busy("3"), Busy("4")}, 9, At(3)).submit, 0u);
}

TEST(PoolPlan, EachRoundDoublesWhileALeaseWaitsForMore) {
  PoolPlan plan(Limits(1, 6));
  std::vector<PoolJob> jobs = {Busy("0")};
  const auto round = [&](int second) {
    const uint32_t submit = plan.Next(jobs, 1, At(second)).submit;
    for (uint32_t i = 0; i < submit; ++i) jobs.push_back(Busy(std::to_string(jobs.size())));
    return submit;
  };
  EXPECT_EQ(round(0), 1u);
  EXPECT_EQ(round(10), 2u);
  // No lease waits for a moment, while its client looks at the members anew.
  EXPECT_EQ(plan.Next(jobs, 0, At(11)).submit, 0u);
  // Four would be more than the most.
  EXPECT_EQ(round(12), 2u);
  EXPECT_EQ(round(13), 0u);
  // Another lease begins with one again.
  jobs.resize(1);
  EXPECT_EQ(plan.Next(jobs, 0, At(20)).submit, 0u);
  EXPECT_EQ(round(21), 1u);
}

TEST(PoolPlan, DoesNotDoubleAfterAFailure) {
  PoolPlan plan(Limits(1, 8));
  EXPECT_EQ(plan.Next({Busy("1")}, 2, At(0)).submit, 2u);
  plan.Next({Busy("1"), Coming("2"), Coming("3")}, 2, At(1));
  EXPECT_EQ(plan.Next({Busy("1")}, 2, At(2)).failed, (Ids{"2", "3"}));
  EXPECT_EQ(plan.Next({Busy("1")}, 2, At(4)).submit, 2u);
}

TEST(PoolPlan, GivesClientsTimeToNoticeAWorker) {
  PoolPlan plan(Limits(1, 4));
  EXPECT_EQ(plan.Next({Busy("1"), Idle("2")}, 1, At(0)).submit, 0u);
  EXPECT_EQ(plan.Next({Busy("1"), Idle("2")}, 2, At(6)).submit, 1u);
  // Clients have had the time.
  EXPECT_EQ(plan.Next({Busy("1"), Idle("2")}, 1, At(7)).submit, 2u);
}

TEST(PoolPlan, DrainsWhatHasBeenIdleForLongEnoughAndNothingElse) {
  PoolPlan plan(Limits(1, 4));
  plan.Next({Idle("1"), Idle("2"), Busy("3")}, 0, At(0));
  EXPECT_EQ(plan.Next({Idle("1"), Busy("2"), Idle("3")}, 0, At(9)).drain, Ids());
  EXPECT_EQ(plan.Next({Idle("1"), Idle("2"), Idle("3")}, 0, At(10)).drain, Ids{"1"});
  // It counts no more, and is not told again; another one has been idle since then only.
  EXPECT_EQ(plan.Next({Idle("1"), Idle("2"), Idle("3")}, 0, At(12)).drain, Ids());
  EXPECT_EQ(plan.Next({Idle("2"), Idle("3")}, 0, At(19)).drain, Ids{"3"});
  EXPECT_EQ(plan.Next({Idle("2")}, 0, At(100)).drain, Ids());
}

TEST(PoolPlan, DrainsNothingWhileLeasesWait) {
  PoolPlan plan(Limits(1, 2));
  plan.Next({Idle("1"), Idle("2")}, 0, At(0));
  EXPECT_EQ(plan.Next({Idle("1"), Idle("2")}, 1, At(20)).drain, Ids());
  EXPECT_EQ(plan.Next({Idle("1"), Idle("2")}, 0, At(21)).drain, Ids{"1"});
}

TEST(PoolPlan, AJobThatCouldNotBeToldCountsAgain) {
  PoolPlan plan(Limits(1, 2));
  plan.Next({Idle("1"), Idle("2")}, 0, At(0));
  EXPECT_EQ(plan.Next({Idle("1"), Idle("2")}, 0, At(10)).drain, Ids{"1"});
  plan.DrainFailed("1");
  EXPECT_EQ(plan.Next({Idle("1"), Idle("2")}, 0, At(11)).drain, Ids{"1"});
}

TEST(PoolPlan, PausesLongerEachTimeThatJobsEndBeforeTheirWorkersWereThere) {
  PoolPlan plan(Limits(1, 2));
  EXPECT_EQ(plan.Next({}, 0, At(0)).submit, 1u);
  plan.Next({Coming("1")}, 0, At(1));
  PoolStep step = plan.Next({}, 0, At(2));
  EXPECT_EQ(step.failed, Ids{"1"});
  EXPECT_EQ(step.submit, 0u);
  EXPECT_EQ(step.pause, absl::Seconds(2));
  EXPECT_EQ(plan.Next({}, 0, At(4)).submit, 1u);
  plan.Next({Coming("2")}, 0, At(5));
  EXPECT_EQ(plan.Next({}, 0, At(6)).pause, absl::Seconds(4));
  // One that was there ends that.
  plan.Next({Idle("3")}, 0, At(20));
  plan.Next({Idle("3"), Coming("4")}, 0, At(21));
  EXPECT_EQ(plan.Next({Idle("3")}, 0, At(22)).pause, absl::Seconds(2));
}

TEST(PoolPlan, AJobThatIsGoneBeforeItIsSeenHasFailed) {
  PoolPlan plan(Limits(1, 2));
  EXPECT_EQ(plan.Next({}, 0, At(0)).submit, 1u);
  plan.Submitted("1");
  const PoolStep step = plan.Next({}, 0, At(1));
  EXPECT_EQ(step.failed, Ids{"1"});
  EXPECT_EQ(step.submit, 0u);
}

TEST(PoolPlan, AWorkerThatEndsByItselfIsNoFailure) {
  PoolPlan plan(Limits(1, 2));
  plan.Next({Idle("1")}, 0, At(0));
  const PoolStep step = plan.Next({}, 0, At(1));
  EXPECT_EQ(step.failed, Ids());
  EXPECT_EQ(step.submit, 1u);
}

}  // namespace
}  // namespace invoker::launch
