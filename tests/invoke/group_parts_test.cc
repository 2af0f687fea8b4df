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
#include "src/invoke/group/member_connector.h"
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
  EXPECT_TRUE(tries.TakeNext(Lost(CallFate::kMaybeExecuted), loads_));
  EXPECT_TRUE(tries.TakeNext(Lost(CallFate::kMaybeExecuted), loads_));
  EXPECT_FALSE(tries.TakeNext(Lost(CallFate::kMaybeExecuted), loads_));
  EXPECT_FALSE(CallTries(Retry(0)).TakeNext(Lost(CallFate::kMaybeExecuted), loads_));
}

TEST_F(CallTriesTest, ACallThatWasNotExecutedMovesWhateverItsCallerAllows) {
  CallTries tries(Retry(1));
  for (const CallFate fate : {CallFate::kNotSent, CallFate::kNotExecuted, CallFate::kNotSent}) {
    EXPECT_TRUE(tries.TakeNext(Lost(fate), loads_));
  }
  EXPECT_TRUE(tries.TakeNext(Lost(CallFate::kMaybeExecuted), loads_));
  EXPECT_TRUE(tries.TakeNext(Lost(CallFate::kNotExecuted), loads_));
  EXPECT_FALSE(tries.TakeNext(Lost(CallFate::kMaybeExecuted), loads_));
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

cluster::Member MemberAt(const std::string& server, uint64_t incarnation = 0) {
  cluster::Member member;
  member.server = server;
  member.incarnation = incarnation;
  return member;
}

// A group's places, as a connector fills them.
class Places {
 public:
  MemberConnector::Places Made() {
    MemberConnector::Places places;
    places.replace = [this](size_t executor, const std::shared_ptr<Client>& client) {
      EXPECT_NE(client, nullptr);
      absl::MutexLock lock(&mutex_);
      filled_.push_back(executor);
      if (refuse_ == 0) return absl::OkStatus();
      --refuse_;
      return absl::NotFoundError("a function");
    };
    places.add = [this](const std::shared_ptr<Client>& client) -> absl::StatusOr<size_t> {
      EXPECT_NE(client, nullptr);
      absl::MutexLock lock(&mutex_);
      filled_.push_back(next_);
      return next_++;
    };
    return places;
  }

  // The executors whose places have been filled, or refused, once there are so many.
  std::vector<size_t> Await(size_t count) {
    const auto enough = [this, count]()
                            ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return filled_.size() >= count; };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&enough));
    return filled_;
  }

  void RefuseNext(int count) {
    absl::MutexLock lock(&mutex_);
    refuse_ = count;
  }

 private:
  absl::Mutex mutex_;
  std::vector<size_t> filled_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 10;
  int refuse_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(MemberConnectorTest, APlaceThatCannotBeFilledIsTriedAgain) {
  ServedWorker worker("tcp;ofi_rxm");
  Places places;
  places.RefuseNext(2);
  MemberConnector connector(ClientOptions(), 1, places.Made());
  connector.Adopt(MemberAt("127.0.0.1:1"), {0});
  connector.Adopt(MemberAt(worker.server->listen_address()), {1});
  ASSERT_TRUE(connector.Start().ok());
  // Nobody answers for the first, and nobody knows the third.
  for (size_t executor = 0; executor < 3; ++executor) connector.Lost(executor);
  EXPECT_EQ(places.Await(3), std::vector<size_t>(3, 1));
}

TEST(MemberConnectorTest, AMemberThatWasMissingJoins) {
  ServedWorker worker("tcp;ofi_rxm");
  Places places;
  MemberConnector connector(ClientOptions(), 2, places.Made());
  connector.Adopt(MemberAt(worker.server->listen_address()), {});
  ASSERT_TRUE(connector.Start().ok());
  EXPECT_EQ(places.Await(2), (std::vector<size_t>{10, 11}));
}

