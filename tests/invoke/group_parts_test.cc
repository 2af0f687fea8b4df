// What the calls of a group are made of, each part alone.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "invoker/call_fate.h"
#include "src/invoke/group/call_tries.h"
#include "src/invoke/group/deferred_calls.h"
#include "src/invoke/group/group_access.h"
#include "src/invoke/group/reconnector.h"
#include "tests/invoke/served_client.h"

namespace invoker {
namespace {

absl::Status Lost(CallFate fate) { return WithFate(absl::UnavailableError("gone"), fate); }

CallOptions Retry(uint32_t times) {
  CallOptions options;
  options.retry = times;
  return options;
}

class CallTriesTest : public testing::Test {
 protected:
  // Never called.
  static Client* ClientNumber(uintptr_t number) { return reinterpret_cast<Client*>(64 * number); }

  ExecutorLoads loads_{{ClientNumber(1), ClientNumber(2)}};
};

TEST_F(CallTriesTest, ACallIsTriedAsOftenAsItsCallerAllows) {
  CallTries tries(Retry(2));
  EXPECT_EQ(tries.options().retry, 0u);
  EXPECT_TRUE(tries.TakeNext(Lost(CallFate::kNotSent), loads_));
  EXPECT_TRUE(tries.any_left());
  EXPECT_TRUE(tries.TakeNext(Lost(CallFate::kNotSent), loads_));
  EXPECT_FALSE(tries.any_left());
  EXPECT_FALSE(tries.TakeNext(Lost(CallFate::kNotSent), loads_));
  EXPECT_FALSE(CallTries(Retry(0)).TakeNext(Lost(CallFate::kNotSent), loads_));
}

TEST_F(CallTriesTest, OnlyALostExecutorIsAReason) {
  CallTries tries(Retry(1));
  EXPECT_FALSE(tries.TakeNext(Lost(CallFate::kExecuted), loads_));
  EXPECT_FALSE(tries.TakeNext(
      WithFate(absl::DeadlineExceededError("late"), CallFate::kMaybeExecuted), loads_));
  EXPECT_FALSE(tries.TakeNext(
      WithFate(absl::NotFoundError("no such function"), CallFate::kNotExecuted), loads_));
  EXPECT_TRUE(tries.TakeNext(Lost(CallFate::kMaybeExecuted), loads_));
}

TEST_F(CallTriesTest, WithoutAnExecutorOrTimeThereIsNoOther) {
  CallOptions late = Retry(1);
  late.timeout = absl::ZeroDuration();
  CallTries tries(late);
  EXPECT_TRUE(tries.late());
  EXPECT_FALSE(tries.TakeNext(Lost(CallFate::kNotSent), loads_));
  CallTries given_up(Retry(1));
  given_up.GiveUp();
  EXPECT_FALSE(given_up.TakeNext(Lost(CallFate::kNotSent), loads_));
  for (size_t i = 0; i < 2; ++i) loads_.Lose(loads_.session(i), absl::UnavailableError("gone"));
  EXPECT_FALSE(CallTries(Retry(1)).TakeNext(Lost(CallFate::kNotSent), loads_));
}

TEST_F(CallTriesTest, TheFateIsThatOfAllTries) {
  CallTries tries(Retry(2));
  ASSERT_TRUE(tries.TakeNext(Lost(CallFate::kNotSent), loads_));
  EXPECT_EQ(GetCallFate(tries.StatusAfter(Lost(CallFate::kNotSent))), CallFate::kNotSent);
  ASSERT_TRUE(tries.TakeNext(Lost(CallFate::kMaybeExecuted), loads_));
  for (const CallFate last : {CallFate::kNotSent, CallFate::kNotExecuted}) {
    EXPECT_EQ(GetCallFate(tries.StatusAfter(Lost(last))), CallFate::kMaybeExecuted);
  }
  EXPECT_EQ(GetCallFate(tries.StatusAfter(Lost(CallFate::kExecuted))), CallFate::kExecuted);
}

TEST_F(CallTriesTest, AFurtherTryWaitsForRoom) {
  CallOptions options = Retry(1);
  options.when_full = WhenFull::kFail;
  CallTries tries(options);
  EXPECT_EQ(tries.options().when_full, WhenFull::kFail);
  ASSERT_TRUE(tries.TakeNext(Lost(CallFate::kNotSent), loads_));
  EXPECT_EQ(tries.options().when_full, WhenFull::kWaitForCalls);
}

TEST(GroupAccessTest, ThreadsInsideAreWaitedForAndNoneComesIn) {
  GroupAccess access;
  ASSERT_TRUE(access.Enter());
  ASSERT_TRUE(access.Enter());
  access.Shut();
  EXPECT_FALSE(access.Enter());
  std::atomic<int> inside{2};
  std::thread leaves([&] {
    for (int i = 0; i < 2; ++i) {
      --inside;
      access.Leave();
    }
  });
  access.AwaitNobody();
  EXPECT_EQ(inside, 0);
  leaves.join();
}

TEST(DeferredCallsTest, EachCallIsTriedUntilItStarts) {
  DeferredCalls calls;
  std::atomic<int> first{0};
  std::atomic<int> second{0};
  absl::Notification both;
  const auto count = [&](std::atomic<int>* tries, int until) {
    return [&both, &first, &second, tries, until] {
      const bool started = ++*tries == until;
      if (first == 3 && second == 1 && !both.HasBeenNotified()) both.Notify();
      return started;
    };
  };
  EXPECT_TRUE(calls.Add(count(&first, 3)));
  EXPECT_TRUE(calls.Add(count(&second, 1)));
  both.WaitForNotification();
  calls.Stop();
  EXPECT_EQ(first, 3);
  EXPECT_EQ(second, 1);
}

TEST(DeferredCallsTest, WhatRunsApartHoldsUpNoTry) {
  DeferredCalls calls;
  absl::Notification tried;
  calls.RunApart([&] { tried.WaitForNotification(); });
  calls.RunApart([&] { tried.WaitForNotification(); });
  EXPECT_TRUE(calls.Add([&] {
    tried.Notify();
    return true;
  }));
  tried.WaitForNotification();
}

TEST(DeferredCallsTest, WhatWaitsAtTheEndIsTriedOnceMore) {
  DeferredCalls calls;
  absl::Mutex mutex;
  bool sessions_closed = false;
  int ended = 0;
  const auto call = [&] {
    absl::MutexLock lock(&mutex);
    if (!sessions_closed) return false;
    ++ended;
    return true;
  };
  EXPECT_TRUE(calls.Add(call));
  {
    absl::MutexLock lock(&mutex);
    sessions_closed = true;
  }
  calls.Stop();
  EXPECT_TRUE(calls.Add(call));
  EXPECT_EQ(ended, 2);
}

TEST(ReconnectorTest, APlaceThatCannotBeFilledIsTriedAgain) {
  ServedWorker worker("tcp;ofi_rxm");
  absl::Notification replaced;
  std::vector<size_t> executors;
  Reconnector reconnector({"127.0.0.1:1", worker.server->listen_address()}, ClientOptions(),
                          [&](size_t executor, std::unique_ptr<Client> client) {
                            executors.push_back(executor);
                            EXPECT_NE(client, nullptr);
                            if (executors.size() < 3) return absl::NotFoundError("a function");
                            replaced.Notify();
                            return absl::OkStatus();
                          });
  ASSERT_TRUE(reconnector.Start().ok());
  // Nobody answers for the first, and the third has no server.
  for (size_t executor = 0; executor < 3; ++executor) reconnector.Lost(executor);
  replaced.WaitForNotification();
  EXPECT_EQ(executors, std::vector<size_t>(3, 1));
}

}  // namespace
}  // namespace invoker
