// When a path is called broken, and when not.

#include "src/invoke/session/path_check.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace invoker {
namespace {

using bootstrap::RequestState;
using Verdict = PathCheck::Verdict;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kPeerTimeoutNs = 1000 * kMs;

// A session that is looked at as often as one with that peer timeout is.
class PathCheckTest : public testing::Test {
 protected:
  static constexpr int64_t kStepNs =
      kPeerTimeoutNs / (bootstrap::kHeartbeatsPerTimeout * bootstrap::kLooksPerHeartbeat);

  // The next look, at which a worker that is asked says `state`.
  Verdict Look(const absl::StatusOr<RequestState>& state) {
    now_ns_ += kStepNs;
    Verdict verdict;
    const std::optional<uint64_t> sequence = check_.Look(view_, now_ns_, &verdict);
    ++view_.turns;
    if (!sequence.has_value()) return verdict;
    ++asked_;
    return check_.Answered(*sequence, state, now_ns_ + 1'000'000);
  }

  // Looks until it is broken; 0 if it is not within 200 looks.
  int LooksUntilBroken(const absl::StatusOr<RequestState>& state) {
    for (int looks = 1; looks <= 200; ++looks) {
      if (Look(state) == Verdict::kBroken) return looks;
    }
    return 0;
  }

  // How long after a failure the path is called broken if an answer had come just before it, and a
  // look had been just before that; the worker takes so long to say `state`.
  int64_t NsUntilBroken(RequestState state, int64_t worker_takes_ns) {
    int64_t told_ns = INT64_MAX;
    uint64_t sequence = 0;
    ++view_.answers;
    for (int64_t since_ns = kStepNs; since_ns < 10 * kPeerTimeoutNs; since_ns += kStepNs) {
      if (told_ns <= since_ns) {
        if (check_.Answered(sequence, state, now_ns_ + told_ns) == Verdict::kBroken) return told_ns;
        told_ns = INT64_MAX;
      }
      Verdict verdict;
      const std::optional<uint64_t> asked = check_.Look(view_, now_ns_ + since_ns, &verdict);
      ++view_.turns;
      if (verdict == Verdict::kBroken) return since_ns;
      if (!asked.has_value()) continue;
      sequence = *asked;
      told_ns = since_ns + worker_takes_ns;
    }
    return INT64_MAX;
  }

