// Which executor a call goes to, while sessions are lost and others follow them.

#include "src/invoke/group/executor_loads.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "invoker/call_fate.h"

namespace invoker {
namespace {

using Session = ExecutorLoads::Session;

// Never called.
Client* ClientNumber(uintptr_t number) { return reinterpret_cast<Client*>(64 * number); }

std::vector<Client*> Clients(size_t count) {
  std::vector<Client*> clients;
  for (size_t i = 0; i < count; ++i) clients.push_back(ClientNumber(i + 1));
  return clients;
}

TEST(ExecutorLoadsTest, TheLeastLoadedIsTakenAndLostOnesAreNot) {
  ExecutorLoads loads(Clients(3));
  std::set<size_t> first;
  for (int i = 0; i < 3; ++i) first.insert(loads.Begin()->executor());
  EXPECT_EQ(first.size(), 3u);
  const Session one = loads.session(1);
  loads.End(one);
  EXPECT_EQ(loads.Begin()->executor(), 1u);
  loads.End(one);
  loads.Lose(one, absl::UnavailableError("gone"));
  loads.Lose(one, absl::UnavailableError("gone again"));
  EXPECT_EQ(loads.left(), 2u);
  EXPECT_TRUE(loads.status().ok());
  for (int i = 0; i < 10; ++i) EXPECT_NE(loads.Begin()->executor(), 1u);
  loads.Lose(loads.session(0), absl::AbortedError("crashed"));
  loads.Lose(loads.session(2), absl::AbortedError("crashed last"));
  EXPECT_EQ(loads.Begin().status(), loads.status());
  EXPECT_TRUE(absl::IsAborted(loads.status())) << loads.status();
  EXPECT_TRUE(absl::StrContains(loads.status().message(), "crashed last")) << loads.status();
  EXPECT_EQ(GetCallFate(loads.status()), CallFate::kNotSent);
}

TEST(ExecutorLoadsTest, WhoIsLostForNoReasonIsLostAllTheSame) {
  ExecutorLoads loads(Clients(1));
  loads.Lose(loads.session(0), absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(loads.Begin().status())) << loads.Begin().status();
}

TEST(ExecutorLoadsTest, TheEndOfALeaseSaysMoreThanARefusedCallBeforeOrAfterIt) {
  ExecutorLoads loads(Clients(1));
  const absl::Status refused =
      WithFate(absl::UnavailableError("the worker is draining"), CallFate::kNotExecuted);
  loads.Lose(loads.session(0), refused);
  EXPECT_TRUE(absl::StrContains(loads.status().message(), "draining")) << loads.status();
  loads.Lose(loads.session(0), absl::UnavailableError("an operator has ended it"));
  EXPECT_TRUE(absl::StrContains(loads.status().message(), "operator")) << loads.status();
  loads.Lose(loads.session(0), refused);
  EXPECT_TRUE(absl::StrContains(loads.status().message(), "operator")) << loads.status();
}

TEST(ExecutorLoadsTest, ASessionFollowsThoughCallsOfTheLostOneHaveNotEnded) {
  ExecutorLoads loads(Clients(1));
  const Session first = *loads.Begin();
  loads.Lose(first, absl::UnavailableError("gone"));
  const Session second = loads.Follow(0, ClientNumber(2));
  EXPECT_EQ(loads.left(), 1u);
  EXPECT_EQ(&loads.client(0), ClientNumber(2));
  EXPECT_EQ(loads.calls(0), 0u);
  // What belongs to the first stays with it.
  EXPECT_EQ(&first.client(), ClientNumber(1));
  EXPECT_TRUE(loads.InUse(first));
  EXPECT_FALSE(loads.InUse(second));
  loads.End(first);
  EXPECT_FALSE(loads.InUse(first));
  EXPECT_EQ(loads.calls(0), 0u);
}

// The lease of a lost session may bring it, whose thread was slow.
TEST(ExecutorLoadsTest, LateNewsOfALostSessionIsNotOfTheOneThatFollows) {
  ExecutorLoads loads(Clients(1));
  int told = 0;
  loads.set_on_lost([&told](size_t) { ++told; });
  const Session first = loads.session(0);
  loads.Lose(first, absl::UnavailableError("gone"));
  const Session second = loads.Follow(0, ClientNumber(2));
  loads.Lose(first, absl::UnavailableError("gone, it is said again"));
  EXPECT_EQ(loads.left(), 1u);
  EXPECT_FALSE(second.lost());
  EXPECT_EQ(told, 1);
  loads.Lose(second, absl::UnavailableError("gone too"));
  EXPECT_EQ(loads.left(), 0u);
  EXPECT_EQ(told, 2);
}

// A race, if it did not: for the thread sanitizer to see.
TEST(ExecutorLoadsTest, WhoeverSeesThatAnExecutorIsBackSeesItsNewClient) {
  ExecutorLoads loads(Clients(1));
  for (uint64_t round = 1; round <= 100; ++round) {
    loads.Lose(loads.session(0), absl::AbortedError("lost"));
    uint64_t in_place_of_a_client = 0;
    std::thread waits([&loads, round] {
      while (loads.left() == 0) std::this_thread::yield();
      EXPECT_EQ(*reinterpret_cast<const uint64_t*>(&loads.client(0)), round);
    });
    in_place_of_a_client = round;
    loads.Follow(0, reinterpret_cast<Client*>(&in_place_of_a_client));
    waits.join();
  }
}

// Calls do so while their executors are lost and connected to again: whatever they meet, they get
// an executor or a reason. A status that is OK would be no reason, and ends the process.
TEST(ExecutorLoadsTest, WhileExecutorsComeAndGoEachCallGetsOneOrAReason) {
  constexpr size_t kExecutors = 2;
  constexpr int kRounds = 10000;
  ExecutorLoads loads(Clients(kExecutors));
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> begun{0};
  std::atomic<uint64_t> refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const absl::StatusOr<Session> session = loads.Begin();
        ++(session.ok() ? begun : refused);
        if (session.ok()) {
          const Client* const client = &session->client();
          std::this_thread::yield();
          EXPECT_EQ(&session->client(), client);
          loads.End(*session);
        } else {
          EXPECT_TRUE(absl::IsAborted(session.status())) << session.status();
        }
      }
    });
  }
  for (int round = 0; round < kRounds || begun == 0 || refused == 0; ++round) {
    for (size_t i = 0; i < kExecutors; ++i)
      loads.Lose(loads.session(i), absl::AbortedError("lost"));
    if (round % 16 == 0) std::this_thread::yield();
    for (size_t i = 0; i < kExecutors; ++i) loads.Follow(i, ClientNumber(round + 1));
    if (round % 16 == 0) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < kExecutors; ++i) EXPECT_EQ(loads.calls(i), 0u);
  EXPECT_EQ(loads.left(), kExecutors);
}

