#include "src/isolation/spawner/template_restart.h"

#include <gtest/gtest.h>

namespace invoker {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

TEST(TemplateRestart, NothingIsDueWhileATemplateLives) {
  TemplateRestart restart;
  restart.OnStarted(kStart);
  EXPECT_FALSE(restart.is_late(kStart + absl::Hours(1)));
  EXPECT_FALSE(restart.TakeStart(kStart + absl::Hours(1), absl::Seconds(1)));
  EXPECT_EQ(restart.next(), absl::InfiniteFuture());
}

TEST(TemplateRestart, StartsOnceAfterThePause) {
  TemplateRestart restart;
  restart.OnStarted(kStart);
  const absl::Duration pause = restart.OnLost(kStart);
  EXPECT_EQ(pause, TemplateRestart::kFirstPause);
  EXPECT_EQ(restart.next(), kStart + pause);
  EXPECT_FALSE(restart.TakeStart(kStart, absl::Seconds(1)));
  EXPECT_TRUE(restart.TakeStart(kStart + pause, absl::Seconds(1)));
  EXPECT_FALSE(restart.TakeStart(kStart + pause, absl::Seconds(1)));
}

TEST(TemplateRestart, ATemplateThatIsNotReadyInTimeIsLate) {
  TemplateRestart restart;
  const absl::Time at = kStart + restart.OnLost(kStart);
  ASSERT_TRUE(restart.TakeStart(at, absl::Seconds(1)));
  EXPECT_EQ(restart.next(), at + absl::Seconds(1));
  EXPECT_FALSE(restart.is_late(at));
  EXPECT_TRUE(restart.is_late(at + absl::Seconds(1)));
  restart.OnPrepared();
  EXPECT_FALSE(restart.is_late(at + absl::Seconds(1)));
}

TEST(TemplateRestart, PausesDoubleUntilATemplateHasLivedForAWhile) {
  TemplateRestart restart;
  absl::Time now = kStart;
  absl::Duration last;
  for (int i = 0; i < 20; ++i) {
    restart.OnStarted(now);
    const absl::Duration pause = restart.OnLost(now);
    EXPECT_GE(pause, last);
    EXPECT_LE(pause, TemplateRestart::kLongestPause);
    last = pause;
  }
  EXPECT_EQ(last, TemplateRestart::kLongestPause);
  restart.OnStarted(now);
  now += TemplateRestart::kSettled + absl::Seconds(1);
  EXPECT_EQ(restart.OnLost(now), TemplateRestart::kFirstPause);
}

}  // namespace
}  // namespace invoker
