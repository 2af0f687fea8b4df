#include "src/invoke/executor/executor_thread.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "src/base/thread_check.h"
#include "src/invoke/executor/hot_timeout.h"
#include "src/invoke/executor/polling_time.h"

namespace invoker {
namespace {

// A thread that only runs tasks and sleeps.
class ExecutorThreadTest : public testing::Test {
 protected:
  void Start() {
    ASSERT_TRUE(thread_
                    .Start([this] {
                      while (!stop_) {
                        thread_.RunTasks();
                        if (!stop_) thread_.Sleep({}, absl::Hours(1));
                      }
                      thread_.Finish([this] { last_ = true; });
                    })
                    .ok());
  }
  ~ExecutorThreadTest() override { Stop(); }
  void Stop() {
    if (!thread_.joinable()) return;
    thread_.RunLater([this] { stop_ = true; });
    thread_.Join();
  }

  ExecutorThread thread_;
  bool last_ = false;
  bool stop_ = false;
};

TEST_F(ExecutorThreadTest, TasksRunOnTheThreadInTheirOrder) {
  Start();
  std::vector<int> order;
  std::thread::id id;
  EXPECT_TRUE(thread_.RunLater([&] { order.push_back(1); }));
  EXPECT_TRUE(thread_.Run([&] {
    order.push_back(2);
    id = std::this_thread::get_id();
  }));
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_NE(id, std::this_thread::get_id());
}

TEST_F(ExecutorThreadTest, AQuestionIsAnsweredOnlyWithinItsLimit) {
  Start();
  EXPECT_EQ(thread_.Ask<int>(absl::InfiniteDuration(), [] { return 7; }), 7);
  absl::Notification open;
  thread_.RunLater([&open] { open.WaitForNotification(); });
  EXPECT_EQ(thread_.Ask<int>(absl::Milliseconds(1), [] { return 7; }), std::nullopt);
  open.Notify();
}

TEST_F(ExecutorThreadTest, AThreadThatHasFinishedTakesNoTasks) {
  Start();
  EXPECT_FALSE(thread_.finished());
  Stop();
  EXPECT_TRUE(thread_.finished());
  EXPECT_TRUE(last_);
  bool ran = false;
  EXPECT_FALSE(thread_.Run([&ran] { ran = true; }));
  EXPECT_FALSE(thread_.RunLater([&ran] { ran = true; }));
  EXPECT_EQ(thread_.Ask<int>(absl::InfiniteDuration(), [] { return 7; }), std::nullopt);
  EXPECT_FALSE(ran);
}

TEST_F(ExecutorThreadTest, TasksThatAreThereWhenItFinishesStillRun) {
  Start();
  bool ran = false;
  thread_.RunLater([&] {
    stop_ = true;
    thread_.RunLater([&ran] { ran = true; });
  });
  thread_.Join();
  EXPECT_TRUE(ran);
}

TEST(ThreadCheckTest, OnlyTheFirstThreadIsTheSame) {
  ThreadCheck check;
  EXPECT_TRUE(check.IsSame());
  bool other = true;
  std::thread([&] { other = check.IsSame(); }).join();
  EXPECT_FALSE(other);
  EXPECT_TRUE(check.IsSame());
}

TEST(HotTimeoutTest, TheTimeIsOverInTheFirstIdleTurnOnlyIfThereIsNone) {
  HotTimeout none(absl::ZeroDuration());
  EXPECT_FALSE(none.infinite());
  EXPECT_TRUE(none.IsOver());
  HotTimeout infinite(absl::InfiniteDuration());
  EXPECT_TRUE(infinite.infinite());
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(infinite.IsOver());
}

TEST(HotTimeoutTest, EveryTurnWithAMessageBeginsTheTimeAnew) {
  HotTimeout timeout(absl::Nanoseconds(1));
  int turns = 0;
  while (!timeout.IsOver()) ++turns;
  EXPECT_GT(turns, 0);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(timeout.IsOver()) << "it stays over";
  timeout.Restart();
  EXPECT_FALSE(timeout.IsOver());
  timeout.Set(absl::InfiniteDuration());
  EXPECT_TRUE(timeout.infinite());
}

TEST(PollingTimeTest, FunctionsAreNoPartOfIt) {
  TickScale scale;
  PollingTime time;
  UsageCounters usage;
  time.AddTo(&scale, &usage);
  EXPECT_EQ(usage.polling_ns, 0u);
  time.Begin();
  while (usage.polling_ns == 0) time.AddTo(&scale, &usage);
  const uint64_t before_ns = usage.polling_ns;
  usage.function_ns = uint64_t{1} << 50;
  time.AddTo(&scale, &usage);
  EXPECT_EQ(usage.polling_ns, before_ns);
  time.End();
  usage.function_ns = 0;
  time.AddTo(&scale, &usage);
  EXPECT_EQ(usage.polling_ns, before_ns);
}

}  // namespace
}  // namespace invoker
