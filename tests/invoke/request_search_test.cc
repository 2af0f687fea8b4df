// What is said of a request that an executor has not seen, from how many passes it has made and
// from what it runs: no thread, no fabric, and nobody waits.

#include "src/invoke/executor/request_search.h"

#include <map>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace invoker {
namespace {

using bootstrap::RequestState;

constexpr uint32_t kEpoch = 7;
constexpr uint32_t kOther = 8;
constexpr uint16_t kFunction = 0;

class RequestSearchTest : public testing::Test {
 protected:
  // What is known at once.
  RequestState Ask(uint64_t sequence = 1) {
    return search_.Ask({0, kEpoch, 0}, sequence, watch_, absl::ZeroDuration(), [this] { ++woken_; })
        .value();
  }

  // The same of who waits, while so many passes are made: the last one is to tell.
  RequestState AskAndPass(uint32_t passes) {
    absl::Notification asked;
    RequestState answer{};
    std::thread asker([&] {
      answer =
          search_.Ask({0, kEpoch, 0}, 1, watch_, absl::Minutes(1), [&] { asked.Notify(); }).value();
    });
    asked.WaitForNotification();
    Pass(passes - 1);
    EXPECT_TRUE(search_.awaited());
    Pass(1);
    asker.join();
    EXPECT_FALSE(search_.awaited());
    return answer;
  }

  // The executor passes over its queues so often, and the session says `state_` each time.
  void Pass(uint32_t passes) {
    for (uint32_t i = 0; i < passes; ++i) {
      if (search_.idle()) return;
      search_.Look(
          [this](SessionKey session, uint64_t sequence) {
            EXPECT_EQ(session.epoch, kEpoch);
            last_sequence_ = sequence;
            ++looks_;
            return state_;
          },
          now_ns_);
    }
  }

  void Begin(uint32_t epoch) {
    watch_.Begin(ExecutorWatch::SessionOf(epoch), kFunction, ++executed_);
  }

  // The look that finds it first ends no pass of which it is known when it began.
  static constexpr uint32_t kFirstLook = 1;