  PathCheck check_ = PathCheck::Within(absl::Nanoseconds(kPeerTimeoutNs));
  PathView view_ = [] {
    PathView view;
    view.turns = 1;
    view.under_way = true;
    view.oldest = 7;
    return view;
  }();
  int64_t now_ns_ = 1'000'000'000;
  int asked_ = 0;
};

// The rest of the time is for those who have to be told, on a machine that others use. A worker
// whose executor runs functions takes 0.1 s to say what it knows.
TEST_F(PathCheckTest, WhatIsLostBreaksItWithinFourFifthsOfThePeerTimeout) {
  for (const RequestState state : {RequestState::kNotArrived, RequestState::kAnswered}) {
    for (const int64_t worker_takes_ns : {kMs, 60 * kMs, 110 * kMs}) {
      check_ = PathCheck::Within(absl::Nanoseconds(kPeerTimeoutNs));
      view_.bytes = PathCheck::kLeastBytesPerSecond / 10;
      EXPECT_LE(NsUntilBroken(state, worker_takes_ns), kPeerTimeoutNs * 4 / 5) << worker_takes_ns;
      EXPECT_NE(check_.symptom(), "");
    }
  }
}

// From the look that found the last answer, or from when the worker first said that it had
// answered.
TEST_F(PathCheckTest, WhatIsSlowHasItsPatience) {
  constexpr auto kPatienceNs = static_cast<int64_t>(PathCheck::kPatience * kPeerTimeoutNs);
  for (const int64_t worker_takes_ns : {kMs, 60 * kMs, 110 * kMs}) {
    check_ = PathCheck::Within(absl::Nanoseconds(kPeerTimeoutNs));
    EXPECT_GE(NsUntilBroken(RequestState::kNotArrived, worker_takes_ns), kStepNs + kPatienceNs);
    check_ = PathCheck::Within(absl::Nanoseconds(kPeerTimeoutNs));
    EXPECT_GE(NsUntilBroken(RequestState::kAnswered, worker_takes_ns),
              2 * kStepNs + worker_takes_ns + kPatienceNs);
  }
}

// A client that was stopped finds what has come meanwhile at a look after that.
TEST_F(PathCheckTest, TimeInWhichNobodyLooksIsNotCounted) {
  const int looks = LooksUntilBroken(RequestState::kAnswered);
  ASSERT_GT(looks, 2);
  check_ = PathCheck::Within(absl::Nanoseconds(kPeerTimeoutNs));
  for (int i = 1; i < looks; ++i) EXPECT_EQ(Look(RequestState::kAnswered), Verdict::kFine);
  now_ns_ += 10 * kPeerTimeoutNs;
  EXPECT_EQ(Look(RequestState::kAnswered), Verdict::kFine);
  EXPECT_EQ(Look(RequestState::kAnswered), Verdict::kBroken);
}

TEST_F(PathCheckTest, AFunctionMayTakeAsLongAsItLikes) {
  EXPECT_EQ(LooksUntilBroken(RequestState::kInHand), 0);
  EXPECT_GT(asked_, 0);
}

TEST_F(PathCheckTest, TheWorkerIsAskedOnceForEachHeartbeatAtMost) {
  constexpr int kLooks = 200;
  for (int i = 0; i < kLooks; ++i) {
    // Answers that come now and then ask for no haste.
    if (i % 7 == 0) ++view_.answers;
    EXPECT_EQ(Look(RequestState::kInHand), Verdict::kFine);
  }
  EXPECT_GT(asked_, kLooks / 7);
  EXPECT_LE(asked_, kLooks / bootstrap::kLooksPerHeartbeat);
}

TEST_F(PathCheckTest, AWorkerThatDoesNotAnswerIsTheHeartbeatsAffair) {
  EXPECT_EQ(LooksUntilBroken(absl::UnavailableError("nobody")), 0);
}

// A worker says so whose bootstrap has too much to do.
TEST_F(PathCheckTest, AWorkerThatRefusesToAnswerTakesBackNothing) {
  const absl::Status refused = absl::ResourceExhaustedError("too many requests at a time");
  for (const RequestState state : {RequestState::kNotArrived, RequestState::kAnswered}) {
    check_ = PathCheck::Within(absl::Nanoseconds(kPeerTimeoutNs));
    ++view_.answers;
    Verdict verdict = Verdict::kFine;
    for (int looks = 0; looks < 40 && verdict == Verdict::kFine; ++looks) {
      verdict = asked_ % 2 == 0 ? Look(refused) : Look(state);
    }
    EXPECT_EQ(verdict, Verdict::kBroken);
  }
}

TEST_F(PathCheckTest, NobodyIsAskedWhileAnswersCome) {
  for (int i = 0; i < 50; ++i) {
    ++view_.answers;
    EXPECT_EQ(Look(RequestState::kNotArrived), Verdict::kFine);
  }
  EXPECT_EQ(asked_, 0);
}

TEST_F(PathCheckTest, NobodyIsAskedWithoutCalls) {
  view_.under_way = false;
  EXPECT_EQ(LooksUntilBroken(RequestState::kNotArrived), 0);
  EXPECT_EQ(asked_, 0);
}

TEST_F(PathCheckTest, AReactorThatNobodyPollsSeesNothingCome) {
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Look(RequestState::kAnswered), Verdict::kFine);
    --view_.turns;
  }
}

TEST_F(PathCheckTest, ARequestThatArrivedLateIsNotLost) {
  EXPECT_EQ(Look(RequestState::kNotArrived), Verdict::kFine);
  EXPECT_EQ(Look(RequestState::kNotArrived), Verdict::kFine);
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(LooksUntilBroken(RequestState::kInHand), 0);
}

TEST_F(PathCheckTest, AnotherOldestRequestIsProgress) {
  for (int i = 0; i < 50; ++i) {
    ++view_.oldest;
    EXPECT_EQ(Look(RequestState::kAnswered), Verdict::kFine) << i;
  }
}

TEST_F(PathCheckTest, LargeMessagesHaveTheTimeThatTheirBytesTake) {
  const int small = LooksUntilBroken(RequestState::kAnswered);
  check_ = PathCheck::Within(absl::Nanoseconds(kPeerTimeoutNs));
  view_.bytes = 10 * PathCheck::kLeastBytesPerSecond;
  const int large = LooksUntilBroken(RequestState::kAnswered);
  EXPECT_GE((large - small) * kStepNs, 9'000'000'000);
}

TEST_F(PathCheckTest, WithoutAPeerTimeoutItIsPatient) {
  check_ = PathCheck::Within(absl::InfiniteDuration());
  EXPECT_EQ(LooksUntilBroken(RequestState::kNotArrived), 0);
  EXPECT_EQ(LooksUntilBroken(RequestState::kAnswered), 0);
}

}  // namespace
}  // namespace invoker
