#include "src/invoke/wire/sequence_window.h"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace invoker {
namespace {

using Verdict = SequenceWindow::Verdict;

constexpr uint64_t kWidth = SequenceWindow::kWidth;
constexpr uint64_t kMaxAdvance = SequenceWindow::kMaxAdvance;

// Each behaviour holds wherever on the circle it happens: at the start, and over the wrap past
// 2^64.
class SequenceWindowTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  const uint64_t first_ = GetParam();
  SequenceWindow window_{first_};
};

INSTANTIATE_TEST_SUITE_P(Starts, SequenceWindowTest,
                         ::testing::Values(uint64_t{0}, uint64_t{1}, uint64_t{777},
                                           (uint64_t{1} << 63) - 50, ~uint64_t{0} - 99,
                                           ~uint64_t{0}));

TEST_P(SequenceWindowTest, AcceptsEachOnceInOrder) {
  for (uint64_t i = 0; i < 3 * kWidth; ++i) {
    ASSERT_EQ(window_.Accept(first_ + i), Verdict::kNew) << i;
    ASSERT_EQ(window_.Accept(first_ + i), Verdict::kReplayed) << i;
  }
}

TEST_P(SequenceWindowTest, WhatPrecedesTheFirstExpectedWasSeen) {
  EXPECT_EQ(window_.Accept(first_ - 1), Verdict::kReplayed);
  EXPECT_EQ(window_.Accept(first_ - kWidth), Verdict::kReplayed);
  EXPECT_EQ(window_.Accept(first_ - kWidth - 1), Verdict::kTooOld);
  EXPECT_EQ(window_.Accept(first_ + 5), Verdict::kNew);
  EXPECT_EQ(window_.Accept(first_ - 1), Verdict::kReplayed);
  EXPECT_EQ(window_.Accept(first_ + 4), Verdict::kNew);
}

TEST_P(SequenceWindowTest, AcceptsEachOnceInReverse) {
  for (uint64_t i = kWidth; i > 0; --i)
    ASSERT_EQ(window_.Accept(first_ + i - 1), Verdict::kNew) << i;
  for (uint64_t i = 0; i < kWidth; ++i) {
    ASSERT_EQ(window_.Accept(first_ + i), Verdict::kReplayed) << i;
  }
}

TEST_P(SequenceWindowTest, ReorderingWithinTheWidthLosesNothing) {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    SequenceWindow window(first_);
    std::vector<uint64_t> order(5 * kWidth);
    for (uint64_t i = 0; i < order.size(); ++i) order[i] = i;
    // Shuffled in blocks of half the width, so that none is overtaken by as much as the width.
    for (size_t at = 0; at < order.size(); at += kWidth / 2) {
      std::shuffle(order.begin() + at, order.begin() + at + kWidth / 2, random);
    }
    for (uint64_t i : order) ASSERT_EQ(window.Accept(first_ + i), Verdict::kNew) << i;
  }
}

TEST_P(SequenceWindowTest, LastOfTheWidthIsJudgedAndTheNextIsTooOld) {
  const uint64_t highest = first_ + 2 * kWidth;
  ASSERT_EQ(window_.Accept(highest), Verdict::kNew);
  EXPECT_EQ(window_.Accept(highest - kWidth), Verdict::kTooOld);
  EXPECT_EQ(window_.Accept(highest - kWidth + 1), Verdict::kNew);
  EXPECT_EQ(window_.Accept(highest - kWidth + 1), Verdict::kReplayed);
  EXPECT_EQ(window_.Accept(highest + 1), Verdict::kNew);
  EXPECT_EQ(window_.Accept(highest - kWidth + 1), Verdict::kTooOld);
}

TEST_P(SequenceWindowTest, HalfTheCircleBehindIsTooOld) {
  EXPECT_EQ(window_.Accept(first_ - 1 - (uint64_t{1} << 63)), Verdict::kTooOld);
  EXPECT_EQ(window_.Accept(first_ - (uint64_t{1} << 63)), Verdict::kTooOld);
  EXPECT_EQ(window_.Accept(first_ - 2 - (uint64_t{1} << 63)), Verdict::kTooFar);
}

