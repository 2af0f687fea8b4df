#include "src/transport/reactor/operation_slots.h"

#include <memory>
#include <set>
#include <utility>

#include "gtest/gtest.h"
#include "src/transport/base/ring_message.h"
#include "tests/transport/local_fabric.h"

namespace invoker::transport {
namespace {

constexpr size_t kSlots = 4;
constexpr size_t kEagerBytes = 256;
constexpr int64_t kAfterNs = 1'000'000;

class Owner final : public OperationOwner {
 public:
  void OnOperationFailed(const Operation&, const absl::Status&) override {}
};

class OperationSlotsTest : public testing::Test {
 protected:
  void SetUp() override {
    fabric_ = LocalFabric::Open("shm");
    ASSERT_NE(fabric_, nullptr);
    ASSERT_TRUE(slots_.Open(register_).ok());
  }

  // Takes every slot, and lets their owner go at `now_ns`.
  void LoseAll(int64_t now_ns) {
    while (Operation* operation = slots_.pool().Acquire()) operation->owner = &owner_;
    slots_.pool().RetireAllOf(&owner_, now_ns);
  }

  std::unique_ptr<LocalFabric> fabric_;
  OperationSlots slots_{kSlots, kEagerBytes, absl::Nanoseconds(kAfterNs)};
  Owner owner_;
  bool has_memory_ = true;
  const std::function<absl::StatusOr<MemoryRegion>(HostBuffer)> register_ =
      [this](HostBuffer buffer) -> absl::StatusOr<MemoryRegion> {
    if (!has_memory_) return absl::ResourceExhaustedError("no memory");
    return MemoryRegion::Register(*fabric_->fabric, *fabric_->domain, *fabric_->endpoint,
                                  std::move(buffer), RegionUse::kSource);
  };
};

TEST_F(OperationSlotsTest, EverySlotHasMemoryOfItsOwn) {
  std::set<const std::byte*> places;
  while (Operation* operation = slots_.pool().Acquire()) {
    ASSERT_NE(operation->staging, nullptr);
    EXPECT_GE(operation->staging_bytes, MaxRingMessageBytes(kEagerBytes));
    memset(operation->staging, 0x55, operation->staging_bytes);
    for (const std::byte* place : places) {
      const size_t apart =
          place < operation->staging ? operation->staging - place : place - operation->staging;
      EXPECT_GE(apart, operation->staging_bytes);
    }
    places.insert(operation->staging);
  }
  EXPECT_EQ(places.size(), kSlots);
  EXPECT_EQ(*slots_.spare_byte(), std::byte{0});
}

TEST_F(OperationSlotsTest, ReplacesTheSlotsThatAreQuarantined) {
  LoseAll(0);
  EXPECT_TRUE(slots_.Replace(kAfterNs - 1, register_).ok());
  EXPECT_EQ(slots_.pool().quarantined(), 0u);
  EXPECT_TRUE(slots_.Replace(2 * kAfterNs, register_).ok());
  EXPECT_EQ(slots_.pool().quarantined(), kSlots);
  size_t acquired = 0;
  for (; Operation* operation = slots_.pool().Acquire(); ++acquired) {
    EXPECT_NE(operation->staging, nullptr);
  }
  EXPECT_EQ(acquired, kSlots);
}

TEST_F(OperationSlotsTest, WithoutMemoryForMoreItAsksAgain) {
  LoseAll(0);
  has_memory_ = false;
  EXPECT_EQ(slots_.Replace(2 * kAfterNs, register_).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(slots_.pool().capacity(), 0u);
  has_memory_ = true;
  EXPECT_TRUE(slots_.Replace(4 * kAfterNs, register_).ok());
  EXPECT_EQ(slots_.pool().capacity(), kSlots);
}

TEST_F(OperationSlotsTest, SaysWhenTheProviderKeepsEverySlot) {
  int64_t now_ns = 0;
  for (size_t round = 1; round < OperationPool::kMostGrowth; ++round) {
    LoseAll(now_ns);
    now_ns += 2 * kAfterNs;
    ASSERT_TRUE(slots_.Replace(now_ns, register_).ok()) << round;
  }
  LoseAll(now_ns);
  const absl::Status status = slots_.Replace(now_ns + 2 * kAfterNs, register_);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

}  // namespace
}  // namespace invoker::transport
