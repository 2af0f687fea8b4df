// Executors and the worker around them: numbers, assignment, ends.

#include "src/invoke/executor/executor.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "tests/invoke/served_client.h"
#include "tests/invoke/session_pair.h"
#include "tests/transport/immediates.h"

namespace invoker {
namespace {

constexpr uint64_t kWindow = 4096;

class ExecutorTest : public testing::TestWithParam<const char*> {
 protected:
  ExecutorTest() : registry_(MakeTestFunctions(&functions_)), client_(OpenReactor(GetParam())) {
    ClientSession::Options options;
    options.window_bytes = kWindow;
    auto session = ClientSession::Create(client_.get(), options);
    EXPECT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  std::unique_ptr<Executor> Start(ExecutorOptions options = {}) {
    options.hot_timeout = absl::Microseconds(100);
    std::vector<transport::FabricChoice> fabrics;
    fabrics.push_back(*DiscoverLoopback(GetParam()));
    return *Executor::Start(std::move(fabrics), &registry_, options,
                            [](Executor::SessionKey, const absl::Status&) {});
  }

  // A session for a client that never calls.
  absl::StatusOr<Executor::SessionKey> Open(Executor* executor) {
    auto reply = executor->OpenSession(0, session_->MakeRequest(Notification::kWriteImm),
                                       Notification::kWriteImm);
    if (!reply.ok()) return reply.status();
    return Executor::SessionKey{reply->request_session, reply->epoch};
  }

  bootstrap::OpenSessionRequest RequestFor(const Worker& worker) {
    auto request = session_->MakeRequest(transport::StrongestOn(GetParam()));
    request.fabric = worker.Info().fabrics[0].identity;
    return request;
  }

  TestFunctions functions_;
  FunctionRegistry registry_;
  std::unique_ptr<transport::Reactor> client_;
  std::unique_ptr<ClientSession> session_;
};

std::string Name(const testing::TestParamInfo<const char*>& info) { return NameOfProvider(info); }

INSTANTIATE_TEST_SUITE_P(Providers, ExecutorTest, testing::Values("tcp;ofi_rxm", "shm"), Name);

TEST_P(ExecutorTest, SessionNumbersAndEpochsWrapAndSkipLiveOnes) {
  ExecutorOptions options;
  options.first_session = 65534;
  options.first_epoch = 0xfffffffe;
  std::unique_ptr<Executor> executor = Start(options);
  std::vector<Executor::SessionKey> keys;
  for (int i = 0; i < 4; ++i) {
    auto key = Open(executor.get());
    ASSERT_TRUE(key.ok()) << key.status();
    keys.push_back(*key);
  }
  EXPECT_EQ(keys[0].number, 65534);
  EXPECT_EQ(keys[1].number, 65535);
  EXPECT_EQ(keys[2].number, 0);
  EXPECT_EQ(keys[3].number, 1);
  EXPECT_EQ(keys[0].epoch, 0xfffffffe);
  EXPECT_EQ(keys[2].epoch, 0u);
  EXPECT_EQ(executor->live_sessions(), 4u);
  // Another executor wraps onto a number that lives.
  ASSERT_TRUE(executor->CloseSession(keys[2]).ok());
  EXPECT_TRUE(absl::IsNotFound(executor->CloseSession(keys[2])));
  // A key of another epoch names nobody.
  EXPECT_TRUE(absl::IsNotFound(executor->CloseSession({keys[3].number, keys[3].epoch + 1})));
  EXPECT_EQ(executor->live_sessions(), 3u);
}

// They are like a server's before and after a restart: what was meant for the one is of no session
// of the other.
TEST_P(ExecutorTest, NoTwoExecutorsBeginWithTheSameEpochNorAllWithTheSameNumber) {
  constexpr int kExecutors = 6;
  std::set<uint32_t> epochs;
  std::set<uint16_t> numbers;
  for (int i = 0; i < kExecutors; ++i) {
    std::unique_ptr<Executor> executor = Start();
    auto key = Open(executor.get());
    ASSERT_TRUE(key.ok()) << key.status();
    epochs.insert(key->epoch);
    numbers.insert(key->number);
  }
  EXPECT_EQ(epochs.size(), size_t{kExecutors});
  EXPECT_GT(numbers.size(), 1u);
}

TEST_P(ExecutorTest, AWholeRoundOfNumbersSkipsTheLiveOne) {
  ExecutorOptions options;
  options.first_session = 65535;
  std::unique_ptr<Executor> executor = Start(options);
  auto first = Open(executor.get());
  ASSERT_TRUE(first.ok());
  ASSERT_EQ(first->number, 65535);
  std::set<uint16_t> seen;
  for (int i = 0; i < 100; ++i) {
    auto key = Open(executor.get());
    ASSERT_TRUE(key.ok());
    EXPECT_TRUE(seen.insert(key->number).second);
    ASSERT_TRUE(executor->CloseSession(*key).ok());
  }
  EXPECT_EQ(seen.count(65535), 0u);
}

TEST_P(ExecutorTest, SessionsBeyondTheFirstFewOfAHotExecutorMayHaveASecondEndpoint) {
  constexpr int kSessions = 20;
  std::vector<transport::FabricChoice> fabrics;
  fabrics.push_back(*DiscoverLoopback(GetParam()));
  const size_t endpoints = fabrics.front().profile.wait_slows_polling ? 2 : 1;
  std::unique_ptr<Executor> executor =
      *Executor::Start(std::move(fabrics), &registry_, ExecutorOptions(),
                       [](Executor::SessionKey, const absl::Status&) {});
  std::vector<Executor::SessionKey> keys;
  std::set<std::string> addresses;
  for (int i = 0; i < kSessions; ++i) {
    auto reply = executor->OpenSession(0, session_->MakeRequest(Notification::kWriteImm),
                                       Notification::kWriteImm);
    ASSERT_TRUE(reply.ok()) << reply.status();
    keys.push_back({reply->request_session, reply->epoch});
    addresses.insert(reply->endpoint_address);
    if (i < 16) {
      EXPECT_EQ(addresses.size(), 1u);
    }
  }
  EXPECT_EQ(addresses.size(), endpoints);
  EXPECT_EQ(executor->Uses()[0].live_sessions, uint32_t{kSessions});
  EXPECT_EQ(executor->Counters().live_sessions, uint64_t{kSessions});
  for (const Executor::SessionKey& key : keys) {
    EXPECT_TRUE(executor->SwitchNotification(key, Notification::kSendAfterWrite).ok());
    EXPECT_TRUE(executor->CloseSession(key).ok());
    EXPECT_TRUE(absl::IsNotFound(executor->CloseSession(key)));
  }
  EXPECT_EQ(executor->live_sessions(), 0u);
}

TEST_P(ExecutorTest, OpeningAndClosingLeavesNothing) {
  std::unique_ptr<Executor> executor = Start();
  for (int i = 0; i < 200; ++i) {
    auto key = Open(executor.get());
    ASSERT_TRUE(key.ok()) << key.status();
    ASSERT_TRUE(executor->CloseSession(*key).ok());
  }
  const ExecutorCounters counters = executor->Counters();
  EXPECT_EQ(counters.live_sessions, 0u);
  EXPECT_EQ(executor->live_sessions(), 0u);
}

TEST_P(ExecutorTest, AnEndpointWithoutRoomForMoreIsReplacedBesideItsSessions) {
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  std::vector<std::string> notes;
  ExecutorOptions options;
  options.reactor.quarantine_bytes = 1;
  options.reactor.retirement = absl::Milliseconds(1);
  options.on_endpoint = [&notes](absl::string_view note) { notes.emplace_back(note); };
  std::unique_ptr<Executor> executor = Start(options);
  const auto request = session_->MakeRequest(Notification::kWriteImm);
  const auto open = [&] { return executor->OpenSession(0, request, Notification::kWriteImm); };
  const auto first = open();
  const auto second = open();
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_EQ(first->endpoint_address, second->endpoint_address);
  ASSERT_TRUE(executor->CloseSession({first->request_session, first->epoch}).ok());
  while (executor->Counters().quarantined_bytes < kWindow && absl::Now() < give_up) {
    executor->FinishTurn();
  }
  EXPECT_GE(executor->Counters().quarantined_ranges, 1u);
  EXPECT_TRUE(executor->healthy(0));
  EXPECT_TRUE(notes.empty());
  const auto third = open();
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_NE(third->endpoint_address, first->endpoint_address);
  EXPECT_EQ(notes.size(), 1u);
  EXPECT_EQ(executor->live_sessions(), 2u);
  EXPECT_EQ(executor->Uses()[0].live_sessions, 2u);
  EXPECT_EQ(executor->Counters().live_sessions, 2u);
  EXPECT_GE(executor->Counters().quarantined_bytes, kWindow);
  for (const auto* session : {&*second, &*third}) {
    const Executor::SessionKey key = {session->request_session, session->epoch};
    EXPECT_TRUE(executor->SwitchNotification(key, Notification::kSendAfterWrite).ok());
    EXPECT_TRUE(executor->CloseSession(key).ok());
    EXPECT_TRUE(absl::IsNotFound(executor->CloseSession(key)));
  }
  EXPECT_EQ(executor->live_sessions(), 0u);
}

// Each place is a mapping of the kernel's, of which a process has 65530.
TEST_P(ExecutorTest, WhatSessionsOfTheDefaultSizeLeaveLiesInFewPlaces) {
  constexpr int kSessions = 100;
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  ExecutorOptions options;
  options.reactor.retirement = absl::Milliseconds(1);
  std::unique_ptr<Executor> executor = Start(options);
  auto request = session_->MakeRequest(Notification::kWriteImm);
  request.window_bytes = kDefaultWindowBytes;
  std::vector<Executor::SessionKey> keys;
  for (int i = 0; i < kSessions; ++i) {
    const auto reply = executor->OpenSession(0, request, Notification::kWriteImm);
    ASSERT_TRUE(reply.ok()) << reply.status();
    keys.push_back({reply->request_session, reply->epoch});
  }
  for (const Executor::SessionKey& key : keys) ASSERT_TRUE(executor->CloseSession(key).ok());
  while (executor->Counters().quarantined_bytes < kSessions * kDefaultWindowBytes &&
         absl::Now() < give_up) {
    executor->FinishTurn();
  }
  EXPECT_GE(executor->Counters().quarantined_bytes, kSessions * kDefaultWindowBytes);
  EXPECT_LT(executor->Counters().quarantined_ranges, uint64_t{kSessions} / 4);
}

TEST_P(ExecutorTest, AfterStopNothingBlocksAndNothingOpens) {
  std::unique_ptr<Executor> executor = Start();
  auto key = Open(executor.get());
  ASSERT_TRUE(key.ok());
  executor->Stop(absl::InfiniteDuration());
  EXPECT_EQ(executor->live_sessions(), 0u);
  EXPECT_TRUE(absl::IsUnavailable(Open(executor.get()).status()));
  EXPECT_TRUE(absl::IsNotFound(executor->CloseSession(*key)));
  EXPECT_TRUE(absl::IsNotFound(executor->SwitchNotification(*key, Notification::kWriteImm)));
  executor->Drain();
  EXPECT_EQ(executor->Counters().live_sessions, 0u);
  executor->Stop(absl::ZeroDuration());
}

TEST_P(ExecutorTest, ThreadsThatAskWhileItStopsAreAllAnswered) {
  for (int round = 0; round < 5; ++round) {
    std::unique_ptr<Executor> executor = Start();
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        while (true) {
          auto key = Open(executor.get());
          if (!key.ok()) {
            EXPECT_TRUE(absl::IsUnavailable(key.status())) << key.status();
            return;
          }
          executor->CloseSession(*key).IgnoreError();
        }
      });
    }
    while (executor->Counters().live_sessions == 0) std::this_thread::yield();
    executor->Stop(absl::Seconds(1));
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_P(ExecutorTest, ADrainingExecutorOpensNothing) {
  std::unique_ptr<Executor> executor = Start();
  executor->Drain();
  EXPECT_TRUE(absl::IsUnavailable(Open(executor.get()).status()));
}

TEST_P(ExecutorTest, AWindowThatIsNoneIsRefused) {
  std::unique_ptr<Executor> executor = Start();
  auto request = session_->MakeRequest(Notification::kWriteImm);
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{5000}, uint64_t{1} << 62}) {
    request.window_bytes = bytes;
    EXPECT_FALSE(executor->OpenSession(0, request, Notification::kWriteImm).ok());
  }
  EXPECT_TRUE(Open(executor.get()).ok());
}

