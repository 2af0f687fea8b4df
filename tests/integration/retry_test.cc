// Calls of groups that are tried again because their callers ask for it.

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/integration/group_test.h"
#include "tests/integration/rendezvous.h"

namespace invoker {
namespace {

class RetryTest : public GroupTest {
 protected:
  // Whether the tries of a call that may be tried twice have one deadline, this long after it has
  // begun. False also if that does not show, for want of time.
  bool HaveOneDeadline(bool asynchronous, absl::Duration timeout);
};

// The thread that tries one worker's call again waits for room on the other, whose functions run
// on.
TEST_P(RetryTest, AGroupMayGoWhileACallThatIsTriedAgainWaitsForRoom) {
  Rendezvous rendezvous;
  ServerProcess* doomed = StartServer();
  ServerProcess* other = StartServer();
  ASSERT_NE(other, nullptr);
  std::unique_ptr<ClientGroup> group = Group({doomed->address(), other->address()}, false);
  ASSERT_NE(group, nullptr);
  const absl::StatusOr<GroupFunction> hold = group->Function("test.rendezvous");
  ASSERT_TRUE(hold.ok()) << hold.status();
  const Bytes input(reinterpret_cast<const std::byte*>(rendezvous.path().data()),
                    rendezvous.path().size());
  std::atomic<int> under_way{0};
  CallOptions options;
  // A window has room for one such answer.
  options.response_capacity = static_cast<uint32_t>(group->client(0).max_payload() / 2 + 1);
  options.retry = 1;
  for (size_t executor = 0; executor < 2; ++executor) {
    ++under_way;
    group->InvokeAsync(*hold, input, options, [&](absl::StatusOr<Response> response) {
      EXPECT_FALSE(response.ok());
      --under_way;
    });
    ASSERT_EQ(group->calls(executor), 1u);
    ASSERT_TRUE(rendezvous.WaitUntilRunning());
  }
  doomed->Kill();
  ASSERT_TRUE(AwaitLeft(*group, 1));
  group.reset();
  EXPECT_EQ(under_way, 0);
  rendezvous.Release();
}

// Those calls of a lost worker that are tried again and have to wait for room do so without
// the others, and for no longer than they have time.
TEST_P(RetryTest, ACallThatIsTriedAgainWaitsForRoomByItself) {
  for (const bool in_time : {true, false}) {
    Rendezvous rendezvous;
    std::vector<ServerProcess*> servers = {StartServer(), StartServer()};
    ASSERT_TRUE(servers[0] != nullptr && servers[1] != nullptr);
    absl::Notification tried;
    absl::Status status;
    absl::Notification told;
    bool told_first = false;
    std::atomic<int> under_way{2};
    const std::unique_ptr<ClientGroup> group =
        Group({servers[0]->address(), servers[1]->address()}, false);
    ASSERT_NE(group, nullptr);
    const absl::StatusOr<GroupFunction> hold = group->Function("test.rendezvous");
    ASSERT_TRUE(hold.ok()) << hold.status();
    const Bytes input(reinterpret_cast<const std::byte*>(rendezvous.path().data()),
                      rendezvous.path().size());
    CallOptions large;
    // A window has room for one such answer.
    large.response_capacity = static_cast<uint32_t>(group->client(0).max_payload() / 2 + 1);
    // Keeps the room of its worker.
    group->InvokeAsync(*hold, input, large, [](absl::StatusOr<Response> response) {
      EXPECT_TRUE(response.ok()) << response.status();
    });
    ASSERT_TRUE(rendezvous.WaitUntilRunning());
    const size_t doomed = group->calls(0) == 1 ? 1 : 0;
    CallOptions twice = large;
    twice.retry = 1;
    twice.timeout = in_time ? absl::InfiniteDuration() : absl::Seconds(5);
    group->InvokeAsync(*hold, input, twice, [&](absl::StatusOr<Response> response) {
      status = response.status();
      tried.Notify();
    });
    ASSERT_EQ(group->calls(doomed), 1u);
    ASSERT_TRUE(rendezvous.WaitUntilRunning());
    // One on each.
    CallOptions small;
    small.response_capacity = 64;
    for (int i = 0; i < 2; ++i) {
      group->InvokeAsync(*hold, input, small, [&](absl::StatusOr<Response> response) {
        if (!response.ok()) {
          told_first = !tried.HasBeenNotified();
          told.Notify();
        }
        --under_way;
      });
    }
    ASSERT_EQ(group->calls(doomed), 2u);
    servers[doomed]->Kill();
    EXPECT_TRUE(told.WaitForNotificationWithTimeout(absl::Seconds(20)));
    EXPECT_TRUE(told_first);
    const auto release = [&rendezvous] {
      rendezvous.Release();
      EXPECT_TRUE(rendezvous.WaitUntilRunning());
    };
    if (in_time) {
      // Two of those left begin when the one before has ended.
      release();
      release();
      rendezvous.Release();
      tried.WaitForNotification();
      EXPECT_EQ(status, absl::OkStatus());
    } else {
      tried.WaitForNotification();
      EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
      // By the first try.
      EXPECT_EQ(CallFateName(GetCallFate(status)), "maybe_executed") << status;
      release();
      rendezvous.Release();
    }
    while (under_way > 0) absl::SleepFor(absl::Milliseconds(1));
  }
}

// What one of them is told may wait for what another one is.
TEST_P(RetryTest, ACallThatEndsWhileItWaitsForRoomHoldsUpNoOther) {
  Rendezvous rendezvous;
  std::vector<ServerProcess*> servers = {StartServer(), StartServer(), StartServer()};
  for (ServerProcess* server : servers) ASSERT_NE(server, nullptr);
  absl::Notification first_ended;
  absl::Notification second_ended;
  const std::unique_ptr<ClientGroup> group = Group(
      {servers[0]->address(), servers[1]->address(), servers[2]->address()}, /*reconnect=*/false);
  ASSERT_NE(group, nullptr);
  const absl::StatusOr<GroupFunction> hold = group->Function("test.rendezvous");
  ASSERT_TRUE(hold.ok()) << hold.status();
  const Bytes input(reinterpret_cast<const std::byte*>(rendezvous.path().data()),
                    rendezvous.path().size());
  CallOptions large;
  // A window has room for one such answer.
  large.response_capacity = static_cast<uint32_t>(group->client(0).max_payload() / 2 + 1);
  absl::Notification kept_ended;
  group->InvokeAsync(*hold, input, large, [&](absl::StatusOr<Response> response) {
    EXPECT_TRUE(response.ok()) << response.status();
    kept_ended.Notify();
  });
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  size_t kept = 0;
  while (group->calls(kept) == 0) ++kept;
  CallOptions twice = large;
  twice.retry = 1;
  twice.timeout = absl::Seconds(3);
  group->InvokeAsync(*hold, input, twice, [&](absl::StatusOr<Response> response) {
    EXPECT_EQ(response.status().code(), absl::StatusCode::kDeadlineExceeded) << response.status();
    EXPECT_TRUE(second_ended.WaitForNotificationWithTimeout(kPatience));
    first_ended.Notify();
  });
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  twice.timeout = absl::Seconds(4);
  group->InvokeAsync(*hold, input, twice, [&](absl::StatusOr<Response> response) {
    EXPECT_EQ(response.status().code(), absl::StatusCode::kDeadlineExceeded) << response.status();
    second_ended.Notify();
  });
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  for (size_t i = 0; i < servers.size(); ++i) {
    if (i != kept) servers[i]->Kill();
  }
  EXPECT_TRUE(second_ended.WaitForNotificationWithTimeout(kPatience));
  first_ended.WaitForNotification();
  rendezvous.Release();
  kept_ended.WaitForNotification();
}

TEST_P(RetryTest, ARetriedCallRunsOnAnotherExecutorAndOthersAreNotTriedAgain) {
  Rendezvous rendezvous;
  ServerProcess* doomed = StartServer();
  ServerProcess* other = StartServer();
  ASSERT_NE(other, nullptr);
  const std::unique_ptr<ClientGroup> group = Group({doomed->address(), other->address()}, false);
  ASSERT_NE(group, nullptr);
  const absl::StatusOr<GroupFunction> hold = group->Function("test.rendezvous");
  ASSERT_TRUE(hold.ok()) << hold.status();
  CallOptions again;
  again.retry = 1;
  absl::StatusOr<Response> response;
  std::thread calls([&] { response = group->Invoke(*hold, rendezvous.path(), again); });
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  ASSERT_EQ(group->calls(0), 1u);
  doomed->Kill();
  // On the other one.
  EXPECT_TRUE(rendezvous.WaitUntilRunning());
  rendezvous.Release();
  calls.join();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->text(), "held");

