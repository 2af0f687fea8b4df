#include "src/transport/memory_region.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/transport/local_fabric.h"

namespace invoker::transport {
namespace {

bool IsZero(const std::byte* memory, size_t size) {
  return std::all_of(memory, memory + size, [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(HostBuffer, IsPageAlignedAndZero) {
  HostBuffer buffer = *HostBuffer::Allocate(10000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 4096, 0u);
  EXPECT_EQ(buffer.size(), 10000u);
  EXPECT_TRUE(IsZero(buffer.data(), buffer.size()));
}

TEST(HostBuffer, DiscardedPagesReadAsZeroAtTheSameAddress) {
  HostBuffer buffer = *HostBuffer::Allocate(1 << 20);
  std::byte* data = buffer.data();
  memset(data, 0x5a, buffer.size());
  buffer.Discard();
  EXPECT_EQ(buffer.data(), data);
  EXPECT_TRUE(IsZero(data, buffer.size()));
  data[12345] = std::byte{1};
  EXPECT_EQ(data[12345], std::byte{1});
}

TEST(HostBuffer, MoveHandsTheMemoryOver) {
  HostBuffer first = *HostBuffer::Allocate(4096);
  std::byte* data = first.data();
  HostBuffer second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_EQ(first.size(), 0u);
  HostBuffer third = *HostBuffer::Allocate(4096);
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
}

TEST(HostBuffer, EmptyOneCanBeDiscarded) { HostBuffer().Discard(); }

TEST(HostBuffer, ImpossibleSizeIsAnErrorThatSaysTheSize) {
  const absl::Status status = HostBuffer::Allocate(size_t{1} << 60).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("1152921504606846976"), absl::string_view::npos) << status;
}

class RegionTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    local_ = LocalFabric::Open(GetParam());
    ASSERT_NE(local_, nullptr);
  }

  absl::StatusOr<MemoryRegion> Register(RegionUse use) {
    return MemoryRegion::Register(*local_->fabric, *local_->domain, *local_->endpoint,
                                  *HostBuffer::Allocate(8192), use);
  }

  std::unique_ptr<LocalFabric> local_;
};

TEST_P(RegionTest, KeysOfOursAreDistinctAndNotInSequence) {
  if (local_->fabric->profile().keys != KeyPolicy::kRandom) {
    GTEST_SKIP() << "the provider chooses the keys";
  }
  std::vector<MemoryRegion> regions;
  std::set<uint64_t> keys;
  std::set<uint64_t> distances;
  uint64_t bits = 0;
  for (int i = 0; i < 64; ++i) {
    absl::StatusOr<MemoryRegion> region = Register(RegionUse::kRemoteTarget);
    ASSERT_TRUE(region.ok()) << region.status();
    if (!keys.empty()) distances.insert(region->key() - regions.back().key());
    keys.insert(region->key());
    bits |= region->key();
    regions.push_back(*std::move(region));
  }
  EXPECT_EQ(keys.size(), 64u);
  EXPECT_EQ(distances.size(), 63u);
  // Each bit is 0 in all 64 keys once in 2^64 runs.
  const size_t key_bytes = local_->fabric->profile().key_bytes;
  EXPECT_EQ(bits, key_bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * key_bytes) - 1);
}

TEST_P(RegionTest, BaseIsWhatTheFabricCountsFrom) {
  absl::StatusOr<MemoryRegion> region = Register(RegionUse::kRemoteTarget);
  ASSERT_TRUE(region.ok()) << region.status();
  if (local_->fabric->profile().addressing == Addressing::kVirtual) {
    EXPECT_EQ(region->remote_base(), reinterpret_cast<uintptr_t>(region->data()));
  } else {
    EXPECT_EQ(region->remote_base(), 0u);
  }
}

TEST_P(RegionTest, LocalUsesNeedADescriptorOnlyWhereTheFabricSaysSo) {
  for (RegionUse use : {RegionUse::kSource, RegionUse::kReceive}) {
    absl::StatusOr<MemoryRegion> region = Register(use);
    ASSERT_TRUE(region.ok()) << region.status();
    EXPECT_EQ(region->descriptor() != nullptr, local_->fabric->profile().local_registration);
    EXPECT_NE(region->data(), nullptr);
  }
}

TEST_P(RegionTest, CloseGivesTheBufferBackWithItsContents) {
  MemoryRegion region = *Register(RegionUse::kRemoteTarget);
  region.data()[8191] = std::byte{42};
  std::byte* data = region.data();
  HostBuffer buffer = std::move(region).Close();
  EXPECT_EQ(buffer.data(), data);
  EXPECT_EQ(buffer.data()[8191], std::byte{42});
}

INSTANTIATE_TEST_SUITE_P(Every, RegionTest,
                         testing::Values("tcp;ofi_rxm", "shm", "sockets", "net", "udp;ofi_rxd"),
                         [](const testing::TestParamInfo<const char*>& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), ';', '_');
                           return name;
                         });

}  // namespace
}  // namespace invoker::transport
