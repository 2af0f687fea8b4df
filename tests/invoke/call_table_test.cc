#include "src/invoke/session/call_table.h"

#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace invoker {
namespace {

HeldCells Cell(uint32_t first) { return {first, 1}; }

TEST(CallTableTest, ACallIsFoundByItsResponseCellUntilItsResponseHasCome) {
  CallTable table(8, 1);
  Call* const call = table.Begin(Cell(3));
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->state, Call::State::kOutstanding);
  EXPECT_EQ(call->sequence, 1u);
  EXPECT_EQ(table.AtResponseCell(3), call);
  EXPECT_EQ(table.AtResponseCell(2), nullptr);
  EXPECT_EQ(table.outstanding(), 1u);
  table.ResponseHasCome(3);
  table.End(call);
  EXPECT_EQ(table.AtResponseCell(3), nullptr);
  EXPECT_TRUE(call->ended());
  EXPECT_EQ(table.outstanding(), 0u);
  table.Release(call);
  EXPECT_EQ(table.Begin(Cell(3)), call) << "its slot is free again";
}

TEST(CallTableTest, EveryBeginAndEndIsAChange) {
  CallTable table(8, 1);
  const uint64_t before = table.changes();
  Call* const call = table.Begin(Cell(0));
  const uint64_t begun = table.changes();
  EXPECT_NE(begun, before);
  table.End(call);
  EXPECT_NE(table.changes(), begun);
  EXPECT_NE(table.changes(), before);
}

TEST(CallTableTest, NoMoreCallsBeginThanAReplayCanBeToldFrom) {
  CallTable table(CallTable::kMostCalls + 1, 1);
  std::vector<Call*> calls;
  for (uint64_t i = 0; i < CallTable::kMostCalls; ++i) {
    ASSERT_FALSE(table.at_limit());
    calls.push_back(table.Begin(Cell(static_cast<uint32_t>(i))));
    ASSERT_NE(calls.back(), nullptr);
  }
  EXPECT_TRUE(table.at_limit());
  EXPECT_FALSE(table.MayBegin()) << "the first call waits still";
  EXPECT_EQ(table.Begin(Cell(CallTable::kMostCalls)), nullptr);
  table.End(calls[0]);
  table.Release(calls[0]);
  EXPECT_TRUE(table.MayBegin());
  EXPECT_FALSE(table.at_limit());
}

TEST(CallTableTest, ALateCallKeepsItsSlotUntilItsResponseComes) {
  CallTable table(8, 1);
  Call* const call = table.Begin(Cell(1));
  table.EndEarly(call, absl::DeadlineExceededError("late"));
  EXPECT_EQ(call->state, Call::State::kTimedOut);
  EXPECT_EQ(table.late(), 1u);
  EXPECT_EQ(table.outstanding(), 0u);
  table.Release(call);
  EXPECT_NE(table.Begin(Cell(2)), call);
  table.EndLate(call);
  EXPECT_EQ(table.late(), 0u);
  EXPECT_EQ(call->state, Call::State::kFree);
}

TEST(CallTableTest, OnlyOverdueCallsEnd) {
  CallTable table(8, 1);
  std::vector<Call*> calls;
  for (int64_t deadline_ns : {0, 100, 200}) {
    Call* const call = table.Begin(Cell(static_cast<uint32_t>(calls.size())));
    call->deadline_ns = deadline_ns;
    if (deadline_ns != 0) table.NoteDeadline(deadline_ns);
    calls.push_back(call);
  }
  std::vector<Call*> overdue;
  const auto end = [&](Call* call) {
    overdue.push_back(call);
    table.EndEarly(call, absl::DeadlineExceededError("late"));
  };
  table.EndOverdue(99, end);
  EXPECT_TRUE(overdue.empty());
  table.EndOverdue(150, end);
  EXPECT_EQ(overdue, std::vector<Call*>{calls[1]});
  table.EndOverdue(200, end);
  EXPECT_EQ(overdue, (std::vector<Call*>{calls[1], calls[2]}));
  EXPECT_EQ(calls[0]->state, Call::State::kOutstanding);
}

TEST(CallTableTest, ACallbackIsListedOnceItsCallHasEnded) {
  CallTable table(8, 1);
  Call* const call = table.Begin(Cell(0));
  call->on_done = [](absl::StatusOr<Response>) {};
  EXPECT_TRUE(table.finished().empty());
  table.End(call);
  EXPECT_EQ(table.finished(), std::vector<Call*>{call});
}

}  // namespace
}  // namespace invoker
