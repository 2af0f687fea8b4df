#include "src/transport/fabric/region_table.h"

#include <random>
#include <unordered_map>
#include <vector>

#include "gtest/gtest.h"

namespace invoker::transport {
namespace {

std::byte memory[64];

TEST(RegionTable, FindsWhatIsListedAndNothingElse) {
  RegionTable table;
  EXPECT_EQ(table.Find(0), nullptr);
  absl::StatusOr<RegionListing> listing = table.Insert(0, memory, 64, RegionRole::kCounters);
  ASSERT_TRUE(listing.ok());
  const RegionTable::Entry* entry = table.Find(0);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->data, memory);
  EXPECT_EQ(entry->size, 64u);
  EXPECT_EQ(entry->role, RegionRole::kCounters);
  EXPECT_EQ(table.Find(1), nullptr);
}

TEST(RegionTable, ListingEndsWithItsObjectAndMovesWithIt) {
  RegionTable table;
  {
    RegionListing kept;
    {
      absl::StatusOr<RegionListing> listing = table.Insert(5, memory, 64, RegionRole::kWindow);
      ASSERT_TRUE(listing.ok());
      kept = *std::move(listing);
    }
    EXPECT_NE(table.Find(5), nullptr);
  }
  EXPECT_EQ(table.Find(5), nullptr);
  EXPECT_EQ(table.size(), 0u);
}

TEST(RegionTable, RefusesAKeyThatIsTaken) {
  RegionTable table;
  absl::StatusOr<RegionListing> first = table.Insert(5, memory, 64, RegionRole::kWindow);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(table.Insert(5, memory + 1, 8, RegionRole::kWindow).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(table.Find(5)->data, memory);
}

TEST(RegionTable, BoundsCannotOverflow) {
  const RegionTable::Entry entry = {1, memory, 64, RegionRole::kWindow};
  EXPECT_TRUE(entry.Contains(0, 64));
  EXPECT_TRUE(entry.Contains(64, 0));
  EXPECT_FALSE(entry.Contains(1, 64));
  EXPECT_FALSE(entry.Contains(65, 0));
  EXPECT_FALSE(entry.Contains(UINT64_MAX, 2));
  EXPECT_FALSE(entry.Contains(2, UINT64_MAX));
}

// Against a map, with keys as providers choose them: in a row, in strides, or random.
TEST(RegionTable, AgreesWithAMapUnderInsertsAndRemovals) {
  std::mt19937_64 random(20260);
  for (int kind = 0; kind < 3; ++kind) {
    RegionTable table;
    std::unordered_map<uint64_t, RegionListing> listings;
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < 300; ++i) {
      keys.push_back(kind == 0 ? i : kind == 1 ? i << 32 : random());
    }
    for (int step = 0; step < 20000; ++step) {
      const uint64_t key = keys[random() % keys.size()];
      if (listings.count(key) == 0) {
        absl::StatusOr<RegionListing> listing =
            table.Insert(key, memory, key % 64, RegionRole::kWindow);
        ASSERT_TRUE(listing.ok());
        listings[key] = *std::move(listing);
      } else {
        listings.erase(key);
      }
      ASSERT_EQ(table.size(), listings.size());
      if (step % 64 != 0) continue;
      for (uint64_t each : keys) {
        const RegionTable::Entry* entry = table.Find(each);
        ASSERT_EQ(entry != nullptr, listings.count(each) == 1) << each;
        if (entry != nullptr) {
          ASSERT_EQ(entry->size, each % 64);
        }
      }
    }
  }
}

}  // namespace
}  // namespace invoker::transport
