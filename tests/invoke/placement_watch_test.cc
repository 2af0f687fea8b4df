// When a session's methods are tried again.

#include "src/invoke/session/driver/placement_watch.h"

#include "gtest/gtest.h"

namespace invoker {
namespace {

TEST(PlacementWatchTest, WithoutAMeasurementOneIsDue) {
  PlacementWatch watch;
  EXPECT_TRUE(watch.Look({1, 2}));
  EXPECT_TRUE(watch.Look({1, 2}));
}

TEST(PlacementWatchTest, NothingIsDueWhereItWasMade) {
  PlacementWatch watch;
  watch.Measured({1, 2});
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(watch.Look({1, 2}));
}

TEST(PlacementWatchTest, AChangeOfEitherEndCountsWhenItIsSeenTwice) {
  for (const Placement& other : {Placement{3, 2}, Placement{1, 3}}) {
    PlacementWatch watch;
    watch.Measured({1, 2});
    EXPECT_FALSE(watch.Look(other));
    EXPECT_TRUE(watch.Look(other));
    watch.Measured(other);
    EXPECT_FALSE(watch.Look(other));
    EXPECT_FALSE(watch.Look({1, 2}));
    EXPECT_TRUE(watch.Look({1, 2}));
  }
}

TEST(PlacementWatchTest, AThreadThatComesBackHasNotMoved) {
  PlacementWatch watch;
  watch.Measured({1, 2});
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(watch.Look({3, 2}));
    EXPECT_FALSE(watch.Look({1, 2}));
  }
}

TEST(PlacementWatchTest, AThreadThatWandersHasNotMoved) {
  PlacementWatch watch;
  watch.Measured({0, 1});
  for (int i = 1; i < 20; ++i) EXPECT_FALSE(watch.Look({i, 1}));
}

}  // namespace
}  // namespace invoker
