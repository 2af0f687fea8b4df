// The small parts: what becomes of a call, who notifies how, whose turn it is, who sleeps.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "invoker/call_fate.h"
#include "src/invoke/fabrics/host_identity.h"
#include "src/invoke/fabrics/negotiation.h"
#include "src/invoke/session/call_waiter.h"
#include "src/invoke/session/driver/turn_lock.h"

namespace invoker {
namespace {

TEST(NegotiateNotification, FollowsTheTable) {
  constexpr Notification kAuto = Notification::kAuto;
  constexpr Notification kImm = Notification::kWriteImm;
  constexpr Notification kSend = Notification::kSendAfterWrite;
  struct {
    Notification worker, client, best;
    Notification result;  // kAuto: refused
  } const kTable[] = {
      {kAuto, kAuto, kImm, kImm},  {kAuto, kAuto, kSend, kSend}, {kAuto, kImm, kImm, kImm},
      {kAuto, kImm, kSend, kAuto}, {kAuto, kSend, kImm, kSend},  {kAuto, kSend, kSend, kSend},
      {kImm, kAuto, kImm, kImm},   {kImm, kAuto, kSend, kAuto},  {kImm, kImm, kImm, kImm},
      {kImm, kImm, kSend, kAuto},  {kImm, kSend, kImm, kAuto},   {kImm, kSend, kSend, kAuto},
      {kSend, kAuto, kImm, kSend}, {kSend, kAuto, kSend, kSend}, {kSend, kImm, kImm, kAuto},
      {kSend, kImm, kSend, kAuto}, {kSend, kSend, kImm, kSend},  {kSend, kSend, kSend, kSend},
  };
  for (const auto& row : kTable) {
    const auto result = NegotiateNotification(row.worker, row.client, row.best);
    SCOPED_TRACE(testing::Message()
                 << NotificationName(row.worker) << " " << NotificationName(row.client) << " "
                 << NotificationName(row.best));
    if (row.result == kAuto) {
      EXPECT_TRUE(absl::IsFailedPrecondition(result.status())) << result.status();
    } else {
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(*result, row.result);
    }
  }
}

TEST(CallFate, ComesBackFromAStatus) {
  for (const CallFate fate : {CallFate::kNotSent, CallFate::kNotExecuted, CallFate::kMaybeExecuted,
                              CallFate::kExecuted}) {
    const absl::Status status = WithFate(absl::InternalError("x"), fate);
    EXPECT_EQ(GetCallFate(status), fate);
    EXPECT_EQ(status.message(), "x");
    EXPECT_NE(CallFateName(fate), CallFateName(CallFate::kUnknown));
  }
  EXPECT_EQ(GetCallFate(absl::InternalError("x")), CallFate::kUnknown);
  EXPECT_EQ(GetCallFate(absl::OkStatus()), CallFate::kUnknown);
  absl::Status foreign = absl::InternalError("x");
  foreign.SetPayload("invoker/call_fate", absl::Cord("never heard of"));
  EXPECT_EQ(GetCallFate(foreign), CallFate::kUnknown);
}

TEST(CallFate, TheLastOneStays) {
  absl::Status status = WithFate(absl::InternalError("x"), CallFate::kNotSent);
  status = WithFate(std::move(status), CallFate::kExecuted);
  EXPECT_EQ(GetCallFate(status), CallFate::kExecuted);
}

TEST(FunctionCode, ComesBackFromAStatusBesideTheFate) {
  for (const int32_t code : {-1, -1000, 0, INT32_MIN, INT32_MAX}) {
    const absl::Status status =
        WithFunctionCode(WithFate(absl::InternalError("x"), CallFate::kExecuted), code);
    EXPECT_EQ(GetFunctionCode(status), code);
    EXPECT_EQ(GetCallFate(status), CallFate::kExecuted);
  }
  EXPECT_FALSE(GetFunctionCode(absl::InternalError("x")).has_value());
}

TEST(HostIdentity, IsTheSameWheneverItIsAsked) {
  const uint64_t identity = HostIdentity();
  EXPECT_EQ(HostIdentity(), identity);
  uint64_t from_thread = 0;
  std::thread([&] { from_thread = HostIdentity(); }).join();
  EXPECT_EQ(from_thread, identity);
}

TEST(TurnLock, OneThreadAtATimeHoldsIt) {
  TurnLock lock;
  uint64_t counter = 0;  // deliberately not atomic
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20000; ++i) {
        lock.Lock();
        ++counter;
        if (t == 0 && lock.Contended()) lock.Yield();
        lock.Unlock();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 80000u);
  EXPECT_FALSE(lock.Contended());
}

// The holder never lets go by itself: only Yield can let the other in.
TEST(TurnLock, YieldLetsAWaitingThreadIn) {
  TurnLock lock;
  std::atomic<int> turns{0};
  lock.Lock();
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      lock.Lock();
      turns.fetch_add(1);
      lock.Unlock();
    }
  });
  while (turns.load() < 100) {
    if (!lock.Contended()) continue;
    const int before = turns.load();
    lock.Yield();
    EXPECT_GT(turns.load(), before);
  }
  lock.Unlock();
  other.join();
}

TEST(TurnLock, YieldWithoutWaitersKeepsTheLock) {
  TurnLock lock;
  lock.Lock();
  lock.Yield();
  std::atomic<bool> entered{false};
  std::thread other([&] {
    lock.Lock();
    entered = true;
    lock.Unlock();
  });
  while (!lock.Contended()) std::this_thread::yield();
  EXPECT_FALSE(entered);
  lock.Unlock();
  other.join();
}

TEST(CallWaiter, AWakeThatComesFirstIsNotLost) {
  CallWaiter waiter;
  waiter.Wake();
  waiter.Wait(absl::InfiniteDuration());
}

TEST(CallWaiter, AWakeEndsTheWaitOfAnotherThread) {
  CallWaiter waiter;
  std::thread sleeper([&] { waiter.Wait(absl::InfiniteDuration()); });
  waiter.Wake();
  sleeper.join();
}

TEST(CallWaiter, ReturnsWithoutAWakeWhenTheLimitHasPassed) {
  CallWaiter waiter;
  waiter.Wait(absl::Milliseconds(1));
  waiter.Wait(absl::ZeroDuration());
  waiter.Wait(-absl::Seconds(1));
}

}  // namespace
}  // namespace invoker
