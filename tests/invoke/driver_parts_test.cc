// The parts of a call driver that need no session.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "src/invoke/session/driver/callback_delivery.h"
#include "src/invoke/session/driver/driver_role.h"
#include "src/invoke/session/driver/flush_policy.h"
#include "src/invoke/session/driver/helper_thread.h"
#include "src/invoke/session/driver/keep_alive.h"

namespace invoker {
namespace {

TEST(FlushPolicyTest, AFewRequestsLeaveAtOnceAndTheRestInCompany) {
  FlushPolicy policy;
  for (uint32_t i = 1; i <= 3 * FlushPolicy::kCompany; ++i) {
    EXPECT_EQ(policy.LeavesNow(/*under_way=*/i),
              i <= (i < FlushPolicy::kManyUnderWay ? FlushPolicy::kAlone : 1) ||
                  i % FlushPolicy::kCompany == 0)
        << i;
  }
  policy.OnTurn();
  EXPECT_TRUE(policy.LeavesNow(FlushPolicy::kManyUnderWay)) << "the first after a turn";
  EXPECT_FALSE(policy.LeavesNow(FlushPolicy::kManyUnderWay));
}

TEST(KeepAliveTest, TheShareGoesOnceClosedAndUnused) {
  KeepAlive life;
  auto object = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = object;
  life.Begin(std::move(object));
  life.Add();
  life.AddResponse();
  EXPECT_EQ(life.TakeShare(), nullptr) << "it is open";
  life.Close();
  EXPECT_EQ(life.TakeShare(), nullptr) << "a user and a response are left";
  life.Remove();
  EXPECT_EQ(life.TakeShare(), nullptr) << "a response is left";
  EXPECT_EQ(life.responses(), 1u);
  life.RemoveResponse();
  EXPECT_NE(life.TakeShare(), nullptr);
  EXPECT_TRUE(watch.expired());
}

TEST(DriverRoleTest, OneThreadHasTheRole) {
  DriverRole role;
  EXPECT_TRUE(role.TryTake());
  EXPECT_FALSE(role.TryTake());
  EXPECT_TRUE(role.taken());
  role.Leave();
  EXPECT_TRUE(role.TryTake());
}

TEST(DriverRoleTest, TheRoleIsHandedToTheThreadThatHasWaitedLongest) {
  TurnLock lock;
  DriverRole role;
  lock.Lock();
  EXPECT_FALSE(role.HandOn()) << "no thread waits";
  lock.Unlock();
  std::vector<int> order;
  const auto wait = [&](int number) {
    CallWaiter waiter;
    lock.Lock();
    while (!role.TryTake()) role.Wait(lock, &waiter, INT64_MAX);
    order.push_back(number);
    role.Leave();
    role.HandOn();
    lock.Unlock();
  };
  lock.Lock();
  ASSERT_TRUE(role.TryTake());
  lock.Unlock();
  std::thread first(wait, 1);
  const auto await_waiters = [&] {
    for (bool waits = false; !waits; std::this_thread::yield()) {
      lock.Lock();
      waits = role.others_wait();
      lock.Unlock();
    }
  };
  await_waiters();
  lock.Lock();
  role.Leave();
  EXPECT_TRUE(role.HandOn());
  lock.Unlock();
  first.join();
  EXPECT_EQ(order, std::vector<int>{1});
  EXPECT_FALSE(role.taken());
  EXPECT_FALSE(role.others_wait());
}

// Calls whose callbacks a CallbackDelivery runs.
class CallbackDeliveryTest : public testing::Test {
 protected:
  void Finish(CallDone done) {
    calls_.push_back(std::make_unique<Call>());
    calls_.back()->on_done = std::move(done);
    finished_.push_back(calls_.back().get());
  }
  void Run(bool waits_for_call = false) {
    lock_.Lock();
    while (!finished_.empty()) {
      delivery_.Run(lock_, &finished_, waits_for_call, [](Call*) -> absl::StatusOr<Response> {
        return absl::UnavailableError("gone");
      });
    }
    lock_.Unlock();
  }