using WorkerTest = ExecutorTest;
INSTANTIATE_TEST_SUITE_P(Providers, WorkerTest, testing::Values("tcp;ofi_rxm", "shm"), Name);

TEST_P(WorkerTest, SessionsGoToTheExecutorWithTheFewest) {
  WorkerOptions options;
  options.executors = 3;
  options.window_bytes = kWindow;
  ServedWorker served(GetParam(), options);
  std::map<uint32_t, int> sessions;
  std::map<uint32_t, uint64_t> handles;
  for (int i = 0; i < 6; ++i) {
    auto reply = served.worker->OpenSession(1, RequestFor(*served.worker));
    ASSERT_TRUE(reply.ok()) << reply.status();
    ++sessions[reply->executor];
    handles[reply->executor] = reply->handle;
  }
  for (uint32_t executor = 0; executor < 3; ++executor) EXPECT_EQ(sessions[executor], 2);
  ASSERT_TRUE(served.worker->CloseSession(1, handles[1]).ok());
  auto reply = served.worker->OpenSession(1, RequestFor(*served.worker));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->executor, 1u);
}

TEST_P(WorkerTest, ALeaseEndsItsOwnSessionsOnly) {
  WorkerOptions options;
  options.window_bytes = kWindow;
  ServedWorker served(GetParam(), options);
  const auto request = RequestFor(*served.worker);
  std::vector<uint64_t> handles;
  for (const uint64_t lease : {1, 1, 2}) {
    auto reply = served.worker->OpenSession(lease, request);
    ASSERT_TRUE(reply.ok()) << reply.status();
    handles.push_back(reply->handle);
  }
  EXPECT_TRUE(absl::IsNotFound(served.worker->CloseSession(2, handles[0])));
  EXPECT_TRUE(absl::IsNotFound(
      served.worker->SwitchNotification(2, handles[0], Notification::kWriteImm, "")));
  served.worker->CloseLease(1);
  EXPECT_EQ(served.worker->Counters().live_sessions, 1u);
  EXPECT_TRUE(absl::IsNotFound(served.worker->CloseSession(1, handles[0])));
  EXPECT_TRUE(served.worker->CloseSession(2, handles[2]).ok());
  served.worker->CloseLease(2);
  served.worker->CloseLease(3);
  EXPECT_EQ(served.worker->Counters().live_sessions, 0u);
}

