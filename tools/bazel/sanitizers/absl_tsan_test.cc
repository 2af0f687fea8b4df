// Correct uses of Abseil's synchronization. Under --config=tsan each would be reported as a race if
// absl_tsan.cc did not state the order that it gives; elsewhere they hold by Abseil's word.

#include <string>
#include <thread>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace invoker {
namespace {

constexpr int kRounds = 1000;

TEST(AbslTsanTest, MutexOrdersCriticalSections) {
  absl::Mutex mutex;
  int count = 0;
  const auto add = [&] {
    for (int i = 0; i < kRounds; ++i) {
      absl::MutexLock lock(&mutex);
      ++count;
    }
  };
  std::thread other(add);
  add();
  other.join();
  EXPECT_EQ(count, 2 * kRounds);
}

TEST(AbslTsanTest, ConditionIsEvaluatedUnderTheMutex) {
  absl::Mutex mutex;
  int turn = 0;
  std::thread other([&] {
    for (int i = 0; i < kRounds; ++i) {
      const auto odd = [&] { return turn % 2 == 1; };
      absl::MutexLock lock(&mutex, absl::Condition(&odd));
      ++turn;
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    const auto even = [&] { return turn % 2 == 0; };
    absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(&even));
    ++turn;
  }
  other.join();
  EXPECT_EQ(turn, 2 * kRounds);
}

TEST(AbslTsanTest, ReadersSeeWhatTheWriterWrote) {
  absl::Mutex mutex;
  int written = 0;
  std::thread writer([&] {
    for (int i = 0; i < kRounds; ++i) {
      absl::WriterMutexLock lock(&mutex);
      ++written;
    }
  });
  int last = 0;
  for (int i = 0; i < kRounds; ++i) {
    absl::ReaderMutexLock lock(&mutex);
    EXPECT_GE(written, last);
    last = written;
  }
  writer.join();
}

TEST(AbslTsanTest, TryLockOrdersWhenItSucceeds) {
  absl::Mutex mutex;
  int count = 0;
  std::thread other([&] {
    for (int i = 0; i < kRounds; ++i) {
      absl::MutexLock lock(&mutex);
      ++count;
    }
  });
  int taken = 0;
  for (int i = 0; i < kRounds; ++i) {
    if (mutex.TryLock()) {
      ++count;
      ++taken;
      mutex.Unlock();
    }
  }
  other.join();
  EXPECT_EQ(count, kRounds + taken);
}

TEST(AbslTsanTest, CondVarGivesTheMutexBack) {
  absl::Mutex mutex;
  absl::CondVar changed;
  std::string text;
  std::thread other([&] {
    absl::MutexLock lock(&mutex);
    text = "hello";
    changed.SignalAll();
  });
  {
    absl::MutexLock lock(&mutex);
    while (text.empty()) changed.WaitWithTimeout(&mutex, absl::Seconds(1));
    text += "!";
  }
  other.join();
  EXPECT_EQ(text, "hello!");
}

TEST(AbslTsanTest, NotificationPublishesWhatWasWrittenBefore) {
  int polled = 0;
  absl::Notification first;
  std::thread one([&] {
    polled = 1;
    first.Notify();
  });
  while (!first.HasBeenNotified()) std::this_thread::yield();
  ++polled;
  one.join();
  EXPECT_EQ(polled, 2);

  int waited = 0;
  absl::Notification second;
  std::thread two([&] {
    waited = 1;
    second.Notify();
  });
  second.WaitForNotification();
  ++waited;
  two.join();
  EXPECT_EQ(waited, 2);
}

TEST(AbslTsanTest, BlockingCounterPublishesEveryDecrement) {
  int values[2] = {0, 0};
  absl::BlockingCounter done(2);
  std::thread one([&] {
    values[0] = 1;
    done.DecrementCount();
  });
  std::thread two([&] {
    values[1] = 2;
    done.DecrementCount();
  });
  done.Wait();
  EXPECT_EQ(++values[0] + ++values[1], 5);
  one.join();
  two.join();
}

}  // namespace
}  // namespace invoker