  absl::Notification ended;
  absl::Status status;
  const std::string path = rendezvous.path();
  group->InvokeAsync(*hold, {reinterpret_cast<const std::byte*>(path.data()), path.size()}, {},
                     [&](absl::StatusOr<Response> result) {
                       status = result.status();
                       ended.Notify();
                     });
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  other->Kill();
  ended.WaitForNotification();
  EXPECT_EQ(CallFateName(GetCallFate(status)), "maybe_executed") << status;
}

TEST_P(RetryTest, AnAsynchronousCallAndAMapAreRetriedToo) {
  Rendezvous rendezvous;
  ServerProcess* doomed = StartServer();
  ServerProcess* other = StartServer();
  ASSERT_NE(other, nullptr);
  const std::unique_ptr<ClientGroup> group = Group({doomed->address(), other->address()}, false);
  ASSERT_NE(group, nullptr);
  const absl::StatusOr<GroupFunction> hold = group->Function("test.rendezvous");
  ASSERT_TRUE(hold.ok()) << hold.status();
  CallOptions again;
  again.retry = 1;
  absl::Notification ended;
  absl::Status status;
  {
    // Gone before the second try.
    const std::string path = rendezvous.path();
    group->InvokeAsync(*hold, {reinterpret_cast<const std::byte*>(path.data()), path.size()}, again,
                       [&](absl::StatusOr<Response> result) {
                         status = result.status();
                         ended.Notify();
                       });
  }
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  MapOptions map;
  map.call = again;
  map.max_in_flight = 1;
  const std::vector<std::string> inputs = {rendezvous.path()};
  std::vector<absl::StatusOr<std::string>> results;
  std::thread maps([&] { results = group->Map(*hold, inputs, map); });
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  // One of the two runs on each; that of the killed one goes behind the other one's.
  doomed->Kill();
  rendezvous.Release();
  EXPECT_TRUE(rendezvous.WaitUntilRunning());
  rendezvous.Release();
  ended.WaitForNotification();
  maps.join();
  EXPECT_EQ(status, absl::OkStatus());
  ASSERT_EQ(results.size(), 1u);
  EXPECT_TRUE(results[0].ok()) << results[0].status();
}

// What was under way at the lost worker and waits to be tried again is not "not called" when the
// map is stopped.
TEST_P(RetryTest, AMapThatIsStoppedTellsOfWhatWasToBeTriedAgain) {
  Rendezvous rendezvous;
  std::vector<ServerProcess*> servers = {StartServer(), StartServer()};
  ASSERT_TRUE(servers[0] != nullptr && servers[1] != nullptr);
  const std::unique_ptr<ClientGroup> group =
      Group({servers[0]->address(), servers[1]->address()}, false);
  ASSERT_NE(group, nullptr);
  const absl::StatusOr<GroupFunction> hold = group->Function("test.rendezvous");
  ASSERT_TRUE(hold.ok()) << hold.status();
  MapOptions options;
  options.max_in_flight = 2;
  options.call.retry = 1;
  // A window has room for one such answer.
  options.call.response_capacity = static_cast<uint32_t>(group->client(0).max_payload() / 2 + 1);
  int inputs = 0;
  const auto source = [&]() -> std::optional<absl::StatusOr<MapInput>> {
    if (inputs == 2) return std::nullopt;
    ++inputs;
    return MapInput(rendezvous.path());
  };
  MapRun run = group->StartMap(*hold, source, options, 2);
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  servers[1]->Kill();
  ASSERT_TRUE(AwaitLeft(*group, 1));
  run.Stop();
  rendezvous.Release();
  // A try that was just beginning finds the room that the first answer leaves, and runs.
  rendezvous.Release();
  int right = 0;
  int maybe_executed = 0;
  while (std::optional<MapResult> result = run.Next()) {
    const absl::Status status = result->response.status();
    ++(status.ok() ? right : maybe_executed);
    if (status.ok()) continue;
    EXPECT_EQ(CallFateName(GetCallFate(status)), "maybe_executed") << status;
  }
  EXPECT_GE(right, 1);
  EXPECT_EQ(right + maybe_executed, 2);
}

// Whether its result goes to a thread that waits or to a callback, and whether its output goes to
// the window or to memory of the caller's.
TEST_P(RetryTest, EveryKindOfCallIsTriedAgain) {
  for (const bool waits : {true, false}) {
    for (const bool own_memory : {true, false}) {
      Rendezvous rendezvous;
      std::vector<ServerProcess*> servers = {StartServer(), StartServer()};
      ASSERT_TRUE(servers[0] != nullptr && servers[1] != nullptr);
      const std::unique_ptr<ClientGroup> group =
          Group({servers[0]->address(), servers[1]->address()}, false);
      ASSERT_NE(group, nullptr);
      const absl::StatusOr<GroupFunction> hold = group->Function("test.rendezvous");
      ASSERT_TRUE(hold.ok()) << hold.status();
      std::string memory(2 * group->client(0).max_payload(), '\0');
      CallOptions options;
      options.retry = 1;
      if (own_memory) options.output = CallOutput(memory.data(), memory.size());
      absl::Status status;
      absl::Notification ended;
      CallDone done = [&](absl::StatusOr<Response> response) {
        status = response.status();
        ended.Notify();
      };
      std::string input = rendezvous.path();
      GroupFuture future = waits ? group->InvokeAsync(*hold, input, options)
                                 : group->InvokeAsync(*hold, input, options, std::move(done));
      // The call has its own copy.
      input.assign(input.size(), '?');
      ASSERT_TRUE(rendezvous.WaitUntilRunning());
      const size_t doomed = group->calls(0) == 1 ? 0 : 1;
      std::thread waiter;
      if (waits) waiter = std::thread([&] { done(future.Get()); });
      servers[doomed]->Kill();
      EXPECT_TRUE(rendezvous.WaitUntilRunning());
      EXPECT_EQ(group->calls(1 - doomed), 1u);
      rendezvous.Release();
      ended.WaitForNotification();
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(group->calls(1 - doomed), 0u);
      if (waiter.joinable()) waiter.join();
    }
  }
}

TEST_P(RetryTest, ACallThatIsCancelledIsNotTriedAgain) {
  Rendezvous rendezvous;
  std::vector<ServerProcess*> servers = {StartServer(), StartServer()};
  ASSERT_TRUE(servers[0] != nullptr && servers[1] != nullptr);
  const std::unique_ptr<ClientGroup> group =
      Group({servers[0]->address(), servers[1]->address()}, false);
  ASSERT_NE(group, nullptr);
  const absl::StatusOr<GroupFunction> hold = group->Function("test.rendezvous");
  ASSERT_TRUE(hold.ok()) << hold.status();
  CallOptions large;
  // A window has room for one such answer.
  large.response_capacity = static_cast<uint32_t>(group->client(0).max_payload() / 2 + 1);
  absl::Notification kept;
  group->InvokeAsync(*hold, rendezvous.path(), large,
                     [&](const absl::StatusOr<Response>&) { kept.Notify(); });
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  const size_t doomed = group->calls(0) == 1 ? 1 : 0;
  large.retry = 5;
  absl::Status status;
  absl::Notification ended;
  GroupFuture call =
      group->InvokeAsync(*hold, rendezvous.path(), large, [&](absl::StatusOr<Response> response) {
        status = response.status();
        ended.Notify();
      });
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  servers[doomed]->Kill();
  // The call waits for room on the other worker now, or is about to.
  ASSERT_TRUE(AwaitLeft(*group, 1));
  const bool cancelled = call.Cancel();
  rendezvous.Release();
  kept.WaitForNotification();
  ended.WaitForNotification();
  EXPECT_EQ(cancelled, absl::IsCancelled(status)) << status;
  EXPECT_EQ(CallFateName(GetCallFate(status)), "maybe_executed") << status;
  EXPECT_FALSE(rendezvous.HasBegun());
}

bool RetryTest::HaveOneDeadline(bool asynchronous, absl::Duration timeout) {
  absl::Mutex mutex;
  std::vector<std::pair<std::string, absl::Status>> ended;
  const auto end = [&](const std::string& call, const absl::Status& status) {
    absl::MutexLock lock(&mutex);
    ended.emplace_back(call, status);
  };
  const auto list_ended = [&] {
    absl::MutexLock lock(&mutex);
    return ended;
  };
  Rendezvous rendezvous;
  ServerProcess* doomed = StartServer();
  ServerProcess* other = StartServer();
  if (doomed == nullptr || other == nullptr) return false;
  const std::unique_ptr<ClientGroup> group = Group({doomed->address(), other->address()}, false);
  if (group == nullptr) return false;
  const absl::StatusOr<GroupFunction> hold = group->Function("test.rendezvous");
  EXPECT_TRUE(hold.ok()) << hold.status();
  if (!hold.ok()) return false;
  const Bytes input(reinterpret_cast<const std::byte*>(rendezvous.path().data()),
                    rendezvous.path().size());
  const absl::Time began = absl::Now();
  CallOptions options;
  options.retry = 1;
  options.timeout = timeout;
  std::thread calls;
  if (asynchronous) {
    group->InvokeAsync(*hold, input, options, [&](absl::StatusOr<Response> response) {
      end("retried", response.status());
    });
  } else {
    calls = std::thread(
        [&, options] { end("retried", group->Invoke(*hold, input, options).status()); });
  }
  EXPECT_TRUE(rendezvous.WaitUntilRunning());
  absl::SleepFor(0.6 * timeout);
  doomed->Kill();
  while (!rendezvous.HasBegun() && list_ended().empty()) absl::SleepFor(absl::Milliseconds(5));
  if (!rendezvous.HasBegun()) {
    if (calls.joinable()) calls.join();
    rendezvous.Release();
    return false;
  }
  // Ends when the deadline has passed, and before one that the second try had for itself.
  options.retry = 0;
  options.timeout = began + 1.3 * timeout - absl::Now();
  end("next", group->Invoke(*hold, input, options).status());
  while (list_ended().size() < 2) absl::SleepFor(absl::Milliseconds(5));
  if (calls.joinable()) calls.join();
  rendezvous.Release();
  rendezvous.Release();
  for (const auto& [call, status] : list_ended()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << call << ": " << status;
  }
  return list_ended().front().first == "retried";
}

TEST_P(RetryTest, AllTriesOfACallHaveOneDeadline) {
  for (const bool asynchronous : {false, true}) {
    bool one = false;
    // Tried with more time where the first was over before anything could be seen.
    for (absl::Duration timeout = absl::Seconds(2); !one && timeout < absl::Minutes(1);
         timeout *= 3) {
      one = HaveOneDeadline(asynchronous, timeout);
    }
    EXPECT_TRUE(one) << "asynchronous: " << asynchronous;
  }
}

TEST_P(RetryTest, APlainClientHasNobodyElseToTry) {
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  CallOptions again;
  again.retry = 1;
  const absl::Status status =
      client->Invoke(FunctionNamed(*client, "test.echo"), "x", again).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(CallFateName(GetCallFate(status)), "not_sent") << status;
}

INSTANTIATE_TEST_SUITE_P(Fabrics, RetryTest, BothProviders(), FabricName);

}  // namespace
}  // namespace invoker