TEST_P(WorkerTest, AClientCannotSwitchToWhatTheWorkersUserForbade) {
  WorkerOptions options;
  options.window_bytes = kWindow;
  options.notification = Notification::kSendAfterWrite;
  ServedWorker served(GetParam(), options);
  auto request = RequestFor(*served.worker);
  request.notification = Notification::kAuto;
  auto reply = served.worker->OpenSession(1, request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->notification, Notification::kSendAfterWrite);
  EXPECT_TRUE(absl::IsFailedPrecondition(
      served.worker->SwitchNotification(1, reply->handle, Notification::kWriteImm, "")));
  EXPECT_TRUE(
      served.worker->SwitchNotification(1, reply->handle, Notification::kSendAfterWrite, "").ok());
}

TEST_P(WorkerTest, OneOldSessionKeepsNobodyOutHoweverManyComeAndGo) {
  constexpr size_t kReplaced = 3;
  constexpr uint64_t kSessionsEach = 4;
  const absl::Time give_up = absl::Now() + absl::Minutes(2);
  WorkerOptions options;
  options.window_bytes = kWindow;
  options.executor.reactor.quarantine_bytes = kSessionsEach * kWindow;
  options.executor.reactor.retirement = absl::Milliseconds(1);
  ServedWorker served(GetParam(), options);
  absl::Mutex mutex;
  std::vector<std::string> notes;
  served.worker->set_on_endpoint([&](absl::string_view note) {
    absl::MutexLock lock(&mutex);
    notes.emplace_back(note);
  });
  const auto replaced = [&] {
    absl::MutexLock lock(&mutex);
    return notes.size();
  };
  std::unique_ptr<Client> old = served.Connect();
  ASSERT_NE(old, nullptr);
  uint64_t calls = 0;
  while (replaced() < kReplaced && absl::Now() < give_up) {
    std::unique_ptr<Client> client = served.Connect();
    ASSERT_NE(client, nullptr);
    // Calls of both wait together, each at an endpoint of its own.
    Future theirs = client->InvokeAsync(Find(*client, "echo"), "new");
    Future ours = old->InvokeAsync(Find(*old, "echo"), "old");
    absl::StatusOr<Response> their_answer = theirs.Get();
    absl::StatusOr<Response> our_answer = ours.Get();
    ASSERT_TRUE(their_answer.ok() && our_answer.ok())
        << their_answer.status() << our_answer.status();
    EXPECT_EQ(their_answer->text(), "new");
    EXPECT_EQ(our_answer->text(), "old");
    calls += 2;
  }
  EXPECT_EQ(replaced(), kReplaced);
  EXPECT_GE(calls, 2 * kReplaced * kSessionsEach);
  const ExecutorCounters counters = served.worker->Counters();
  EXPECT_GE(counters.executed, calls);
  EXPECT_EQ(counters.live_sessions, 1u);
  EXPECT_EQ(TotalDrops(counters.dropped), 0u);
  EXPECT_EQ(served.worker->Usage().calls, calls);
  served.worker->set_on_endpoint(nullptr);
}