  TurnLock lock_;
  CallbackDelivery delivery_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::vector<Call*> finished_;
};

TEST_F(CallbackDeliveryTest, EveryCallbackRunsOnceInOrderWithoutTheLock) {
  std::vector<int> order;
  for (int i = 0; i < 40; ++i) {
    Finish([&, i](absl::StatusOr<Response> response) {
      EXPECT_EQ(response.status().message(), "gone");
      lock_.Lock();  // would hang if it were held
      EXPECT_TRUE(delivery_.RunsHere());
      lock_.Unlock();
      order.push_back(i);
    });
  }
  Run();
  ASSERT_EQ(order.size(), 40u);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(order[i], i);
  EXPECT_FALSE(delivery_.RunsHere());
}

TEST_F(CallbackDeliveryTest, ACallbackCanRunTheNextThatItsThreadHasTaken) {
  bool second_ran = false;
  Finish([&](absl::StatusOr<Response>) {
    lock_.Lock();
    EXPECT_TRUE(delivery_.RunNext(lock_));
    EXPECT_TRUE(second_ran);
    EXPECT_FALSE(delivery_.RunNext(lock_));
    lock_.Unlock();
  });
  Finish([&](absl::StatusOr<Response>) { second_ran = true; });
  Run();
  EXPECT_TRUE(second_ran);
}

TEST_F(CallbackDeliveryTest, AThreadDoesNotWaitForResultsThatOnlyItCanDeliver) {
  EXPECT_FALSE(delivery_.OthersMayRelease(/*waiting=*/0, /*due=*/false));
  EXPECT_TRUE(delivery_.OthersMayRelease(/*waiting=*/1, /*due=*/false));
  EXPECT_TRUE(delivery_.OthersMayRelease(/*waiting=*/0, /*due=*/true));
  Finish([&](absl::StatusOr<Response>) {
    // This thread itself is the one in Run, and the one that delivers.
    lock_.Lock();
    EXPECT_FALSE(delivery_.OthersMayRelease(/*waiting=*/1, /*due=*/false));
    EXPECT_TRUE(delivery_.OthersMayRelease(/*waiting=*/2, /*due=*/false));
    lock_.Unlock();
  });
  Run(/*waits_for_call=*/true);
}

TEST_F(CallbackDeliveryTest, ClosingWaitsForCallbacksOfOtherThreads) {
  absl::Notification begun;
  absl::Notification go_on;
  bool ended = false;
  Finish([&](absl::StatusOr<Response>) {
    begun.Notify();
    go_on.WaitForNotification();
    ended = true;
  });
  std::thread other([this] { Run(); });
  begun.WaitForNotification();
  std::thread opener([&] { go_on.Notify(); });
  lock_.Lock();
  while (delivery_.AwaitOthers(lock_)) {
  }
  lock_.Unlock();
  EXPECT_TRUE(ended);
  opener.join();
  other.join();
}

TEST(HelperThreadTest, ItLeadsAfterAWatchInWhichNobodyDrove) {
  TurnLock lock;
  HelperThread helper;
  lock.Lock();
  EXPECT_FALSE(helper.leads());
  EXPECT_TRUE(helper.Rest(lock, /*under_way=*/true, /*unsent=*/false, /*gathers=*/false))
      << "nobody drove while it watched";
  helper.Watched(/*driven=*/false, /*needs_driver=*/true);
  EXPECT_TRUE(helper.leads());
  helper.OthersDrive();
  EXPECT_FALSE(helper.leads());
  helper.Watched(/*driven=*/true, /*needs_driver=*/true);
  EXPECT_FALSE(helper.leads());
  lock.Unlock();
}

TEST(HelperThreadTest, ItDoesNotWaitForAThreadThatHasTheLock) {
  TurnLock lock;
  HelperThread helper;
  std::atomic<bool> rests{false};
  lock.Lock();
  ASSERT_TRUE(helper.EnsureStarted([&] {
    lock.Lock();
    rests = true;
    helper.Rest(lock, /*under_way=*/true, /*unsent=*/false, /*gathers=*/false);
    lock.Unlock();
  }));
  lock.Unlock();
  while (!rests) std::this_thread::yield();
  lock.Lock();
  // Several of its first watches.
  for (const absl::Time end = absl::Now() + absl::Milliseconds(5); absl::Now() < end;) {
    ASSERT_FALSE(lock.Contended());
  }
  // It comes once a request is to be sent.
  while (!lock.Contended()) helper.WakeToSend();
  helper.Stop();
  lock.Unlock();
  helper.Join();
}

TEST(HelperThreadTest, ItRestsUntilItIsWokenWhenNothingIsUnderWay) {
  TurnLock lock;
  HelperThread helper;
  absl::Notification rested;
  lock.Lock();
  ASSERT_TRUE(helper.EnsureStarted([&] {
    lock.Lock();
    EXPECT_FALSE(helper.Rest(lock, /*under_way=*/false, /*unsent=*/false, /*gathers=*/false));
    lock.Unlock();
    rested.Notify();
  }));
  EXPECT_FALSE(rested.HasBeenNotified());
  helper.WakeToDrive();
  lock.Unlock();
  rested.WaitForNotification();
  lock.Lock();
  helper.Stop();
  EXPECT_FALSE(helper.EnsureStarted([] {}));
  lock.Unlock();
  helper.Join();
}

}  // namespace
}  // namespace invoker