TEST(MemberConnectorTest, AMemberThatHasLeftMakesRoomForOneThatJoins) {
  ServedWorker worker("tcp;ofi_rxm");
  Places places;
  MemberConnector connector(ClientOptions(), 1, places.Made());
  connector.Adopt(MemberAt("127.0.0.1:1"), {0});
  ASSERT_TRUE(connector.Start().ok());
  // Lost before it has left, and tried again meanwhile; and lost after.
  connector.Lost(0);
  connector.SetMembers({MemberAt(worker.server->listen_address())});
  EXPECT_EQ(places.Await(1), std::vector<size_t>{0});
  // Told again, it has joined already.
  connector.SetMembers({MemberAt(worker.server->listen_address())});
  connector.Lost(0);
  EXPECT_EQ(places.Await(2), (std::vector<size_t>{0, 0}));
}

TEST(MemberConnectorTest, AnotherRunOfAServerIsAnotherMember) {
  ServedWorker worker("tcp;ofi_rxm");
  const std::string address = worker.server->listen_address();
  Places places;
  MemberConnector connector(ClientOptions(), 1, places.Made());
  ASSERT_TRUE(connector.Start().ok());
  // An entry of an earlier run, and the one of this one.
  connector.SetMembers({MemberAt(address, worker.worker->Info().incarnation ^ 1)});
  connector.SetMembers({MemberAt(address, worker.worker->Info().incarnation ^ 1),
                        MemberAt(address, worker.worker->Info().incarnation)});
  EXPECT_EQ(places.Await(1), std::vector<size_t>{10});
}

TEST(MemberConnectorTest, AMemberThatComesBackGetsTheSessionsThatWereLostMeanwhile) {
  ServedWorker worker("tcp;ofi_rxm");
  const cluster::Member member = MemberAt(worker.server->listen_address());
  Places places;
  MemberConnector connector(ClientOptions(), 3, places.Made());
  connector.Adopt(member, {0, 1, 2});
  ASSERT_TRUE(connector.Start().ok());
  connector.SetMembers({});
  connector.Lost(1);
  connector.SetMembers({member});
  EXPECT_EQ(places.Await(1), std::vector<size_t>{1});
  // It got one session and no more. Each is followed as before.
  connector.Lost(2);
  EXPECT_EQ(places.Await(2), (std::vector<size_t>{1, 2}));
  connector.Lost(1);
  EXPECT_EQ(places.Await(3), (std::vector<size_t>{1, 2, 1}));
}

TEST(MemberConnectorTest, AMemberThatComesBackWithAllItsSessionsGetsNoOthers) {
  ServedWorker worker("tcp;ofi_rxm");
  const cluster::Member member = MemberAt(worker.server->listen_address());
  Places places;
  MemberConnector connector(ClientOptions(), 2, places.Made());
  connector.Adopt(member, {0, 1});
  ASSERT_TRUE(connector.Start().ok());
  connector.SetMembers({});
  connector.SetMembers({member});
  connector.Lost(0);
  EXPECT_EQ(places.Await(1), std::vector<size_t>{0});
}

TEST(MemberConnectorTest, AMemberWhosePlaceAnotherOneTookGetsAFurtherOne) {
  ServedWorker first("tcp;ofi_rxm");
  ServedWorker second("tcp;ofi_rxm");
  const cluster::Member member = MemberAt(first.server->listen_address());
  const cluster::Member other = MemberAt(second.server->listen_address());
  Places places;
  MemberConnector connector(ClientOptions(), 1, places.Made());
  connector.Adopt(member, {0, 1});
  ASSERT_TRUE(connector.Start().ok());
  connector.SetMembers({});
  connector.Lost(1);
  connector.SetMembers({other});
  EXPECT_EQ(places.Await(1), std::vector<size_t>{1});
  connector.SetMembers({member, other});
  EXPECT_EQ(places.Await(2), (std::vector<size_t>{1, 10}));
}

}  // namespace
}  // namespace invoker