// A function tells nothing of another session's requests, but turns before it have.
TEST_P(WorkerTest, ARequestThatIsNotThereIsMissedWhileAFunctionOfAnotherSessionRuns) {
  WorkerOptions options;
  options.window_bytes = kWindow;
  ServedWorker served(GetParam(), options);
  auto silent = served.worker->OpenSession(1, RequestFor(*served.worker));
  ASSERT_TRUE(silent.ok()) << silent.status();
  const auto ask = [&](uint64_t sequence) {
    return served.worker->FindRequest(1, silent->handle, sequence);
  };
  std::unique_ptr<Client> client = served.Connect();
  ASSERT_NE(client, nullptr);
  // An executor that gets no processor answers that it cannot tell.
  const absl::Time give_up = absl::Now() + absl::Minutes(1);
  while (ask(1).value() != bootstrap::RequestState::kNotArrived && absl::Now() < give_up) {
  }
  Future gate = client->InvokeAsync(Find(*client, "gate"), "");
  served.functions.entered.WaitForNotification();
  EXPECT_EQ(ask(1).value(), bootstrap::RequestState::kNotArrived);
  // Nobody has looked for this one.
  EXPECT_EQ(ask(2).value(), bootstrap::RequestState::kInHand);
  served.functions.open.Notify();
  EXPECT_TRUE(gate.Get().ok());
  ASSERT_TRUE(served.worker->CloseSession(1, silent->handle).ok());
  EXPECT_TRUE(absl::IsNotFound(ask(1).status()));
}

