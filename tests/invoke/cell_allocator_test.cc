#include "src/invoke/session/cell_allocator.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace invoker {
namespace {

// Says what CellAllocator should do, one cell at a time.
class NaiveAllocator {
 public:
  explicit NaiveAllocator(uint32_t cells) : free_(cells, true) {}

  // Whether `granted` is right for so many cells, which are then taken: the lowest run, or, where
  // runs reach over a word's end, any that is free, since one that was freed may be granted again.
  bool Agrees(uint32_t run, std::optional<uint32_t> granted) {
    const std::optional<uint32_t> lowest = Lowest(run);
    if (granted.has_value() != lowest.has_value()) return false;
    if (!granted.has_value()) return true;
    if (free_.size() <= CellAllocator::kWordBits && granted != lowest) return false;
    if (*granted + run > free_.size()) return false;
    for (uint32_t i = *granted; i < *granted + run; ++i) {
      if (!free_[i]) return false;
      free_[i] = false;
    }
    return true;
  }

  bool Free(uint64_t first, uint64_t run) {
    if (run == 0 || first + run > free_.size()) return false;
    for (uint64_t i = first; i < first + run; ++i) {
      if (free_[i]) return false;
    }
    for (uint64_t i = first; i < first + run; ++i) free_[i] = true;
    return true;
  }

  uint32_t free_cells() const {
    uint32_t count = 0;
    for (bool free : free_) count += free ? 1 : 0;
    return count;
  }

 private:
  std::optional<uint32_t> Lowest(uint32_t run) const {
    uint32_t length = 0;
    for (uint32_t i = 0; run > 0 && i < free_.size(); ++i) {
      length = free_[i] ? length + 1 : 0;
      if (length == run) return i + 1 - run;
    }
    return std::nullopt;
  }

