#include "src/log/log_throttle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/log/captured_log.h"

namespace invoker {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(LogThrottleTest, WhatIsLeftOutIsCounted) {
  const CapturedLog log;
  LogThrottle throttle("ends", 2, absl::Seconds(10));
  const absl::Time start = absl::UnixEpoch();
  for (int i = 0; i < 1000; ++i) {
    throttle.Log(LogLevel::kInfo, "an end", {}, start + absl::Milliseconds(i));
  }
  EXPECT_THAT(log.messages(), ElementsAre("an end", "an end"));
  throttle.Log(LogLevel::kInfo, "a later end", {}, start + absl::Seconds(10));
  throttle.Finish();
  EXPECT_THAT(log.messages(),
              ElementsAre("an end", "an end", "ends, not written one by one: 998", "a later end"));
}

TEST(LogThrottleTest, TheLastOnesAreToldAtTheEnd) {
  const CapturedLog log;
  LogThrottle throttle("ends");
  for (int i = 0; i < 23; ++i) throttle.Log(LogLevel::kInfo, "an end", {}, absl::UnixEpoch());
  throttle.Finish();
  EXPECT_THAT(log.messages(), SizeIs(21));
  EXPECT_THAT(log.messages(), Contains("ends, not written one by one: 3"));
}

TEST(LogThrottleTest, WhatIsBelowTheLevelTakesNobodysPlace) {
  const CapturedLog log;
  LogThrottle throttle("ends", 1);
  for (int i = 0; i < 5; ++i) throttle.Log(LogLevel::kDebug, "unseen", {}, absl::UnixEpoch());
  throttle.Log(LogLevel::kError, "an error", {}, absl::UnixEpoch());
  throttle.Finish();
  EXPECT_THAT(log.messages(), ElementsAre("an error"));
}

// A clock that is set back must not silence the log until it has caught up.
TEST(LogThrottleTest, AClockThatIsSetBackBeginsAnew) {
  const CapturedLog log;
  LogThrottle throttle("ends", 1);
  throttle.Log(LogLevel::kInfo, "an end", {}, absl::UnixEpoch());
  throttle.Log(LogLevel::kInfo, "before", {}, absl::UnixEpoch() - absl::Hours(1));
  EXPECT_THAT(log.messages(), Contains("before"));
}

}  // namespace
}  // namespace invoker
