// What waits at an executor: the doorbells of a session, and the sessions.

#include "src/invoke/executor/session/doorbell_queue.h"

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/invoke/executor/session/turn_ring.h"

namespace invoker {
namespace {

using testing::ElementsAre;

constexpr uint32_t kCells = 64;

DoorbellQueue MakeQueue(ExecutorWatch* watch, uint32_t cells = kCells) {
  absl::StatusOr<DoorbellQueue> queue = DoorbellQueue::Allocate(cells, watch);
  EXPECT_TRUE(queue.ok()) << queue.status();
  return *std::move(queue);
}

std::vector<uint32_t> PopAll(DoorbellQueue* queue) {
  std::vector<uint32_t> cells;
  while (!queue->empty()) cells.push_back(queue->Pop().cell);
  return cells;
}

TEST(DoorbellQueueTest, KeepsTheOrderAndWhatIsSaidOfEach) {
  ExecutorWatch watch;
  DoorbellQueue queue = MakeQueue(&watch);
  EXPECT_TRUE(queue.empty());
  queue.Push({MessageKind::kProbe, 7, 5'000'000'000'123'456});
  queue.Push({MessageKind::kRequest, 63, 1000});
  queue.PushFront({MessageKind::kRequest, 0, 2000});
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_EQ(queue.Pop().cell, 0u);
  const DoorbellQueue::Doorbell probe = queue.Pop();
  EXPECT_EQ(probe.kind, MessageKind::kProbe);
  EXPECT_EQ(probe.cell, 7u);
  EXPECT_EQ(probe.arrived_ns, 5'000'000'000'123'000);
  const DoorbellQueue::Doorbell request = queue.Pop();
  EXPECT_EQ(request.kind, MessageKind::kRequest);
  EXPECT_EQ(request.cell, 63u);
  EXPECT_TRUE(queue.empty());
}

TEST(DoorbellQueueTest, OneThatWaitsAlreadyTakesNoFurtherPlace) {
  ExecutorWatch watch;
  DoorbellQueue queue = MakeQueue(&watch);
  for (int i = 0; i < 1000; ++i) queue.Push({MessageKind::kRequest, 5, 0});
  queue.Push({MessageKind::kRequest, 6, 0});
  queue.PushFront({MessageKind::kRequest, 6, 0});
  // Another kind makes it another one.
  queue.Push({MessageKind::kProbe, 5, 0});
  EXPECT_THAT(PopAll(&queue), ElementsAre(5, 6, 5));
  // Taken, it may come again.
  queue.Push({MessageKind::kRequest, 5, 0});
  EXPECT_THAT(PopAll(&queue), ElementsAre(5));
}

TEST(DoorbellQueueTest, TheWatchShowsHowManyWaitInAllQueues) {
  ExecutorWatch watch;
  DoorbellQueue queue = MakeQueue(&watch);
  queue.Push({MessageKind::kRequest, 1, 0});
  queue.Push({MessageKind::kRequest, 1, 0});
  queue.PushFront({MessageKind::kRequest, 0, 0});
  {
    DoorbellQueue other = MakeQueue(&watch);
    other.Push({MessageKind::kProbe, 1, 0});
    DoorbellQueue moved = std::move(other);
    EXPECT_EQ(watch.waiting(), 3u);
  }
  EXPECT_EQ(watch.waiting(), 2u);
  queue.Pop();
  EXPECT_EQ(watch.waiting(), 1u);
  watch.ShowBatch(5);
  EXPECT_EQ(watch.waiting(), 6u);
}

TEST(DoorbellQueueTest, HoldsEveryCellOfEveryKind) {
  for (const uint32_t cells : {64u, 16384u}) {
    ExecutorWatch watch;
    DoorbellQueue queue = MakeQueue(&watch, cells);
    // The ends of the ring are somewhere in the middle of the memory.
    for (uint32_t cell = 0; cell < cells / 2; ++cell) queue.Push({MessageKind::kRequest, cell, 0});
    for (uint32_t cell = 0; cell < cells / 4; ++cell) ASSERT_EQ(queue.Pop().cell, cell);
    for (int round = 0; round < 3; ++round) {
      for (uint32_t cell = 0; cell < cells; ++cell) {
        queue.Push({MessageKind::kRequest, cell, 0});
        queue.Push({MessageKind::kProbe, cell, 0});
      }
    }
    EXPECT_EQ(queue.size(), 2 * cells);
    std::set<std::pair<MessageKind, uint32_t>> seen;
    while (!queue.empty()) {
      const DoorbellQueue::Doorbell doorbell = queue.Pop();
      EXPECT_TRUE(seen.insert({doorbell.kind, doorbell.cell}).second);
    }
    EXPECT_EQ(seen.size(), 2 * cells);
  }
}

struct Waiter : TurnRing<Waiter>::Member {
  explicit Waiter(int number) : number(number) {}
  int number;
};

std::vector<int> TakeAll(TurnRing<Waiter>* ring) {
  std::vector<int> numbers;
  while (!ring->empty()) numbers.push_back(ring->TakeFirst()->number);
  return numbers;
}

TEST(TurnRingTest, WhoHasWaitedLongestIsFirst) {
  TurnRing<Waiter> ring;
  Waiter one(1), two(2), three(3);
  ring.Join(&one);
  ring.Join(&two);
  ring.Join(&one);
  ring.Join(&three);
  Waiter* first = ring.TakeFirst();
  EXPECT_EQ(first->number, 1);
  ring.Join(first);
  EXPECT_THAT(TakeAll(&ring), ElementsAre(2, 3, 1));
  ring.Join(&two);
  EXPECT_THAT(TakeAll(&ring), ElementsAre(2));
}

TEST(TurnRingTest, WhoGoesLeavesTheRing) {
  for (int gone = 0; gone < 3; ++gone) {
    TurnRing<Waiter> ring;
    std::vector<std::unique_ptr<Waiter>> waiters;
    for (int i = 0; i < 3; ++i) {
      waiters.push_back(std::make_unique<Waiter>(i));
      ring.Join(waiters.back().get());
    }
    waiters[gone].reset();
    Waiter late(3);
    ring.Join(&late);
    std::vector<int> expected = {0, 1, 2, 3};
    expected.erase(expected.begin() + gone);
    EXPECT_EQ(TakeAll(&ring), expected);
  }
  TurnRing<Waiter> ring;
  Waiter elsewhere(0);
  ring.Remove(&elsewhere);
  {
    Waiter alone(1);
    ring.Join(&alone);
  }
  EXPECT_TRUE(ring.empty());
}

}  // namespace
}  // namespace invoker