  RequestSearch search_;
  ExecutorWatch watch_;
  absl::StatusOr<RequestState> state_ = RequestState::kNotArrived;
  int64_t now_ns_ = 1;  // long before every question: nothing is in a hurry
  uint64_t executed_ = 0;
  uint64_t last_sequence_ = 0;
  int looks_ = 0;
  int woken_ = 0;
};

TEST_F(RequestSearchTest, NobodyLooksBeforeAQuestion) {
  EXPECT_TRUE(search_.idle());
  EXPECT_FALSE(search_.awaited());
}

TEST_F(RequestSearchTest, WithoutPassesNothingIsKnown) {
  EXPECT_EQ(Ask(), RequestState::kInHand);
  EXPECT_EQ(woken_, 1);
  EXPECT_FALSE(search_.idle());
  EXPECT_FALSE(search_.awaited());
}

TEST_F(RequestSearchTest, AnIdleExecutorMakesEnoughPassesForEachQuestion) {
  EXPECT_EQ(AskAndPass(kFirstLook + RequestSearch::kEnoughPasses), RequestState::kNotArrived);
  EXPECT_EQ(AskAndPass(RequestSearch::kEnoughPasses), RequestState::kNotArrived);
}

TEST_F(RequestSearchTest, ABusyOneTakesTheNextMomentBetweenTwoFunctionsOnceThereWereTheLeast) {
  now_ns_ = transport::MonotonicNs() + 10'000'000'000;
  EXPECT_EQ(AskAndPass(kFirstLook + RequestSearch::kLeastPasses), RequestState::kNotArrived);
  now_ns_ = transport::MonotonicNs() + 10'000'000'000;
  EXPECT_EQ(AskAndPass(1), RequestState::kNotArrived);
}

// Back to back, so that one runs whenever anybody asks.
TEST_F(RequestSearchTest, FunctionsOfOthersOnlyMakeItTakeLonger) {
  Begin(kOther);
  EXPECT_EQ(Ask(), RequestState::kInHand);
  Pass(kFirstLook);
  for (uint32_t pass = 0; pass + 1 < RequestSearch::kLeastPasses; ++pass) {
    Begin(kOther);
    EXPECT_EQ(Ask(), RequestState::kInHand) << pass;
    Pass(1);
  }
  Begin(kOther);
  EXPECT_EQ(Ask(), RequestState::kInHand);
  Pass(1);
  EXPECT_EQ(Ask(), RequestState::kNotArrived);
  // However long this one takes.
  EXPECT_EQ(Ask(), RequestState::kNotArrived);
}

TEST_F(RequestSearchTest, AFunctionThatRunsSinceBeforeTheFirstQuestionHidesEverything) {
  Begin(kOther);
  for (int question = 0; question < 100; ++question) EXPECT_EQ(Ask(), RequestState::kInHand);
}

TEST_F(RequestSearchTest, AFunctionOfTheSessionItselfMayBeTheRequest) {
  EXPECT_EQ(Ask(), RequestState::kInHand);
  Pass(kFirstLook + RequestSearch::kLeastPasses);
  Begin(kEpoch);
  EXPECT_EQ(Ask(), RequestState::kInHand);
  Begin(kOther);
  EXPECT_EQ(Ask(), RequestState::kNotArrived);
}

TEST_F(RequestSearchTest, AnExecutorThatDoesNothingSaysNothing) {
  EXPECT_EQ(Ask(), RequestState::kInHand);
  Pass(kFirstLook + RequestSearch::kLeastPasses);
  EXPECT_EQ(Ask(), RequestState::kInHand);
}

TEST_F(RequestSearchTest, EachRequestIsLookedForByItself) {
  Begin(kOther);
  EXPECT_EQ(Ask(1), RequestState::kInHand);
  Pass(kFirstLook + RequestSearch::kLeastPasses);
  EXPECT_EQ(Ask(1), RequestState::kNotArrived);
  EXPECT_EQ(Ask(2), RequestState::kInHand);
  Pass(1);
  EXPECT_EQ(last_sequence_, 2u);
  EXPECT_EQ(Ask(2), RequestState::kInHand);
}

TEST_F(RequestSearchTest, ARequestThatCameLateIsInHand) {
  Begin(kOther);
  EXPECT_EQ(Ask(), RequestState::kInHand);
  Pass(kFirstLook + RequestSearch::kLeastPasses);
  state_ = RequestState::kInHand;
  Pass(1);
  EXPECT_TRUE(search_.idle());
  EXPECT_EQ(Ask(), RequestState::kInHand);
}

// What has been answered may not have left yet.
TEST_F(RequestSearchTest, AnAnswerHasItsPassesToLeave) {
  Begin(kOther);
  EXPECT_EQ(Ask(), RequestState::kInHand);
  Pass(kFirstLook + RequestSearch::kLeastPasses);
  state_ = RequestState::kAnswered;
  Pass(kFirstLook);
  EXPECT_EQ(Ask(), RequestState::kInHand);
  Pass(RequestSearch::kLeastPasses);
  EXPECT_EQ(Ask(), RequestState::kAnswered);
  // It ran, whatever of the session runs now.
  Begin(kEpoch);
  EXPECT_EQ(Ask(), RequestState::kAnswered);
  Pass(RequestSearch::kEnoughPasses);
  EXPECT_TRUE(search_.idle());
}

TEST_F(RequestSearchTest, ASessionThatHasEndedIsNotLookedForAgain) {
  EXPECT_EQ(Ask(), RequestState::kInHand);
  state_ = absl::NotFoundError("the session has ended");
  Pass(1);
  EXPECT_TRUE(search_.idle());
}

// Happens at a worker whose clients come, ask once and go.
TEST_F(RequestSearchTest, NothingStaysOfSessionsWhoseQuestionsWereAnswered) {
  for (const absl::StatusOr<RequestState>& state :
       {absl::StatusOr<RequestState>(RequestState::kInHand),
        absl::StatusOr<RequestState>(absl::NotFoundError("the session has ended")),
        absl::StatusOr<RequestState>(RequestState::kAnswered)}) {
    state_ = state;
    absl::Notification asked;
    absl::Notification told;
    std::thread asker([&] {
      search_.Ask({0, kEpoch, 0}, 1, watch_, absl::Minutes(1), [&] { asked.Notify(); })
          .IgnoreError();
      told.Notify();
    });
    asked.WaitForNotification();
    while (!told.HasBeenNotified()) Pass(1);
    asker.join();
    EXPECT_EQ(search_.cases(), 0u);
    EXPECT_TRUE(search_.idle());
  }
}

TEST_F(RequestSearchTest, HoweverManyAreAskedAboutALookIsShort) {
  constexpr uint32_t kSessions = 1000;
  for (uint32_t epoch = 0; epoch < kSessions; ++epoch) {
    search_.Ask({0, epoch, 0}, 1, watch_, absl::ZeroDuration(), [] {}).IgnoreError();
  }
  std::map<uint32_t, int> looks;
  const auto look = [&] {
    int now = 0;
    search_.Look(
        [&](SessionKey session, uint64_t) {
          ++looks[session.epoch];
          ++now;
          return RequestState::kNotArrived;
        },
        now_ns_);
    return now;
  };
  const int round = kSessions / RequestSearch::kCasesPerLook;
  for (int i = 0; i < 3 * round; ++i) {
    EXPECT_EQ(look(), static_cast<int>(RequestSearch::kCasesPerLook));
  }
  // Each in its turn.
  EXPECT_EQ(looks.size(), kSessions);
  for (const auto& [epoch, times] : looks) EXPECT_EQ(times, 3) << epoch;
  EXPECT_FALSE(search_.idle());
  now_ns_ = INT64_MAX;
  for (int i = 0; i < round; ++i) look();
  EXPECT_EQ(search_.cases(), 0u);
  EXPECT_TRUE(search_.idle());
}

TEST_F(RequestSearchTest, WhatNobodyAsksForAnyLongerIsForgotten) {
  EXPECT_EQ(Ask(), RequestState::kInHand);
  Pass(1);
  EXPECT_FALSE(search_.idle());
  now_ns_ = INT64_MAX;
  Pass(1);
  EXPECT_TRUE(search_.idle());
}

TEST(ExecutorWatch, KnowsWhoseRunItIs) {
  ExecutorWatch watch;
  EXPECT_FALSE(watch.Now().running());
  EXPECT_FALSE(watch.Now().Of(0));
  for (const uint32_t epoch : {0u, 1u, 0xffffu, 0xffffffffu}) {
    for (const uint64_t executed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 31, UINT64_MAX}) {
      watch.Begin(ExecutorWatch::SessionOf(epoch), 0xfffe, executed);
      EXPECT_TRUE(watch.Now().running());
      EXPECT_EQ(watch.Now().function(), 0xfffe);
      EXPECT_TRUE(watch.Now().Of(epoch));
      EXPECT_FALSE(watch.Now().Of(epoch + 1));
      const uint64_t value = watch.Now().value;
      watch.Begin(ExecutorWatch::SessionOf(epoch), 0xfffe, executed + 1);
      EXPECT_NE(watch.Now().value, value);
    }
  }
}

}  // namespace
}  // namespace invoker
