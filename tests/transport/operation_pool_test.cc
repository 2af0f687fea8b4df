#include "src/transport/operations/operation_pool.h"

#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace invoker::transport {
namespace {

class NoOwner final : public OperationOwner {
 public:
  void OnOperationFailed(const Operation&, const absl::Status&) override {}
};

TEST(OperationPool, HandsOutEverySlotOnceAndThenNone) {
  OperationPool pool(5);
  std::set<Operation*> slots;
  for (int i = 0; i < 5; ++i) slots.insert(pool.Acquire());
  EXPECT_EQ(slots.size(), 5u);
  EXPECT_EQ(slots.count(nullptr), 0u);
  EXPECT_EQ(pool.outstanding(), 5u);
  EXPECT_EQ(pool.Acquire(), nullptr);
  EXPECT_EQ(pool.outstanding(), 5u);
}

TEST(OperationPool, ReleasedSlotIsHandedOutAgainAsNew) {
  OperationPool pool(1);
  NoOwner owner;
  Operation* operation = pool.Acquire();
  operation->owner = &owner;
  operation->completions_due = 2;
  operation->queued = true;
  pool.Release(operation);
  EXPECT_EQ(pool.outstanding(), 0u);
  EXPECT_EQ(pool.Acquire(), operation);
  EXPECT_EQ(operation->owner, nullptr);
  EXPECT_EQ(operation->completions_due, 0);
  EXPECT_FALSE(operation->queued);
  EXPECT_EQ(operation->step, Operation::Step::kWrite);
}

TEST(OperationPool, KeepsWhatASlotHasForLife) {
  OperationPool pool(1);
  std::byte staging[8];
  pool.slots()[0].staging = staging;
  Operation* operation = pool.Acquire();
  pool.Release(operation);
  EXPECT_EQ(pool.Acquire()->staging, staging);
}

TEST(OperationPool, FindsALiveSlotByEitherOfItsContexts) {
  OperationPool pool(3);
  std::vector<Operation*> slots = {pool.Acquire(), pool.Acquire(), pool.Acquire()};
  for (Operation* operation : slots) {
    EXPECT_EQ(pool.FromContext(&operation->contexts[0]), operation);
    EXPECT_EQ(pool.FromContext(&operation->contexts[1]), operation);
  }
}

TEST(OperationPool, RefusesPointersThatAreNoContextOfItsOwn) {
  OperationPool pool(2);
  OperationPool other(2);
  Operation* operation = pool.Acquire();
  Operation* foreign = other.Acquire();
  Operation* free = &pool.slots()[operation == &pool.slots()[0] ? 1 : 0];
  int local = 0;
  char* bytes = reinterpret_cast<char*>(operation);
  EXPECT_EQ(pool.FromContext(nullptr), nullptr);
  EXPECT_EQ(pool.FromContext(&local), nullptr);
  EXPECT_EQ(pool.FromContext(reinterpret_cast<void*>(UINTPTR_MAX)), nullptr);
  EXPECT_EQ(pool.FromContext(&foreign->contexts[0]), nullptr);
  EXPECT_EQ(pool.FromContext(bytes + 1), nullptr);
  EXPECT_EQ(pool.FromContext(bytes + sizeof(void*)), nullptr);
  EXPECT_EQ(pool.FromContext(&operation->source), nullptr);
  EXPECT_EQ(pool.FromContext(pool.slots().data() - 1), nullptr);
  EXPECT_EQ(pool.FromContext(pool.slots().data() + 2), nullptr);
  EXPECT_EQ(pool.FromContext(&free->contexts[0]), nullptr);
}

TEST(OperationPool, ReleasedSlotIsNoLongerFound) {
  OperationPool pool(1);
  Operation* operation = pool.Acquire();
  pool.Release(operation);
  EXPECT_EQ(pool.FromContext(&operation->contexts[0]), nullptr);
}

TEST(OperationPool, RetireAllOfForgetsOnlyThatOwner) {
  OperationPool pool(3);
  NoOwner leaving;
  NoOwner staying;
  Operation* first = pool.Acquire();
  Operation* second = pool.Acquire();
  Operation* third = pool.Acquire();
  first->owner = &leaving;
  second->owner = &staying;
  third->owner = &leaving;
  pool.RetireAllOf(&leaving, 1);
  EXPECT_EQ(first->owner, nullptr);
  EXPECT_EQ(second->owner, &staying);
  EXPECT_EQ(third->owner, nullptr);
  EXPECT_EQ(pool.outstanding(), 3u);
}

TEST(OperationPool, UsesAPeerWhileAnOperationToItIsOutstanding) {
  OperationPool pool(2);
  EXPECT_EQ(pool.Uses().count(7), 0u);
  Operation* operation = pool.Acquire();
  operation->peer = 7;
  EXPECT_EQ(pool.Uses().at(7), PeerUse::kOutstanding);
  EXPECT_EQ(pool.Uses().count(8), 0u);
  pool.Release(operation);
  EXPECT_EQ(pool.Uses().count(7), 0u);
}

// Slots whose owner goes at 10, 20, 30, ...
class WrittenOff : public testing::Test {
 protected:
  static constexpr size_t kSlots = 4;

  Operation* Take(fi_addr_t peer = 7) {
    Operation* operation = pool_.Acquire();
    operation->peer = peer;
    operation->owner = &owner_;
    operation->completions_due = 1;
    return operation;
  }

