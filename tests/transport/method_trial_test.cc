// The way that long messages go, from times that the test makes up.

#include "src/transport/self_test/method_trial.h"

#include <functional>
#include <vector>

#include "gtest/gtest.h"

namespace invoker::transport {
namespace {

constexpr uint64_t kInject = 4096;
constexpr uint64_t kWindow = uint64_t{1} << 30;

using Time = std::function<int64_t(MethodTrial::Round)>;

// Makes the whole trial, and returns the rounds.
std::vector<MethodTrial::Round> MakeRounds(MethodTrial* trial, const Time& time) {
  std::vector<MethodTrial::Round> rounds;
  while (const auto round = trial->Next(0)) {
    rounds.push_back(*round);
    trial->Add(time(*round));
  }
  return rounds;
}

// Pieces win up to `bytes`.
Time WinsUpTo(uint64_t bytes) {
  return [bytes](MethodTrial::Round round) -> int64_t {
    if (!round.pieces) return 4000;
    return round.bytes <= bytes ? 3000 : 5000;
  };
}

TEST(MethodTrialTest, PiecesGoUpToTheLastLengthAtWhichTheyWin) {
  for (const uint64_t most : {0, 8192, 16384, 32768, 65536}) {
    MethodTrial trial(kInject, kWindow, 0);
    MakeRounds(&trial, WinsUpTo(most));
    EXPECT_EQ(trial.pieces_up_to(), most);
  }
}

TEST(MethodTrialTest, TheFirstLengthAtWhichTheyLoseIsTheLastThatIsTried) {
  MethodTrial trial(kInject, kWindow, 0);
  MakeRounds(&trial, WinsUpTo(16384));
  ASSERT_EQ(trial.times().size(), 3u);
  EXPECT_EQ(trial.times()[0].bytes, 8192u);
  EXPECT_EQ(trial.times()[0].pieces_ns, 3000);
  EXPECT_EQ(trial.times()[0].write_ns, 4000);
  EXPECT_EQ(trial.times()[2].bytes, 32768u);
  EXPECT_EQ(trial.times()[2].pieces_ns, 5000);
}

TEST(MethodTrialTest, BothWaysGoByTurnsAndEquallyOften) {
  MethodTrial trial(kInject, kWindow, 0);
  const auto rounds = MakeRounds(&trial, WinsUpTo(0));
  ASSERT_EQ(rounds.size(), 2 * (MethodTrial::kWarmUps + MethodTrial::kRounds));
  for (size_t i = 0; i < rounds.size(); ++i) {
    EXPECT_EQ(rounds[i].bytes, 8192u);
    EXPECT_EQ(rounds[i].pieces, i % 2 == 0);
  }
}

TEST(MethodTrialTest, ATieGoesToTheSingleWrite) {
  for (const int64_t pieces_ns : {9501, 9500}) {
    MethodTrial trial(kInject, 8192, 0);
    MakeRounds(&trial, [&](MethodTrial::Round round) { return round.pieces ? pieces_ns : 10000; });
    EXPECT_EQ(trial.pieces_up_to(), pieces_ns == 9500 ? 8192u : 0u) << pieces_ns;
  }
}

TEST(MethodTrialTest, WarmUpsAndOutliersDoNotCount) {
  MethodTrial trial(kInject, 8192, 0);
  int made = 0;
  MakeRounds(&trial, [&](MethodTrial::Round round) -> int64_t {
    ++made;
    const bool warm_up = made <= 2 * static_cast<int>(MethodTrial::kWarmUps);
    if (round.pieces && (warm_up || made % 10 == 5)) return 1'000'000;
    return round.pieces ? 3000 : 4000;
  });
  EXPECT_EQ(trial.pieces_up_to(), 8192u);
  ASSERT_EQ(trial.times().size(), 1u);
  EXPECT_EQ(trial.times()[0].pieces_ns, 3000);
}

TEST(MethodTrialTest, NothingLongerThanTheLimitIsTried) {
  MethodTrial trial(kInject, 32767, 0);
  for (const auto& round : MakeRounds(&trial, WinsUpTo(65536))) EXPECT_LE(round.bytes, 16384u);
  EXPECT_EQ(trial.pieces_up_to(), 16384u);
}

TEST(MethodTrialTest, ASmallWindowHasNoTrial) {
  EXPECT_FALSE(MethodTrial(kInject, 8191, 0).Next(0).has_value());
  EXPECT_FALSE(MethodTrial(0, kWindow, 0).Next(0).has_value());
}

TEST(MethodTrialTest, WhatHasBeenDecidedWhenTheTimeIsUpStands) {
  MethodTrial trial(kInject, kWindow, 1000);
  int64_t now_ns = 1000;
  while (const auto round = trial.Next(now_ns)) {
    trial.Add(round->pieces ? 3000 : 4000);
    if (round->bytes == 16384) now_ns = 1000 + MethodTrial::kLimitNs;
  }
  EXPECT_EQ(trial.pieces_up_to(), 8192u);
  EXPECT_EQ(trial.times().size(), 1u);
}

TEST(MethodTrialTest, ATrialThatEndsBeforeTheFirstLengthKnowsNothing) {
  MethodTrial trial(kInject, kWindow, 0);
  trial.Add(3000);
  EXPECT_FALSE(trial.Next(MethodTrial::kLimitNs).has_value());
  EXPECT_EQ(trial.pieces_up_to(), 0u);
  EXPECT_TRUE(trial.times().empty());
}

}  // namespace
}  // namespace invoker::transport
