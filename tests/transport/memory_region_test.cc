#include "src/transport/fabric/memory_region.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/transport/in_libfabric.h"
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
  buffer.ReleasePages(0, buffer.size());
  EXPECT_EQ(buffer.data(), data);
  EXPECT_TRUE(IsZero(data, buffer.size()));
  data[12345] = std::byte{1};
  EXPECT_EQ(data[12345], std::byte{1});
}

TEST(HostBuffer, OnlyWholePagesWithinTheRangeAreDiscarded) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  HostBuffer buffer = *HostBuffer::Allocate(4 * page + 100);
  memset(buffer.data(), 0x5a, buffer.size());
  buffer.ReleasePages(100, 3 * page - 1);
  buffer.ReleasePages(4 * page, buffer.size());
  const auto kept = [&](size_t at) { return buffer.data()[at] == std::byte{0x5a}; };
  EXPECT_TRUE(kept(0) && kept(page - 1));
  EXPECT_TRUE(IsZero(buffer.data() + page, page));
  EXPECT_TRUE(kept(2 * page) && kept(4 * page - 1));
  EXPECT_TRUE(IsZero(buffer.data() + 4 * page, 100));
}

// The bytes of this process that lie in large pages, of the mapping that begins with or before
// `memory`.
size_t LargePageBytesAt(const std::byte* memory) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  while (std::getline(maps, line)) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    size_t kilobytes = 0;
    if (sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2) {
      const uintptr_t wanted = reinterpret_cast<uintptr_t>(memory);
      inside = begin <= wanted && wanted < end;
    } else if (inside && sscanf(line.c_str(), "AnonHugePages: %zu kB", &kilobytes) == 1) {
      return kilobytes * 1024;
    }
  }
  return 0;
}

// Whether this kernel makes large pages of small ones when it is told to, and not before.
bool KernelHasLargePages() {
  utsname system;
  int major = 0;
  int minor = 0;
  if (uname(&system) != 0 || sscanf(system.release, "%d.%d", &major, &minor) != 2) return false;
  std::string enabled;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), enabled);
  return std::make_pair(major, minor) >= std::make_pair(6, 1) &&
         enabled.find("[madvise]") != std::string::npos;
}

TEST(HostBuffer, OfALargePageBeginsWhereOneDoes) {
  for (size_t size : {kLargePageBytes, kLargePageBytes + 1, 3 * kLargePageBytes}) {
    HostBuffer buffer = *HostBuffer::Allocate(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kLargePageBytes, 0u);
    EXPECT_EQ(buffer.size(), size);
    buffer.data()[size - 1] = std::byte{1};
  }
}

TEST(HostBuffer, LargePagesKeepWhatIsThere) {
  HostBuffer buffer = *HostBuffer::Allocate(2 * kLargePageBytes);
  memset(buffer.data(), 0x5a, 10000);
  memset(buffer.data() + kLargePageBytes, 0x7b, 10000);
  const size_t before = LargePageBytesAt(buffer.data());
  buffer.UseLargePages(4096, 100);
  const auto is = [](int value) {
    return [value](std::byte byte) { return byte == static_cast<std::byte>(value); };
  };
  EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + 10000, is(0x5a)));
  EXPECT_TRUE(IsZero(buffer.data() + 10000, kLargePageBytes - 10000));
  const std::byte* const second = buffer.data() + kLargePageBytes;
  EXPECT_TRUE(std::all_of(second, second + 10000, is(0x7b)));
  if (!KernelHasLargePages()) GTEST_SKIP() << "this kernel makes no large pages";
  EXPECT_EQ(before, 0u);
  if (LargePageBytesAt(buffer.data()) == 0) GTEST_SKIP() << "no large page was free";
  // Only where they were asked for.
  EXPECT_EQ(LargePageBytesAt(buffer.data()), kLargePageBytes);
  EXPECT_EQ(LargePageBytesAt(second), 0u);
}

// Parts of large pages, at either end, and nothing at all.
TEST(HostBuffer, LargePagesStayInsideTheBuffer) {
  for (size_t size : {size_t{4096}, kLargePageBytes - 1, kLargePageBytes + 4096}) {
    HostBuffer buffer = *HostBuffer::Allocate(size);
    memset(buffer.data(), 0x5a, size);
    buffer.UseLargePages(0, size);
    buffer.UseLargePages(size - 1, 1);
    EXPECT_EQ(buffer.data()[size - 1], std::byte{0x5a});
  }
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

TEST(HostBuffer, EmptyOneCanBeDiscarded) { HostBuffer().ReleasePages(0, 0); }

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

TEST_P(RegionTest, ManyLongWritesGetLargePagesWhereTheyPay) {
  const auto open = [this](RegionUse use) {
    MemoryRegion region =
        *MemoryRegion::Register(*local_->fabric, *local_->domain, *local_->endpoint,
                                *HostBuffer::Allocate(2 * kLargePageBytes), use);
    memset(region.data(), 0x5a, 100000);
    return region;
  };
  constexpr size_t kLong = 1 << 20;
  MemoryRegion source = open(RegionUse::kSource);
  for (int i = 0; i < 10000; ++i) source.NoteWrite(0, 8192);
  source.NoteWrite(0, kLong);
  const size_t before = LargePageBytesAt(source.data());
  for (int i = 0; i < 16; ++i) source.NoteWrite(0, kLong);
  const size_t after = LargePageBytesAt(source.data());
  EXPECT_EQ(source.data()[99999], std::byte{0x5a});
  MemoryRegion target = open(RegionUse::kRemoteTarget);
  for (int i = 0; i < 16; ++i) target.NoteWrite(0, kLong);
  if (!KernelHasLargePages()) GTEST_SKIP() << "this kernel makes no large pages";
  EXPECT_EQ(before, 0u) << "a few long writes, or many short ones";
  EXPECT_EQ(LargePageBytesAt(target.data()), 0u);
  if (!local_->fabric->profile().large_source_pages) {
    EXPECT_EQ(after, 0u);
  } else if (after == 0) {
    GTEST_SKIP() << "no large page was free";
  } else {
    EXPECT_EQ(after, kLargePageBytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, RegionTest,
                         testing::ValuesIn(ThoseInLibfabric<const char*>(
                             {"tcp;ofi_rxm", "shm", "sockets", "net", "tcp", "udp;ofi_rxd"})),
                         [](const testing::TestParamInfo<const char*>& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), ';', '_');
                           return name;
                         });

}  // namespace
}  // namespace invoker::transport
