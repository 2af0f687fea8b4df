#include "src/transport/reactor/driver_turn.h"

#include "gtest/gtest.h"

namespace invoker::transport {
namespace {

// The turns until a slow one, that one included.
uint32_t TurnsUntilSlow(DriverTurn* turn) {
  for (uint32_t turns = 1;; ++turns) {
    turn->Begin();
    if (turn->End()) return turns;
  }
}

TEST(DriverTurn, FirstTurnIsSlowAndThenOneInSoMany) {
  DriverTurn turn;
  EXPECT_EQ(TurnsUntilSlow(&turn), 1u);
  EXPECT_EQ(TurnsUntilSlow(&turn), DriverTurn::kTurnsPerSlowTurn);
  EXPECT_EQ(TurnsUntilSlow(&turn), DriverTurn::kTurnsPerSlowTurn);
}

TEST(DriverTurn, TurnAfterASleepIsSlow) {
  DriverTurn turn;
  EXPECT_EQ(TurnsUntilSlow(&turn), 1u);
  turn.MakeNextSlow();
  EXPECT_EQ(TurnsUntilSlow(&turn), 1u);
  EXPECT_EQ(TurnsUntilSlow(&turn), DriverTurn::kTurnsPerSlowTurn);
}

TEST(DriverTurn, TicksAreApart) {
  DriverTurn turn;
  EXPECT_TRUE(turn.TakeTick(1000));
  EXPECT_FALSE(turn.TakeTick(1000 + DriverTurn::kTickNs - 1));
  EXPECT_TRUE(turn.TakeTick(1000 + DriverTurn::kTickNs));
  EXPECT_FALSE(turn.TakeTick(1001 + DriverTurn::kTickNs));
}

}  // namespace
}  // namespace invoker::transport
