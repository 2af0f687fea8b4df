#include "src/transport/reactor/driver_waker.h"

#include <atomic>
#include <memory>
#include <thread>

#include "gtest/gtest.h"
#include "tests/transport/local_fabric.h"

namespace invoker::transport {
namespace {

using Asleep = DriverWaker::Asleep;

// Longer than a healthy run takes: a sleep that lasts so long was not ended.
constexpr absl::Duration kLong = absl::Minutes(10);

class DriverWakerTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    fabric_ = LocalFabric::Open(GetParam());
    ASSERT_NE(fabric_, nullptr);
    ASSERT_TRUE(waker_.Open(&*fabric_->cq).ok());
  }

  bool Arm(bool retries = false) { return waker_.Arm(waker_.OwnSleep(), retries, /*peers=*/0); }

  std::unique_ptr<LocalFabric> fabric_;
  DriverWaker waker_{kLong};
};

TEST_P(DriverWakerTest, TaskBeforeTheSleepForbidsIt) {
  int runs = 0;
  waker_.Submit([&runs] { ++runs; });
  EXPECT_TRUE(waker_.HasTasks());
  EXPECT_FALSE(Arm());
  waker_.Disarm();
  waker_.RunTasks();
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(waker_.HasTasks());
}

TEST_P(DriverWakerTest, TaskEndsASleep) {
  std::atomic<int> runs{0};
  std::atomic<bool> stop{false};
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) {
      const int before = runs.load();
      waker_.Submit([&runs] { ++runs; });
      while (runs.load() == before && !stop.load()) std::this_thread::yield();
    }
  });
  // Without the wake-ups, one of these sleeps would outlast the test.
  while (runs.load() < 20) {
    if (Arm()) waker_.Sleep(kLong);
    waker_.Disarm();
    if (waker_.HasTasks()) waker_.RunTasks();
  }
  stop.store(true);
  other.join();
  EXPECT_EQ(runs.load(), 20);
}

TEST_P(DriverWakerTest, SignalOfOneSleepDoesNotForbidTheNext) {
  ASSERT_TRUE(Arm());
  waker_.Submit([] {});
  waker_.Sleep(kLong);
  waker_.Disarm();
  waker_.RunTasks();
  EXPECT_TRUE(Arm());
  waker_.Sleep(absl::ZeroDuration());
  waker_.Disarm();
}

TEST_P(DriverWakerTest, PostsToTryAgainEndASleepByThemselves) {
  ASSERT_TRUE(Arm(/*retries=*/true));
  waker_.Sleep(kLong);
  waker_.Disarm();
}

TEST_P(DriverWakerTest, AnEmptyQueueIsReadAgainBehindATaskAPostOrATime) {
  constexpr int64_t kLongNs = int64_t{600} * 1'000'000'000;
  EXPECT_TRUE(waker_.MayHaveEvents(/*posts=*/1));
  waker_.NoteEmpty(/*posts=*/1, kLongNs);
  // Without a descriptor to ask, it is read every time.
  const bool asks = fabric_->cq->file_descriptor() >= 0;
  EXPECT_EQ(waker_.MayHaveEvents(/*posts=*/1), !asks);
  EXPECT_TRUE(waker_.MayHaveEvents(/*posts=*/2));
  waker_.Submit([] {});
  EXPECT_TRUE(waker_.MayHaveEvents(/*posts=*/1));
  waker_.RunTasks();
  EXPECT_EQ(waker_.MayHaveEvents(/*posts=*/1), !asks);
  waker_.NoteEmpty(/*posts=*/1, /*limit_ns=*/0);
  EXPECT_TRUE(waker_.MayHaveEvents(/*posts=*/1));
}

TEST_P(DriverWakerTest, OneSleepOnSeveralEndsWithATaskOfAny) {
  const std::unique_ptr<LocalFabric> fabric = LocalFabric::Open(GetParam());
  ASSERT_NE(fabric, nullptr);
  DriverWaker second(kLong);
  ASSERT_TRUE(second.Open(&*fabric->cq).ok());
  ASSERT_TRUE(waker_.Arm(Asleep::kInPoll, false, /*peers=*/0));
  ASSERT_TRUE(second.Arm(Asleep::kInPoll, false, /*peers=*/0));
  second.Submit([] {});
  DriverWaker* const both[] = {&waker_, &second};
  DriverWaker::SleepOnAll(both, kLong);
  waker_.Disarm();
  second.Disarm();
  EXPECT_TRUE(second.HasTasks());
  second.RunTasks();
}

INSTANTIATE_TEST_SUITE_P(Every, DriverWakerTest, testing::Values("tcp;ofi_rxm", "shm"),
                         [](const testing::TestParamInfo<const char*>& info) {
                           return std::string(info.param[0] == 't' ? "Tcp" : "Shm");
                         });

}  // namespace
}  // namespace invoker::transport
