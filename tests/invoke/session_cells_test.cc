#include "src/invoke/session/session_cells.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace invoker {
namespace {

TEST(SessionCellsTest, TheTwoWindowsAreApart) {
  SessionCells cells(4);
  const HeldCells request = cells.AllocateRequest(4);
  EXPECT_EQ(request.cells, 4u);
  EXPECT_EQ(cells.AllocateRequest(1).cells, 0u);
  EXPECT_EQ(cells.AllocateResponse(4).cells, 4u);
  EXPECT_EQ(cells.free_request_cells(), 0u);
  cells.FreeRequest(request);
  EXPECT_EQ(cells.free_request_cells(), 4u);
  EXPECT_EQ(cells.free_response_cells(), 0u);
}

TEST(SessionCellsTest, FreeingWakesEveryWaiter) {
  SessionCells cells(4);
  const HeldCells held = cells.AllocateResponse(1);
  CallWaiter first;
  CallWaiter second;
  cells.AddWaiter(&first);
  cells.AddWaiter(&second);
  cells.FreeResponse(held);
  // Each returns, although the limit is infinite.
  first.Wait(absl::InfiniteDuration());
  second.Wait(absl::InfiniteDuration());
  cells.RemoveWaiter(&first);
  cells.RemoveWaiter(&second);
  EXPECT_EQ(cells.frees(), 1u);
}

// Sixty-four responses of 1/64 of the window fit beside the answer of a probe that was late, too.
TEST(SessionCellsTest, ALateProbeDoesNotBreakUpTheWindow) {
  SessionCells cells(64 * 4);
  const HeldCells probe = cells.AllocateResponse(1, /*highest=*/true);
  const HeldCells request = cells.AllocateRequest(3, /*highest=*/true);
  for (int i = 0; i < 63; ++i) {
    ASSERT_EQ(cells.AllocateResponse(4).cells, 4u);
    ASSERT_EQ(cells.AllocateRequest(4).cells, 4u);
  }
  EXPECT_EQ(cells.AllocateResponse(4).cells, 0u);
  cells.FreeResponse(probe);
  cells.FreeRequest(request);
  EXPECT_EQ(cells.AllocateResponse(4).cells, 4u);
  EXPECT_EQ(cells.AllocateRequest(4).cells, 4u);
}

TEST(SessionCellsTest, FreeingTwiceIsCounted) {
  SessionCells cells(4);
  const HeldCells held = cells.AllocateRequest(2);
  cells.FreeRequest(held);
  EXPECT_EQ(cells.bad_frees(), 0u);
  cells.FreeRequest(held);
  EXPECT_EQ(cells.bad_frees(), 1u);
  EXPECT_EQ(cells.free_request_cells(), 4u);
}

}  // namespace
}  // namespace invoker
