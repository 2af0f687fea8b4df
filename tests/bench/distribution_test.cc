#include "bench/harness/distribution.h"

#include <gtest/gtest.h>

namespace invoker::bench {
namespace {

std::vector<int64_t> Microseconds(int first, int last) {
  std::vector<int64_t> result;
  for (int i = last; i >= first; --i) result.push_back(1000 * i);
  return result;
}

TEST(DistributionTest, NothingGivesZeros) {
  EXPECT_EQ(Summarize({}).samples, 0u);
  EXPECT_EQ(Summarize({{}, {}}).max, 0);
  EXPECT_EQ(Compare({}, {}, 50).median, 0);
}

TEST(DistributionTest, PercentilesAreOverAllRoundsAndOccurred) {
  const Distribution all = Summarize({Microseconds(1, 1000), Microseconds(1001, 2000)});
  EXPECT_EQ(all.samples, 2000u);
  EXPECT_EQ(all.min, 1);
  EXPECT_EQ(all.p50, 1000);
  EXPECT_EQ(all.p90, 1800);
  EXPECT_EQ(all.p99, 1980);
  EXPECT_EQ(all.p999, 1998);
  EXPECT_EQ(all.max, 2000);
}

TEST(DistributionTest, RoundsAreComparedByTheirMedians) {
  const Distribution all =
      Summarize({Microseconds(1, 3), {}, Microseconds(11, 13), Microseconds(5, 7)});
  EXPECT_EQ(all.lowest_round, 2);
  EXPECT_EQ(all.highest_round, 12);
}

TEST(DistributionTest, RankIsRoundedUpAndStaysInside) {
  const std::vector<int64_t> three = {1, 2, 3};
  EXPECT_EQ(Percentile(three, 0), 1);
  EXPECT_EQ(Percentile(three, 33), 1);
  EXPECT_EQ(Percentile(three, 34), 2);
  EXPECT_EQ(Percentile(three, 99), 3);
  EXPECT_EQ(Percentile(three, 100), 3);
  EXPECT_EQ(Percentile({7}, 50), 7);
}

TEST(DistributionTest, RatioIsTakenRoundByRound) {
  // A machine that is ten times slower in one round is so for both.
  const Ratio ratio = Compare({{110, 110}, {2200, 2200}, {130, 130}}, {{100}, {1000}, {100}}, 50);
  EXPECT_DOUBLE_EQ(ratio.median, 1.3);
  EXPECT_DOUBLE_EQ(ratio.lowest, 1.1);
  EXPECT_DOUBLE_EQ(ratio.highest, 2.2);
}

TEST(DistributionTest, MedianOfAnEvenNumberOfRatiosIsBetweenTheMiddleTwo) {
  EXPECT_DOUBLE_EQ(Compare({{100}, {200}}, {{100}, {100}}, 50).median, 1.5);
}

TEST(DistributionTest, RatioUsesThePercentileAsked) {
  const std::vector<int64_t> tail = {100, 100, 100, 100, 500};
  const std::vector<int64_t> flat = {100, 100, 100, 100, 100};
  EXPECT_DOUBLE_EQ(Compare({tail}, {flat}, 50).median, 1);
  EXPECT_DOUBLE_EQ(Compare({tail}, {flat}, 99).median, 5);
}

TEST(DistributionTest, RoundsWithoutACounterpartAreLeftOut) {
  const Ratio ratio = Compare({{}, {300}, {400}}, {{100}, {100}}, 50);
  EXPECT_DOUBLE_EQ(ratio.lowest, 3);
  EXPECT_DOUBLE_EQ(ratio.highest, 3);
}

}  // namespace
}  // namespace invoker::bench
