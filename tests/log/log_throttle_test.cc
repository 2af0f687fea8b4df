#include "tools/log_throttle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace invoker::tools {
namespace {

using ::testing::Contains;
using ::testing::SizeIs;

TEST(LogThrottleTest, WhatIsLeftOutIsCounted) {
  std::vector<std::string> lines;
  LogThrottle log("ends", [&lines](absl::string_view line) { lines.emplace_back(line); });
  const absl::Time start = absl::UnixEpoch();
  for (int i = 0; i < 1000; ++i) log.Log("an end", start + absl::Milliseconds(i));
  EXPECT_THAT(lines, SizeIs(LogThrottle::kLines));
  log.Log("a later end", start + LogThrottle::kStretch);
  EXPECT_EQ(lines[LogThrottle::kLines], "ends, not written one by one: 980");
  EXPECT_EQ(lines[LogThrottle::kLines + 1], "a later end");
  log.Finish();
  EXPECT_THAT(lines, SizeIs(LogThrottle::kLines + 2));
}

TEST(LogThrottleTest, TheLastOnesAreToldAtTheEnd) {
  std::vector<std::string> lines;
  LogThrottle log("ends", [&lines](absl::string_view line) { lines.emplace_back(line); });
  for (uint32_t i = 0; i < LogThrottle::kLines + 3; ++i) log.Log("an end", absl::UnixEpoch());
  log.Finish();
  EXPECT_THAT(lines, Contains("ends, not written one by one: 3"));
}

// A clock that is set back must not silence the log until it has caught up.
TEST(LogThrottleTest, AClockThatIsSetBackBeginsAnew) {
  std::vector<std::string> lines;
  LogThrottle log("ends", [&lines](absl::string_view line) { lines.emplace_back(line); });
  for (uint32_t i = 0; i < LogThrottle::kLines; ++i) log.Log("an end", absl::UnixEpoch());
  log.Log("before", absl::UnixEpoch() - absl::Hours(1));
  EXPECT_THAT(lines, Contains("before"));
}

}  // namespace
}  // namespace invoker::tools