  std::vector<bool> free_;
};

TEST(CellAllocatorTest, GrantsNeighboursInAscendingOrder) {
  CellAllocator cells(256);
  for (uint32_t i = 0; i < 256; ++i) ASSERT_EQ(cells.Allocate(1), i);
}

TEST(CellAllocatorTest, UsesTheLastCellAndThenRefuses) {
  for (uint32_t count : {1u, 63u, 64u, 65u, 100u, 16383u, 16384u}) {
    CellAllocator cells(count);
    for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(cells.Allocate(1), i) << count;
    EXPECT_EQ(cells.free_cells(), 0u);
    EXPECT_EQ(cells.Allocate(1), std::nullopt) << count;
    ASSERT_TRUE(cells.Free(count - 1, 1));
    EXPECT_EQ(cells.Allocate(1), count - 1);
  }
}

TEST(CellAllocatorTest, GrantsTheWholeWindowAsOneRun) {
  for (uint32_t count : {1u, 63u, 64u, 65u, 128u, 1000u, 16384u}) {
    CellAllocator cells(count);
    EXPECT_EQ(cells.Allocate(count + 1), std::nullopt);
    ASSERT_EQ(cells.Allocate(count), 0u) << count;
    EXPECT_EQ(cells.free_cells(), 0u);
    EXPECT_EQ(cells.Allocate(1), std::nullopt);
    ASSERT_TRUE(cells.Free(0, count));
    EXPECT_EQ(cells.free_cells(), count);
    EXPECT_EQ(cells.Allocate(count), 0u);
  }
}

TEST(CellAllocatorTest, RunOfNoCellsIsRefused) {
  CellAllocator cells(64);
  EXPECT_EQ(cells.Allocate(0), std::nullopt);
  EXPECT_FALSE(cells.Free(0, 0));
  EXPECT_EQ(cells.free_cells(), 64u);
}

TEST(CellAllocatorTest, WindowOfNoCellsGrantsNothing) {
  CellAllocator cells(0);
  EXPECT_EQ(cells.Allocate(1), std::nullopt);
  EXPECT_FALSE(cells.Free(0, 1));
}

// Leaves exactly [first, first + run) free, for every place around two word boundaries.
TEST(CellAllocatorTest, FindsTheOnlyRunWhereverItLies) {
  constexpr uint32_t kCount = 200;
  for (uint32_t run = 1; run <= kCount; ++run) {
    for (uint32_t first = 0; first + run <= kCount; ++first) {
      CellAllocator cells(kCount);
      ASSERT_EQ(cells.Allocate(kCount), 0u);
      ASSERT_TRUE(cells.Free(first, run));
      ASSERT_EQ(cells.Allocate(run + 1), std::nullopt) << first << " " << run;
      ASSERT_EQ(cells.free_cells(), run);
      ASSERT_EQ(cells.Allocate(run), first) << first << " " << run;
      ASSERT_EQ(cells.free_cells(), 0u);
    }
  }
}

TEST(CellAllocatorTest, PrefersALowRunAcrossWordsToAHigherOneWithin) {
  CellAllocator cells(192);
  ASSERT_EQ(cells.Allocate(192), 0u);
  ASSERT_TRUE(cells.Free(62, 4));
  ASSERT_TRUE(cells.Free(70, 10));
  EXPECT_EQ(cells.Allocate(4), 62u);
  EXPECT_EQ(cells.Allocate(4), 70u);
}

TEST(CellAllocatorTest, SkipsHolesThatAreTooSmall) {
  CellAllocator cells(128);
  ASSERT_EQ(cells.Allocate(128), 0u);
  for (uint32_t i = 0; i < 128; i += 2) ASSERT_TRUE(cells.Free(i, 1));
  EXPECT_EQ(cells.free_cells(), 64u);
  EXPECT_EQ(cells.Allocate(2), std::nullopt);
  ASSERT_TRUE(cells.Free(101, 1));
  EXPECT_EQ(cells.Allocate(2), 100u);
  EXPECT_EQ(cells.Allocate(2), std::nullopt);
  EXPECT_EQ(cells.Allocate(1), 0u);
}

TEST(CellAllocatorTest, FreedNeighboursBecomeOneRun) {
  CellAllocator cells(128);
  ASSERT_EQ(cells.Allocate(50), 0u);
  ASSERT_EQ(cells.Allocate(50), 50u);
  ASSERT_TRUE(cells.Free(50, 50));
  ASSERT_TRUE(cells.Free(0, 50));
  EXPECT_EQ(cells.Allocate(128), 0u);
}

TEST(CellAllocatorTest, ALongRunThatWasFreedIsGrantedAgainToACallThatNeedsOneAsLong) {
  CellAllocator cells(1024);
  ASSERT_EQ(cells.Allocate(100), 0u);
  ASSERT_EQ(cells.Allocate(300), 100u);
  ASSERT_TRUE(cells.Free(100, 300));
  ASSERT_TRUE(cells.Free(0, 100));
  EXPECT_FALSE(cells.Free(0, 100));
  EXPECT_FALSE(cells.Free(99, 1));
  EXPECT_EQ(cells.free_cells(), 1024u);
  EXPECT_EQ(cells.Allocate(100), 0u);
  EXPECT_EQ(cells.Allocate(924), 100u);
}

TEST(CellAllocatorTest, LowCellsAreTakenAgainAsSoonAsTheyAreFree) {
  CellAllocator cells(16384);
  ASSERT_EQ(cells.Allocate(16000), 0u);
  ASSERT_EQ(cells.Allocate(1), 16000u);
  ASSERT_TRUE(cells.Free(3, 1));
  EXPECT_EQ(cells.Allocate(1), 3u);
  EXPECT_EQ(cells.Allocate(1), 16001u);
}

TEST(CellAllocatorTest, TheHighestRunIsFoundAcrossWordsAndBelowTakenCells) {
  CellAllocator cells(200);
  EXPECT_EQ(cells.AllocateHighest(0), std::nullopt);
  EXPECT_EQ(cells.AllocateHighest(201), std::nullopt);
  EXPECT_EQ(cells.AllocateHighest(3), 197u);
  EXPECT_EQ(cells.AllocateHighest(70), 127u);
  EXPECT_EQ(cells.Allocate(1), 0u);
  EXPECT_EQ(cells.AllocateHighest(127), std::nullopt);
  EXPECT_EQ(cells.AllocateHighest(126), 1u);
  EXPECT_EQ(cells.free_cells(), 0u);
  EXPECT_EQ(cells.AllocateHighest(1), std::nullopt);
  // A run that was freed lately counts, too.
  EXPECT_TRUE(cells.Free(127, 70));
  EXPECT_EQ(cells.AllocateHighest(70), 127u);
}

TEST(CellAllocatorTest, DoubleFreeIsRefusedAndChangesNothing) {
  CellAllocator cells(192);
  ASSERT_EQ(cells.Allocate(150), 0u);
  ASSERT_TRUE(cells.Free(100, 1));
  EXPECT_FALSE(cells.Free(100, 1));
  EXPECT_FALSE(cells.Free(40, 61));    // only its last cell, two words on, is free already
  EXPECT_FALSE(cells.Free(100, 50));   // only its first
  EXPECT_FALSE(cells.Free(149, 2));    // taken, then never taken
  EXPECT_EQ(cells.free_cells(), 43u);  // 42 never taken, and one
  EXPECT_EQ(cells.Allocate(1), 100u);
  EXPECT_EQ(cells.Allocate(1), 150u);
}

TEST(CellAllocatorTest, FreeOutsideTheWindowIsRefusedAndChangesNothing) {
  constexpr uint32_t kMax = ~uint32_t{0};
  CellAllocator cells(100);
  ASSERT_EQ(cells.Allocate(100), 0u);
  EXPECT_FALSE(cells.Free(100, 1));
  EXPECT_FALSE(cells.Free(99, 2));
  EXPECT_FALSE(cells.Free(0, 101));
  EXPECT_FALSE(cells.Free(kMax, 1));
  EXPECT_FALSE(cells.Free(kMax, 2));  // the end would be 1 in 32 bits
  EXPECT_FALSE(cells.Free(1, kMax));
  EXPECT_FALSE(cells.Free(50, kMax - 20));
  EXPECT_EQ(cells.free_cells(), 0u);
  EXPECT_EQ(cells.Allocate(1), std::nullopt);
  EXPECT_TRUE(cells.Free(0, 100));
}

class CellAllocatorRandomTest : public ::testing::TestWithParam<uint32_t> {};

// Same steps on both, with phases that fill the window and phases that empty it.
TEST_P(CellAllocatorRandomTest, DoesWhatTheNaiveOneDoes) {
  const uint32_t count = GetParam();
  struct Run {
    uint32_t first;
    uint32_t length;
  };
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "cells " << count << " seed " << seed);
    std::mt19937 random(seed);
    CellAllocator cells(count);
    NaiveAllocator naive(count);
    std::vector<Run> held;
    for (int step = 0; step < 2000; ++step) {
      const bool filling = step / 250 % 2 == 0;
      if (random() % 10 < (filling ? 7u : 3u)) {
        const uint32_t longest[] = {1, 4, 70, 200, count};
        const uint32_t length = random() % (longest[random() % 5] + 1);
        const std::optional<uint32_t> first = cells.Allocate(length);
        ASSERT_TRUE(naive.Agrees(length, first)) << "step " << step << " length " << length;
        if (first.has_value()) held.push_back({*first, length});
      } else if (!held.empty() && random() % 8 != 0) {
        const size_t index = random() % held.size();
        Run& run = held[index];
        // Now and then only the front of a run, which the rest then outlives.
        const uint32_t length = random() % 4 == 0 ? 1 + random() % run.length : run.length;
        ASSERT_TRUE(cells.Free(run.first, length)) << "step " << step;
        ASSERT_TRUE(naive.Free(run.first, length));
        run.first += length;
        run.length -= length;
        if (run.length == 0) {
          run = held.back();
          held.pop_back();
        }
      } else {
        // Whatever: mostly refused, but where it is granted the runs held are no longer known.
        const uint32_t first = random() % (count + 2);
        const uint32_t length = random() % 100;
        const bool freed = cells.Free(first, length);
        ASSERT_EQ(freed, naive.Free(first, length)) << "step " << step;
        if (freed) {
          // Take everything, so that what is held is known again.
          for (uint32_t i = naive.free_cells(); i > 0; --i) {
            ASSERT_TRUE(naive.Agrees(1, cells.Allocate(1))) << "step " << step;
          }
          held = {{0, count}};
        }
      }
      ASSERT_EQ(cells.free_cells(), naive.free_cells()) << "step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CellAllocatorRandomTest,
                         ::testing::Values(1u, 40u, 64u, 65u, 190u, 256u, 1024u));

}  // namespace
}  // namespace invoker