// Both requests are in the queue when the executor comes back to it, so that one turn takes them.
TEST_P(WorkerTest, AReadyResponseDoesNotWaitForTheNextFunction) {
  WorkerOptions options;
  options.window_bytes = kWindow;
  ServedWorker served(GetParam(), options);
  std::unique_ptr<Client> client = served.Connect();
  Future first = client->InvokeAsync(Find(*client, "gate"), "");
  served.functions.entered.WaitForNotification();
  Future quick = client->InvokeAsync(Find(*client, "echo"), "quick");
  Future slow = client->InvokeAsync(Find(*client, "second_gate"), "");
  served.functions.open.Notify();
  absl::StatusOr<Response> response = quick.Get();
  EXPECT_TRUE(response.ok()) << response.status();
  EXPECT_FALSE(served.functions.second_open.HasBeenNotified());
  served.functions.second_open.Notify();
  EXPECT_TRUE(slow.Get().ok());
  EXPECT_TRUE(first.Get().ok());
}

TEST_P(WorkerTest, StopsWithClientsConnected) {
  auto served = std::make_unique<ServedWorker>(GetParam());
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(served->Connect());
    EXPECT_TRUE(clients.back()->Invoke(Find(*clients.back(), "echo"), "x").ok());
  }
  const RemoteFunction echo = Find(*clients[0], "echo");
  served.reset();
  for (const std::unique_ptr<Client>& client : clients) {
    CallOptions options;
    options.timeout = absl::Seconds(30);
    const absl::Status status = client->Invoke(echo, "x", options).status();
    EXPECT_FALSE(status.ok());
    EXPECT_NE(GetCallFate(status), CallFate::kUnknown);
  }
}

// The worker hears that a client has gone when it cannot answer it, ends that session, and goes on
// with the others.
TEST_P(WorkerTest, ClientsComeAndGo) {
  WorkerOptions options;
  options.window_bytes = kWindow;
  ServedWorker served(GetParam(), options);
  std::unique_ptr<Client> stays = served.Connect();
  const RemoteFunction echo = Find(*stays, "echo");
  for (int i = 0; i < 10; ++i) {
    std::unique_ptr<Client> goes = served.Connect();
    ASSERT_NE(goes, nullptr);
    EXPECT_TRUE(goes->Invoke(echo, "goes").ok());
    EXPECT_TRUE(stays->Invoke(echo, "stays").ok());
  }
  stays.reset();
  while (served.worker->Counters().live_sessions != 0) std::this_thread::yield();
  EXPECT_EQ(TotalDrops(served.worker->Counters().dropped), 0u);
}

}  // namespace
}  // namespace invoker
