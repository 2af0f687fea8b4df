// When a path is called broken, and when not.

#include "src/invoke/path_check.h"

#include "gtest/gtest.h"

namespace invoker {
namespace {

using bootstrap::RequestState;
using Verdict = PathCheck::Verdict;

// A session that is looked at five times a second, at a patience of 300 ms.
class PathCheckTest : public testing::Test {
 protected:
  static constexpr int64_t kStepNs = 200'000'000;

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

  // Looks until it is broken; 0 if it is not within 100 looks.
  int LooksUntilBroken(const absl::StatusOr<RequestState>& state) {
    for (int looks = 1; looks <= 100; ++looks) {
      if (Look(state) == Verdict::kBroken) return looks;
    }
    return 0;
  }

  PathCheck check_{absl::Milliseconds(300)};
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

TEST_F(PathCheckTest, RequestsThatDoNotArriveBreakItWithinASecond) {
  ++view_.answers;
  const int looks = LooksUntilBroken(RequestState::kNotArrived);
  EXPECT_GT(looks, 0);
  EXPECT_LE(looks * kStepNs, 1'000'000'000);
  EXPECT_NE(check_.symptom(), "");
}

TEST_F(PathCheckTest, AnswersThatDoNotArriveBreakItWithinASecond) {
  ++view_.answers;
  const int looks = LooksUntilBroken(RequestState::kAnswered);
  EXPECT_GT(looks, 0);
  EXPECT_LE(looks * kStepNs, 1'000'000'000);
}

TEST_F(PathCheckTest, AFunctionMayTakeAsLongAsItLikes) {
  EXPECT_EQ(LooksUntilBroken(RequestState::kInHand), 0);
  EXPECT_GT(asked_, 0);
}

TEST_F(PathCheckTest, AWorkerThatDoesNotAnswerIsTheHeartbeatsAffair) {
  EXPECT_EQ(LooksUntilBroken(absl::UnavailableError("nobody")), 0);
}

// As one says whose bootstrap has too much to do.
TEST_F(PathCheckTest, AWorkerThatRefusesToAnswerTakesBackNothing) {
  const absl::Status refused = absl::ResourceExhaustedError("too many requests at a time");
  for (const RequestState state : {RequestState::kNotArrived, RequestState::kAnswered}) {
    check_ = PathCheck(absl::Milliseconds(300));
    ++view_.answers;
    Verdict verdict = Verdict::kFine;
    for (int looks = 0; looks < 20 && verdict == Verdict::kFine; ++looks) {
      verdict = looks % 2 == 0 ? Look(refused) : Look(state);
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
  check_ = PathCheck(absl::Milliseconds(300));
  view_.bytes = 10 * PathCheck::kLeastBytesPerSecond;
  const int large = LooksUntilBroken(RequestState::kAnswered);
  EXPECT_GE((large - small) * kStepNs, 9'000'000'000);
}

TEST_F(PathCheckTest, WithoutAPeerTimeoutItIsPatient) {
  check_ = PathCheck(absl::InfiniteDuration());
  EXPECT_EQ(LooksUntilBroken(RequestState::kNotArrived), 0);
  EXPECT_EQ(LooksUntilBroken(RequestState::kAnswered), 0);
}

}  // namespace
}  // namespace invoker
