#include "src/transport/reactor/quarantine.h"

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/transport/reactor/address_run.h"

namespace invoker::transport {
namespace {

HostBuffer Buffer(size_t size) {
  absl::StatusOr<HostBuffer> buffer = HostBuffer::Allocate(size);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  return *std::move(buffer);
}

TEST(Quarantine, AddressesAreNotGivenOutAgainAndMayBeWrittenTo) {
  constexpr size_t kBytes = 3 << 20;
  Quarantine quarantine(1 << 30);
  HostBuffer first = Buffer(kBytes);
  std::byte* const at = first.data();
  memset(at, 1, kBytes);
  quarantine.Take(std::move(first));
  EXPECT_EQ(quarantine.bytes(), kBytes);
  EXPECT_EQ(at[0], std::byte{0});
  // A late write.
  memset(at, 2, kBytes);
  std::vector<HostBuffer> others;
  for (int i = 0; i < 20; ++i) {
    others.push_back(Buffer(kBytes));
    EXPECT_TRUE(others.back().data() >= at + kBytes || others.back().data() + kBytes <= at);
    EXPECT_EQ(others.back().data()[0], std::byte{0});
  }
  quarantine.ReleasePages();
  EXPECT_EQ(at[0], std::byte{0});
  EXPECT_EQ(at[kBytes - 1], std::byte{0});
}

TEST(Quarantine, DiscardComesToEveryRange) {
  Quarantine quarantine(1 << 30);
  std::vector<HostBuffer> between;
  std::vector<std::byte*> taken;
  for (int i = 0; i < 300; ++i) {
    HostBuffer buffer = Buffer(4096);
    taken.push_back(buffer.data());
    between.push_back(Buffer(4096));
    quarantine.Take(std::move(buffer));
    *taken.back() = std::byte{1};
  }
  EXPECT_GT(quarantine.ranges(), 128u);
  for (size_t i = 0; i <= quarantine.ranges() / 64 + 1; ++i) quarantine.ReleasePages();
  for (const std::byte* at : taken) EXPECT_EQ(*at, std::byte{0});
}

// Each look takes a part of it.
TEST(Quarantine, DiscardComesToAllOfALongRange) {
  constexpr size_t kPiece = size_t{1} << 30;
  constexpr int kPieces = 40;
  Quarantine quarantine(uint64_t{1} << 40);
  AddressRun run;
  std::vector<std::byte*> taken;
  for (int i = 0; i < kPieces; ++i) {
    absl::StatusOr<HostBuffer> buffer = run.Allocate(kPiece);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    taken.push_back(buffer->data());
    quarantine.Take(*std::move(buffer));
  }
  ASSERT_LE(quarantine.ranges(), 11u);
  for (int round = 0; round < 2; ++round) {
    for (std::byte* at : taken) at[0] = at[kPiece - 1] = std::byte{1};
    // Half of a turn may be left of the last one.
    for (int i = 0; i < 8; ++i) quarantine.ReleasePages();
    for (const std::byte* at : taken) {
      EXPECT_EQ(at[0], std::byte{0});
      EXPECT_EQ(at[kPiece - 1], std::byte{0});
    }
  }
}

TEST(Quarantine, IsFullWithSoManyBytes) {
  Quarantine quarantine(8192);
  quarantine.Take(Buffer(4096));
  EXPECT_FALSE(quarantine.full());
  quarantine.Take(Buffer(1));
  EXPECT_TRUE(quarantine.full());
  EXPECT_EQ(quarantine.bytes(), 8192u);
}

TEST(Quarantine, BorrowedMemoryStaysItsOwners) {
  Quarantine quarantine(8192);
  std::vector<std::byte> own(8192, std::byte{1});
  quarantine.Take(HostBuffer::Borrow(own.data(), own.size()));
  EXPECT_EQ(quarantine.bytes(), 0u);
  EXPECT_EQ(own[0], std::byte{1});
}

}  // namespace
}  // namespace invoker::transport
