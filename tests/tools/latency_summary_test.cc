#include "tools/latency_summary.h"

#include <gtest/gtest.h>

namespace invoker::tools {
namespace {

TEST(LatencySummaryTest, NothingGivesZeros) {
  std::vector<int64_t> none;
  const LatencySummary summary = Summarize(&none);
  EXPECT_EQ(summary.min_us, 0);
  EXPECT_EQ(summary.max_us, 0);
}

TEST(LatencySummaryTest, OneIsEverything) {
  std::vector<int64_t> one = {1500};
  const LatencySummary summary = Summarize(&one);
  EXPECT_EQ(summary.min_us, 1.5);
  EXPECT_EQ(summary.p50_us, 1.5);
  EXPECT_EQ(summary.p99_us, 1.5);
  EXPECT_EQ(summary.max_us, 1.5);
}

TEST(LatencySummaryTest, PercentilesAreLatenciesThatOccurred) {
  std::vector<int64_t> latencies;
  for (int64_t i = 200; i > 0; --i) latencies.push_back(1000 * i);
  const LatencySummary summary = Summarize(&latencies);
  EXPECT_EQ(summary.min_us, 1);
  EXPECT_EQ(summary.p50_us, 100);
  EXPECT_EQ(summary.p99_us, 198);
  EXPECT_EQ(summary.max_us, 200);
}

TEST(LatencySummaryTest, RanksAreRoundedUp) {
  std::vector<int64_t> three = {3000, 1000, 2000};
  const LatencySummary summary = Summarize(&three);
  EXPECT_EQ(summary.p50_us, 2);
  EXPECT_EQ(summary.p99_us, 3);
}

}  // namespace
}  // namespace invoker::tools