// After a jump the bits of the sequences jumped over must not tell of those a width earlier.
TEST_P(SequenceWindowTest, JumpForgetsWhatWasSeenAWidthEarlier) {
  for (uint64_t jump : {uint64_t{2}, uint64_t{3}, uint64_t{63}, uint64_t{64}, uint64_t{65},
                        uint64_t{130}, kWidth - 1, kWidth, kWidth + 1, 2 * kWidth, kMaxAdvance}) {
    for (uint64_t skew : {0, 1, 31, 63}) {
      SCOPED_TRACE(testing::Message() << "jump " << jump << " skew " << skew);
      SequenceWindow window(first_ + skew);
      uint64_t highest = first_ + skew + kWidth - 1;
      for (uint64_t i = 0; i < kWidth; ++i) {
        ASSERT_EQ(window.Accept(first_ + skew + i), Verdict::kNew);
      }
      ASSERT_EQ(window.Accept(highest + jump), Verdict::kNew);
      for (uint64_t back = 0; back < kWidth; ++back) {
        const uint64_t sequence = highest + jump - back;
        const bool skipped = back > 0 && back < jump;
        ASSERT_EQ(window.Accept(sequence), skipped ? Verdict::kNew : Verdict::kReplayed) << back;
      }
    }
  }
}

TEST_P(SequenceWindowTest, TooFarIsRefusedAndChangesNothing) {
  ASSERT_EQ(window_.Accept(first_ + 10), Verdict::kNew);
  EXPECT_EQ(window_.Accept(first_ + 10 + kMaxAdvance + 1), Verdict::kTooFar);
  EXPECT_EQ(window_.Accept(first_ + (uint64_t{1} << 62)), Verdict::kTooFar);
  EXPECT_EQ(window_.Accept(first_ + 10), Verdict::kReplayed);
  EXPECT_EQ(window_.Accept(first_ + 9), Verdict::kNew);
  EXPECT_EQ(window_.Accept(first_ + 11), Verdict::kNew);
  EXPECT_EQ(window_.Accept(first_ + 11 + kMaxAdvance), Verdict::kNew);
}

// The reference remembers everything that was ever accepted.
TEST_P(SequenceWindowTest, AgreesWithASetOfAllThatWasAccepted) {
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    SequenceWindow window(first_);
    std::set<int64_t> accepted;  // relative to the first, so that the reference does not wrap
    int64_t highest = -1;
    for (int step = 0; step < 20000; ++step) {
      int64_t relative = highest;
      switch (random() % 8) {
        case 0:
          relative += 2 + random() % 200;
          break;
        case 1:
          relative -= random() % (kWidth + 100);
          break;
        case 2:
          relative += random() % 400;
          relative -= 200;
          break;
        case 3:
          // Seldom a large jump, to either side of the bound.
          relative += random() % 40 == 0 ? kMaxAdvance - 50 + random() % 100 : 1;
          break;
        case 4:
          relative -= random() % 64;
          break;
        default:
          relative += 1;
      }
      Verdict expected;
      if (relative > highest) {
        expected = relative - highest > static_cast<int64_t>(kMaxAdvance) ? Verdict::kTooFar
                                                                          : Verdict::kNew;
      } else if (highest - relative >= static_cast<int64_t>(kWidth)) {
        expected = Verdict::kTooOld;
      } else {
        expected =
            relative < 0 || accepted.count(relative) != 0 ? Verdict::kReplayed : Verdict::kNew;
      }
      ASSERT_EQ(window.Accept(first_ + static_cast<uint64_t>(relative)), expected)
          << "step " << step << " sequence " << relative << " after " << highest;
      if (expected == Verdict::kNew) {
        accepted.insert(relative);
        highest = std::max(highest, relative);
      }
    }
  }
}

TEST(SequenceWindowTest, LowBitsAreTheNearestSequences) {
  for (const uint64_t first : {uint64_t{1}, uint64_t{0x12340000}, uint64_t{0xfff0}, ~uint64_t{0}}) {
    const SequenceWindow window(first);
    for (const int64_t ahead : {-4096, -1, 0, 1, 4095, 30000}) {
      const uint64_t sequence = first + static_cast<uint64_t>(ahead);
      EXPECT_EQ(window.Nearest(static_cast<uint16_t>(sequence)), sequence);
    }
  }
}

}  // namespace
}  // namespace invoker