  // Takes every slot, for owners that then go at `now_ns`.
  std::vector<Operation*> LoseAll(int64_t now_ns) {
    std::vector<Operation*> lost;
    while (pool_.outstanding() < pool_.capacity()) lost.push_back(Take());
    pool_.RetireAllOf(&owner_, now_ns);
    return lost;
  }

  NoOwner owner_;
  OperationPool pool_{kSlots};
};

TEST_F(WrittenOff, OnlyWhatHasNoOwnerSinceLongAndIsTheProviders) {
  Operation* old = Take();
  Operation* queued = Take();
  queued->queued = true;
  pool_.RetireAllOf(&owner_, 10);
  Operation* young = Take();
  pool_.Retire(young, 20);
  Operation* owned = Take();
  pool_.QuarantineRetired(9);
  EXPECT_EQ(pool_.quarantined(), 0u);
  pool_.QuarantineRetired(19);
  EXPECT_EQ(pool_.quarantined(), 1u);
  EXPECT_TRUE(old->quarantined);
  EXPECT_EQ(pool_.outstanding(), 3u);
  EXPECT_EQ(pool_.capacity(), 3u);
  pool_.QuarantineRetired(1000);
  EXPECT_TRUE(young->quarantined);
  EXPECT_FALSE(queued->quarantined);
  EXPECT_FALSE(owned->quarantined);
  EXPECT_EQ(pool_.outstanding(), 2u);
}

TEST_F(WrittenOff, SlotsAreReplacedAndTheirContextsAreFound) {
  const std::vector<Operation*> lost = LoseAll(10);
  pool_.QuarantineRetired(10);
  EXPECT_EQ(pool_.capacity(), 0u);
  EXPECT_EQ(pool_.Acquire(), nullptr);
  ASSERT_EQ(pool_.slots_to_add(), kSlots);
  EXPECT_EQ(pool_.Add(kSlots).size(), kSlots);
  EXPECT_EQ(pool_.slots_to_add(), 0u);
  EXPECT_EQ(pool_.capacity(), kSlots);
  for (size_t i = 0; i < kSlots; ++i) {
    Operation* operation = pool_.Acquire();
    ASSERT_NE(operation, nullptr);
    EXPECT_FALSE(operation->quarantined);
    EXPECT_EQ(pool_.FromContext(&operation->contexts[1]), operation);
  }
  EXPECT_EQ(pool_.Acquire(), nullptr);
  for (Operation* operation : lost) {
    EXPECT_EQ(pool_.FromContext(&operation->contexts[0]), operation);
  }
}

TEST_F(WrittenOff, OneThatCompletesAfterAllTakesThePlaceOfAnother) {
  const std::vector<Operation*> lost = LoseAll(10);
  pool_.QuarantineRetired(10);
  pool_.Release(lost[0]);
  EXPECT_EQ(pool_.quarantined(), kSlots - 1);
  EXPECT_EQ(pool_.capacity(), 1u);
  EXPECT_EQ(pool_.Acquire(), lost[0]);
  pool_.Release(lost[0]);
  pool_.Add(pool_.slots_to_add());
  EXPECT_EQ(pool_.capacity(), kSlots);
  // All that may be there are there: this one waits until it is needed.
  pool_.Release(lost[1]);
  EXPECT_EQ(pool_.capacity(), kSlots);
  EXPECT_EQ(pool_.outstanding(), 0u);
  std::set<Operation*> taken;
  while (Operation* operation = pool_.Acquire()) taken.insert(operation);
  EXPECT_EQ(taken.size(), kSlots);
  EXPECT_EQ(taken.count(lost[1]), 0u);
  Operation* next = *taken.begin();
  pool_.Retire(next, 20);
  pool_.QuarantineRetired(20);
  EXPECT_EQ(pool_.slots_to_add(), 0u);
  EXPECT_EQ(pool_.Acquire(), lost[1]);
}

TEST_F(WrittenOff, ReplacementsHaveABound) {
  int64_t now_ns = 0;
  size_t lost = 0;
  while (pool_.capacity() > 0) {
    lost += LoseAll(++now_ns).size();
    pool_.QuarantineRetired(now_ns);
    if (const size_t count = pool_.slots_to_add(); count > 0) pool_.Add(count);
  }
  EXPECT_EQ(lost, kSlots * OperationPool::kMostGrowth);
  EXPECT_EQ(pool_.slots_to_add(), 0u);
  EXPECT_EQ(pool_.Acquire(), nullptr);
}

TEST_F(WrittenOff, PeerIsKeptFromThemUntilTheyComplete) {
  Operation* lost = Take(7);
  pool_.Retire(lost, 10);
  pool_.QuarantineRetired(10);
  EXPECT_EQ(pool_.Uses().at(7), PeerUse::kQuarantined);
  Operation* later = Take(7);
  EXPECT_EQ(pool_.Uses().at(7), PeerUse::kOutstanding);
  pool_.Release(later);
  EXPECT_EQ(pool_.Uses().at(7), PeerUse::kQuarantined);
  pool_.Release(lost);
  EXPECT_EQ(pool_.Uses().count(7), 0u);
}

TEST(OperationPool, ContextsAreWhereProvidersExpectThem) {
  OperationPool pool(2);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(&pool.slots()[0]) % 64, 0u);
  EXPECT_EQ(static_cast<void*>(&pool.slots()[1].contexts[0]), static_cast<void*>(&pool.slots()[1]));
}

}  // namespace
}  // namespace invoker::transport