// A worker that refuses a call, because it could not read its input perhaps, serves others.
TEST(ShowsLostExecutorTest, OfRefusedCallsOnlyThoseOfAWorkerThatGoesAwayShowIt) {
  const auto refused = [](absl::StatusCode code) {
    return WithFate(absl::Status(code, "refused"), CallFate::kNotExecuted);
  };
  EXPECT_FALSE(ShowsLostExecutor(refused(absl::StatusCode::kAborted)));
  EXPECT_FALSE(MayBeRetried(refused(absl::StatusCode::kAborted)));
  EXPECT_TRUE(ShowsLostExecutor(refused(absl::StatusCode::kUnavailable)));
  EXPECT_TRUE(MayBeRetried(refused(absl::StatusCode::kUnavailable)));
  EXPECT_TRUE(ShowsLostExecutor(
      WithFate(absl::AbortedError("the executor crashed"), CallFate::kMaybeExecuted)));
}

TEST(AfterTriesTest, ALastTryThatWasNotSentDoesNotSayThatNoneWas) {
  const absl::Status lost = absl::UnavailableError("lost");
  for (const CallFate fate : {CallFate::kNotSent, CallFate::kNotExecuted}) {
    EXPECT_EQ(GetCallFate(AfterTries(WithFate(lost, fate), true)), CallFate::kMaybeExecuted);
    EXPECT_EQ(GetCallFate(AfterTries(WithFate(lost, fate), false)), fate);
  }
  for (const CallFate fate : {CallFate::kMaybeExecuted, CallFate::kExecuted}) {
    EXPECT_EQ(GetCallFate(AfterTries(WithFate(lost, fate), true)), fate);
  }
  EXPECT_EQ(AfterTries(lost, true).message(), "lost");
}

TEST(ExecutorLoadsTest, ExecutorsAreAddedWhileThereIsRoom) {
  ExecutorLoads loads(Clients(1), 2);
  const Session first = *loads.Begin();
  const absl::StatusOr<Session> added = loads.Add(ClientNumber(9));
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(added->executor(), 1u);
  EXPECT_EQ(loads.size(), 2u);
  EXPECT_EQ(loads.left(), 2u);
  EXPECT_EQ(loads.Begin()->executor(), 1u);
  EXPECT_EQ(&loads.client(1), ClientNumber(9));
  EXPECT_TRUE(absl::IsResourceExhausted(loads.Add(ClientNumber(10)).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(ExecutorLoads(Clients(1)).Add(ClientNumber(2)).status()));
  loads.Lose(*added, absl::UnavailableError("gone"));
  EXPECT_EQ(loads.left(), 1u);
  loads.End(first);
}

}  // namespace
}  // namespace invoker
