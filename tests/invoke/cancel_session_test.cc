// One session's two halves, and calls that end for their callers before their responses have come.

#include <string>

#include "gtest/gtest.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

class CancelSessionTest : public testing::TestWithParam<Way> {
 protected:
  static void Cancel(SessionPair* pair, Call* call) {
    pair->client().EndEarly(call, absl::StatusCode::kCancelled, "cancelled by the test");
  }
  static absl::string_view Fate(const Call& call) { return CallFateName(GetCallFate(call.status)); }
  // Whether nothing of it was refused by the provider, to be posted again later.
  static bool FlushPosts(SessionPair* pair) {
    const uint64_t refused = pair->client_reactor().counters().posts_refused;
    pair->client().Flush();
    return pair->client_reactor().counters().posts_refused == refused;
  }
  // The first of two posts may have left without the second.
  static void ExpectFate(const Call& call, bool left) {
    const std::string fate(Fate(call));
    const bool two = GetParam().notification == Notification::kSendAfterWrite && !GetParam().eager;
    if (left || !two) {
      EXPECT_EQ(fate, left ? "maybe_executed" : "not_sent");
    } else {
      EXPECT_TRUE(fate == "maybe_executed" || fate == "not_sent") << fate;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, CancelSessionTest, testing::ValuesIn(kWays), NameOfWay);

TEST_P(CancelSessionTest, WhatHasNotLeftIsNotSentAndNeverRuns) {
  SessionPair pair(GetParam(), {});
  Call* call = pair.StartEcho("stays here", 64);
  Cancel(&pair, call);
  EXPECT_EQ(call->status.code(), absl::StatusCode::kCancelled) << call->status;
  EXPECT_EQ(Fate(*call), "not_sent");
  pair.client().Finish(call, false);
  EXPECT_FALSE(pair.AllFree());
  // It leaves all the same, since its cells come back with its response.
  EXPECT_TRUE(pair.Until([&] { return pair.AllFree(); }));
  EXPECT_EQ(pair.functions.calls, 0u);
  EXPECT_EQ(pair.executor().counters().refused, 1u);
  EXPECT_EQ(TotalDrops(pair.executor().counters().dropped), 0u);
  pair.CheckEcho("goes on");
}

TEST_P(CancelSessionTest, OneOfSeveralThatLeaveTogetherIsCancelledAlone) {
  SessionPair pair(GetParam(), {});
  Call* first = pair.StartEcho("first", 5);
  Call* second = pair.StartEcho("second", 6);
  Call* third = pair.StartEcho("third", 5);
  Cancel(&pair, second);
  ASSERT_TRUE(pair.UntilEnded(first));
  ASSERT_TRUE(pair.UntilEnded(third));
  EXPECT_EQ(pair.Text(*first), "first");
  EXPECT_EQ(pair.Text(*third), "third");
  EXPECT_EQ(pair.functions.calls, 2u);
  for (Call* call : {first, second, third}) pair.client().Finish(call, false);
  EXPECT_TRUE(pair.Until([&] { return pair.AllFree(); }));
}

// The executor takes no turn in between, so that its turn comes with the mark there.
TEST_P(CancelSessionTest, WhatHasLeftIsMarkedInTheExecutorsWindow) {
  SessionPair pair(GetParam(), {});
  pair.CheckEcho("the fabric is connected");
  for (int i = 0; i < 50; ++i) {
    const uint64_t before = pair.functions.calls + pair.executor().counters().refused;
    Call* call = pair.StartEcho("marked", 64);
    const bool left = FlushPosts(&pair);
    Cancel(&pair, call);
    ExpectFate(*call, left);
    pair.client().Finish(call, false);
    ASSERT_TRUE(pair.Until([&] { return pair.AllFree(); }));
    // Once, whichever of the two was first.
    EXPECT_EQ(pair.functions.calls + pair.executor().counters().refused, before + 1);
    pair.CheckEcho("call " + std::to_string(i));
  }
  EXPECT_EQ(TotalDrops(pair.executor().counters().dropped), 0u);
  EXPECT_EQ(pair.client().failure(), absl::OkStatus());
}

// What stands in the place of a message that has been cancelled is never written to by its mark.
TEST_P(CancelSessionTest, CellsAreNotUsedAgainBeforeTheMarkHasLanded) {
  SessionPair::Options options;
  options.window_bytes = 4096;
  SessionPair pair(GetParam(), options);
  for (int i = 0; i < 200; ++i) {
    Call* call = pair.StartEcho(std::string(3000, 'x'), 3000);
    ASSERT_NE(call, nullptr);
    pair.client().Flush();
    if (i % 3 != 0) pair.PollExecutor();
    Cancel(&pair, call);
    pair.client().Finish(call, false);
    const std::string text(3000, static_cast<char>('a' + i % 26));
    Call* next = nullptr;
    ASSERT_TRUE(pair.Until([&] {
      next = pair.StartEcho(text, 3000);
      return next != nullptr;
    }));
    pair.client().Flush();
    ASSERT_TRUE(pair.UntilEnded(next));
    ASSERT_TRUE(next->status.ok()) << next->status;
    ASSERT_EQ(pair.Text(*next), text);
    pair.client().Finish(next, false);
  }
  EXPECT_TRUE(pair.Until([&] { return pair.AllFree(); }));
}

// The first post to a peer, while the provider connects, is refused on some fabrics, and tried
// again.
TEST_P(CancelSessionTest, WhatTheProviderHasRefusedSoFarHasNotLeft) {
  SessionPair pair(GetParam(), {});
  Call* call = pair.StartEcho("refused", 64);
  const bool refused = !FlushPosts(&pair);
  Cancel(&pair, call);
  ExpectFate(*call, !refused);
  pair.client().Finish(call, false);
  EXPECT_TRUE(pair.Until([&] { return pair.AllFree(); }));
  EXPECT_LE(pair.functions.calls, refused ? 0u : 1u);
}

TEST_P(CancelSessionTest, ADeadlineThatPassesBeforeTheRequestLeavesIsNotSent) {
  SessionPair pair(GetParam(), {});
  Call* call = pair.StartEcho("late", 64, kEcho, transport::MonotonicNs() + 1'000'000);
  while (!call->ended()) pair.client_reactor().Poll();  // and no Flush
  EXPECT_EQ(call->status.code(), absl::StatusCode::kDeadlineExceeded) << call->status;
  EXPECT_EQ(Fate(*call), "not_sent");
  pair.client().Finish(call, false);
  EXPECT_TRUE(pair.Until([&] { return pair.AllFree(); }));
  EXPECT_EQ(pair.functions.calls, 0u);
}

TEST_P(CancelSessionTest, ASessionThatEndsTellsWhatHasLeftFromWhatHasNot) {
  SessionPair pair(GetParam(), {});
  pair.CheckEcho("the fabric is connected");
  Call* left = pair.StartEcho("left", 64);
  const bool posted = FlushPosts(&pair);
  Call* stayed = pair.StartEcho("stayed", 64);
  pair.client().Fail(absl::UnavailableError("gone"));
  ExpectFate(*left, posted);
  EXPECT_EQ(Fate(*stayed), "not_sent");
  EXPECT_EQ(left->status.code(), absl::StatusCode::kUnavailable);
  for (int i = 0; i < 100; ++i) {
    pair.PollClient();
    pair.PollExecutor();
  }
  EXPECT_LE(pair.functions.calls, 2u);
}

}  // namespace
}  // namespace invoker
