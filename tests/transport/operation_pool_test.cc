#include "src/transport/operation_pool.h"

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
  pool.slot(0).staging = staging;
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
  Operation* free = &pool.slot(operation == &pool.slot(0) ? 1 : 0);
  int local = 0;
  char* bytes = reinterpret_cast<char*>(operation);
  EXPECT_EQ(pool.FromContext(nullptr), nullptr);
  EXPECT_EQ(pool.FromContext(&local), nullptr);
  EXPECT_EQ(pool.FromContext(reinterpret_cast<void*>(UINTPTR_MAX)), nullptr);
  EXPECT_EQ(pool.FromContext(&foreign->contexts[0]), nullptr);
  EXPECT_EQ(pool.FromContext(bytes + 1), nullptr);
  EXPECT_EQ(pool.FromContext(bytes + sizeof(void*)), nullptr);
  EXPECT_EQ(pool.FromContext(&operation->source), nullptr);
  EXPECT_EQ(pool.FromContext(&pool.slot(0) - 1), nullptr);
  EXPECT_EQ(pool.FromContext(&pool.slot(0) + 2), nullptr);
  EXPECT_EQ(pool.FromContext(&free->contexts[0]), nullptr);
}

TEST(OperationPool, ReleasedSlotIsNoLongerFound) {
  OperationPool pool(1);
  Operation* operation = pool.Acquire();
  pool.Release(operation);
  EXPECT_EQ(pool.FromContext(&operation->contexts[0]), nullptr);
}

TEST(OperationPool, DisownForgetsOnlyThatOwner) {
  OperationPool pool(3);
  NoOwner leaving;
  NoOwner staying;
  Operation* first = pool.Acquire();
  Operation* second = pool.Acquire();
  Operation* third = pool.Acquire();
  first->owner = &leaving;
  second->owner = &staying;
  third->owner = &leaving;
  pool.Disown(&leaving);
  EXPECT_EQ(first->owner, nullptr);
  EXPECT_EQ(second->owner, &staying);
  EXPECT_EQ(third->owner, nullptr);
  EXPECT_EQ(pool.outstanding(), 3u);
}

TEST(OperationPool, UsesAPeerWhileAnOperationToItIsOutstanding) {
  OperationPool pool(2);
  EXPECT_FALSE(pool.Uses(7));
  Operation* operation = pool.Acquire();
  operation->peer = 7;
  EXPECT_TRUE(pool.Uses(7));
  EXPECT_FALSE(pool.Uses(8));
  pool.Release(operation);
  EXPECT_FALSE(pool.Uses(7));
}

TEST(OperationPool, ContextsAreWhereProvidersExpectThem) {
  OperationPool pool(2);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(&pool.slot(0)) % 64, 0u);
  EXPECT_EQ(static_cast<void*>(&pool.slot(1).contexts[0]), static_cast<void*>(&pool.slot(1)));
}

}  // namespace
}  // namespace invoker::transport
