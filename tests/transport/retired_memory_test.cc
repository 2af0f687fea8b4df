#include "src/transport/reactor/retired_memory.h"

#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "gtest/gtest.h"
#include "tests/transport/local_fabric.h"

namespace invoker::transport {
namespace {

constexpr int64_t kRetirementNs = 1000;
// By then, each region has been looked at.
constexpr int64_t kLaterNs = 1'000'000'000;
constexpr size_t kBytes = 64 * 1024;

class RetiredMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    fabric_ = LocalFabric::Open("shm");
    ASSERT_NE(fabric_, nullptr);
    memory_.emplace(absl::Nanoseconds(kRetirementNs), uint64_t{1} << 40, nullptr);
  }
  void TearDown() override {
    memory_->CloseRegions();
    fabric_->endpoint.reset();
  }

  MemoryRegion NewRegion(RegionUse use) {
    absl::StatusOr<HostBuffer> buffer = HostBuffer::Allocate(kBytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    memset(buffer->data(), 'x', kBytes);
    absl::StatusOr<MemoryRegion> region = MemoryRegion::Register(
        *fabric_->fabric, *fabric_->domain, *fabric_->endpoint, *std::move(buffer), use);
    EXPECT_TRUE(region.ok()) << region.status();
    return *std::move(region);
  }

  // Retires a region from which an operation sends its second page.
  Operation* RetireInUse(RegionUse use, const std::byte** data) {
    MemoryRegion region = NewRegion(use);
    *data = region.data();
    Operation* operation = operations_.Acquire();
    operation->source = region.data() + 4096;
    operation->length = 4096;
    memory_->Retire(std::move(region), share_, operations_, 0);
    return operation;
  }

  std::unique_ptr<LocalFabric> fabric_;
  OperationPool operations_{4};
  std::shared_ptr<int> share_ = std::make_shared<int>();
  std::optional<RetiredMemory> memory_;
};

TEST_F(RetiredMemoryTest, GivesBackPagesAtOnceAndTheRegistrationLater) {
  MemoryRegion region = NewRegion(RegionUse::kRemoteTarget);
  const std::byte* const data = region.data();
  memory_->Retire(std::move(region), share_, operations_, 0);
  EXPECT_EQ(data[0], std::byte{0});
  EXPECT_EQ(data[kBytes - 1], std::byte{0});
  EXPECT_TRUE(memory_->has_recent());
  EXPECT_EQ(share_.use_count(), 2);
  memory_->ReleaseDue(kRetirementNs, operations_);
  EXPECT_TRUE(memory_->has_recent());
  EXPECT_EQ(memory_->quarantine().bytes(), 0u);
  memory_->ReleaseDue(kRetirementNs + 1, operations_);
  EXPECT_FALSE(memory_->has_recent());
  EXPECT_EQ(memory_->in_use(), 0u);
  EXPECT_EQ(share_.use_count(), 1);
  EXPECT_EQ(memory_->quarantine().bytes(), kBytes);
}

TEST_F(RetiredMemoryTest, MemoryThatNoPeerCouldWriteToIsNotQuarantined) {
  memory_->Retire(NewRegion(RegionUse::kSource), nullptr, operations_, 0);
  memory_->ReleaseDue(kLaterNs, operations_);
  EXPECT_FALSE(memory_->has_recent());
  EXPECT_EQ(memory_->quarantine().bytes(), 0u);
}

TEST_F(RetiredMemoryTest, OutstandingOperationKeepsItsBytesAndTheRegistration) {
  const std::byte* data = nullptr;
  Operation* const operation = RetireInUse(RegionUse::kRemoteTarget, &data);
  for (int64_t now_ns = kLaterNs; now_ns < 5 * kLaterNs; now_ns += kLaterNs) {
    EXPECT_EQ(data[0], std::byte{0});
    EXPECT_EQ(data[4096], std::byte{'x'});
    EXPECT_EQ(data[8191], std::byte{'x'});
    EXPECT_EQ(data[8192], std::byte{0});
    memory_->ReleaseDue(now_ns, operations_);
    EXPECT_EQ(memory_->in_use(), 1u);
    EXPECT_FALSE(memory_->has_recent());
    EXPECT_EQ(share_.use_count(), 1) << "the operation alone does not keep the share";
  }
  operations_.Release(operation);
  memory_->ReleaseDue(6 * kLaterNs, operations_);
  EXPECT_EQ(memory_->in_use(), 0u);
  EXPECT_EQ(memory_->quarantine().bytes(), kBytes);
}

TEST_F(RetiredMemoryTest, KeepReleasesNothing) {
  memory_->Retire(NewRegion(RegionUse::kRemoteTarget), share_, operations_, 0);
  memory_->Keep();
  memory_->ReleaseDue(kLaterNs, operations_);
  EXPECT_TRUE(memory_->has_recent());
  EXPECT_EQ(memory_->quarantine().bytes(), 0u);
  memory_->DropShares();
  EXPECT_EQ(share_.use_count(), 1);
}

TEST_F(RetiredMemoryTest, EmptyRegionIsNothingToRetire) {
  memory_->Retire(MemoryRegion(), share_, operations_, 0);
  EXPECT_FALSE(memory_->has_recent());
  EXPECT_EQ(share_.use_count(), 1);
}

}  // namespace
}  // namespace invoker::transport
