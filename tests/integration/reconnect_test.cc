// Groups whose workers go and come back.

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "src/invoke/client_group.h"
#include "tests/integration/fabric_test.h"
#include "tests/integration/rendezvous.h"

namespace invoker {
namespace {

class ReconnectTest : public FabricTest {
 protected:
  std::unique_ptr<ClientGroup> Group(const std::vector<std::string>& servers,
                                     bool reconnect = true) {
    ClientOptions options;
    options.hot_timeout = kClientHotTimeout;
    options.reconnect = reconnect;
    absl::StatusOr<std::unique_ptr<ClientGroup>> group =
        ClientGroup::Connect(absl::StrJoin(servers, ","), options);
    if (!group.ok()) {
      ADD_FAILURE() << group.status();
      return nullptr;
    }
    return *std::move(group);
  }

  // One that will be started again. Its fabric's endpoints are at the same address.
  ServerProcess* StartToReturn() {
    return StartAgain(absl::StrCat(LoopbackAddressOfItsOwn(), ":0"));
  }
  ServerProcess* StartAgain(const std::string& address) {
    ServerOptions options;
    options.listen = address;
    return StartServer(options);
  }

  // Until all of its executors are there. False if that does not come about.
  static bool AwaitAll(const ClientGroup& group) {
    const absl::Time limit = absl::Now() + kPatience;
    while (group.left() < group.size() && absl::Now() < limit) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    return group.left() == group.size();
  }
  static bool AwaitCall(ClientGroup& group, const GroupFunction& function) {
    const absl::Time limit = absl::Now() + kPatience;
    while (absl::Now() < limit) {
      if (group.Invoke(function, "back?").ok()) return true;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return false;
  }
  static bool AwaitLeft(const ClientGroup& group, size_t left) {
    const absl::Time limit = absl::Now() + kPatience;
    while (group.left() != left && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(5));
    return group.left() == left;
  }
};

TEST_P(ReconnectTest, AGroupCarriesOnWithTheOthersAndTakesARestartedWorkerBack) {
  ServerProcess* first = StartServer();
  ServerProcess* second = StartToReturn();
  ASSERT_NE(second, nullptr);
  const std::string address = second->address();
  const std::unique_ptr<ClientGroup> group = Group({first->address(), address});
  ASSERT_NE(group, nullptr);
  const absl::StatusOr<GroupFunction> echo = group->Function("test.echo");
  ASSERT_TRUE(echo.ok()) << echo.status();
  for (int round = 0; round < 2; ++round) {
    second->Kill();
    // Without a call: the lease tells.
    ASSERT_TRUE(AwaitLeft(*group, 1));
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(group->Invoke(*echo, "others").ok());
    second = StartAgain(address);
    ASSERT_NE(second, nullptr);
    ASSERT_TRUE(AwaitAll(*group));
    EXPECT_EQ(group->client(1).server(), address);
    for (int i = 0; i < 10; ++i) {
      const absl::StatusOr<Response> response = group->Invoke(*echo, "all");
      ASSERT_TRUE(response.ok()) << response.status();
      EXPECT_EQ(response->text(), "all");
    }
    EXPECT_EQ(group->client(1).status(), absl::OkStatus());
  }
}

TEST_P(ReconnectTest, AGroupOfOneServerOutlivesItsRestartUnderLoad) {
  ServerProcess* server = StartToReturn();
  ASSERT_NE(server, nullptr);
  const std::string address = server->address();
  const std::unique_ptr<ClientGroup> group = Group({address});
  ASSERT_NE(group, nullptr);
  const absl::StatusOr<GroupFunction> echo = group->Function("test.echo");
  ASSERT_TRUE(echo.ok()) << echo.status();
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        const absl::StatusOr<Response> response = group->Invoke(*echo, "load");
        if (response.ok()) continue;
        EXPECT_EQ(response.status().code(), absl::StatusCode::kUnavailable) << response.status();
        ++failures;
        absl::SleepFor(absl::Milliseconds(1));
      }
    });
  }
  server->Kill();
  EXPECT_TRUE(AwaitLeft(*group, 0));
  server = StartAgain(address);
  EXPECT_TRUE(AwaitAll(*group));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(failures, 0);
  EXPECT_TRUE(group->Invoke(*echo, "after").ok());
}

// Of what endpoints have open, and pipes to children are not: descriptors without a file.
size_t OpenAnonymous() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    count += absl::StartsWith(target, "anon_inode:") ? 1 : 0;
  }
  return count;
}

TEST_P(ReconnectTest, NothingIsLeftOfServersThatDiedWithCallsUnderWay) {
  ServerProcess* server = StartServer();
  ASSERT_NE(server, nullptr);
  const std::string address = server->address();
  const std::unique_ptr<ClientGroup> group = Group({address});
  ASSERT_NE(group, nullptr);
  const absl::StatusOr<GroupFunction> hold = group->Function("test.rendezvous");
  ASSERT_TRUE(hold.ok()) << hold.status();
  constexpr int kDeaths = 6;
  size_t before = 0;
  for (int death = 0; death < kDeaths; ++death) {
    Rendezvous rendezvous;
    const std::string path = rendezvous.path();
    absl::Notification ended;
    group->InvokeAsync(*hold, {reinterpret_cast<const std::byte*>(path.data()), path.size()}, {},
                       [&](absl::StatusOr<Response> response) {
                         EXPECT_FALSE(response.ok());
                         ended.Notify();
                       });
    ASSERT_TRUE(rendezvous.WaitUntilRunning());
    server->Kill();
    ended.WaitForNotification();
    server = StartAgain(address);
    ASSERT_NE(server, nullptr);
    ASSERT_TRUE(AwaitAll(*group));
    // The client that has been lost stays until the one after it has been.
    if (death == 1) before = OpenAnonymous();
  }
  // An endpoint has three at least, and four deaths have come since.
  EXPECT_LT(OpenAnonymous(), before + 6);
}

// As a program does that tries again by itself.
TEST_P(ReconnectTest, ACallbackMayWaitForTheWorkerToBeBack) {
  Rendezvous rendezvous;
  ServerProcess* server = StartToReturn();
  ASSERT_NE(server, nullptr);
  const std::string address = server->address();
  const std::unique_ptr<ClientGroup> group = Group({address});
  ASSERT_NE(group, nullptr);
  const absl::StatusOr<GroupFunction> hold = group->Function("test.rendezvous");
  const absl::StatusOr<GroupFunction> echo = group->Function("test.echo");
  ASSERT_TRUE(hold.ok() && echo.ok());
  const Bytes input(reinterpret_cast<const std::byte*>(rendezvous.path().data()),
                    rendezvous.path().size());
  absl::Notification ended;
  group->InvokeAsync(*hold, input, {}, [&](absl::StatusOr<Response> response) {
    EXPECT_FALSE(response.ok());
    while (!group->Invoke(*echo, "back?").ok()) absl::SleepFor(absl::Milliseconds(5));
    ended.Notify();
  });
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  server->Kill();
  ASSERT_NE(StartAgain(address), nullptr);
  ended.WaitForNotification();
  EXPECT_TRUE(AwaitAll(*group));
}

// The one that waits runs on a thread which has the others to run too.
TEST_P(ReconnectTest, ACallbackMayWaitForTheWorkerToBeBackThoughOthersAreDue) {
  Rendezvous rendezvous;
  ServerProcess* server = StartToReturn();
  ASSERT_NE(server, nullptr);
  const std::string address = server->address();
  std::atomic<int> came_back{0};
  std::atomic<int> have_run{0};
  const std::unique_ptr<ClientGroup> group = Group({address});
  ASSERT_NE(group, nullptr);
  const absl::StatusOr<GroupFunction> hold = group->Function("test.rendezvous");
  const absl::StatusOr<GroupFunction> echo = group->Function("test.echo");
  ASSERT_TRUE(hold.ok() && echo.ok());
  const Bytes input(reinterpret_cast<const std::byte*>(rendezvous.path().data()),
                    rendezvous.path().size());
  absl::Notification ended;
  constexpr int kCalls = 3;
  for (int i = 0; i < kCalls; ++i) {
    group->InvokeAsync(*hold, input, {}, [&](absl::StatusOr<Response> response) {
      EXPECT_FALSE(response.ok());
      came_back += AwaitCall(*group, *echo) ? 1 : 0;
      if (++have_run == kCalls) ended.Notify();
    });
  }
  // A thread that waits for its own call may have to run callbacks of others as well.
  std::thread waits([&] { EXPECT_FALSE(group->Invoke(*hold, rendezvous.path()).ok()); });
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  while (group->calls(0) < kCalls + 1) absl::SleepFor(absl::Milliseconds(1));
  server->Kill();
  EXPECT_NE(StartAgain(address), nullptr);
  ended.WaitForNotification();
  waits.join();
  EXPECT_EQ(came_back, kCalls);
  EXPECT_TRUE(AwaitAll(*group));
}

TEST_P(ReconnectTest, ACallbackOfOneWorkersMayWaitForAnotherOneToBeBack) {
  Rendezvous rendezvous;
  std::vector<ServerProcess*> servers = {StartToReturn(), StartToReturn()};
  ASSERT_TRUE(servers[0] != nullptr && servers[1] != nullptr);
  const std::vector<std::string> addresses = {servers[0]->address(), servers[1]->address()};
  const std::unique_ptr<ClientGroup> group = Group(addresses);
  ASSERT_NE(group, nullptr);
  const absl::StatusOr<GroupFunction> hold = group->Function("test.rendezvous");
  ASSERT_TRUE(hold.ok()) << hold.status();
  const Bytes input(reinterpret_cast<const std::byte*>(rendezvous.path().data()),
                    rendezvous.path().size());
  absl::Notification ended;
  bool all_back = false;
  group->InvokeAsync(*hold, input, {}, [&](absl::StatusOr<Response> response) {
    EXPECT_FALSE(response.ok());
    EXPECT_TRUE(AwaitLeft(*group, 0));
    all_back = AwaitAll(*group);
    ended.Notify();
  });
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  const size_t first = group->calls(0) == 1 ? 0 : 1;
  for (ServerProcess* server : servers) server->Kill();
  EXPECT_TRUE(AwaitLeft(*group, 0));
  EXPECT_NE(StartAgain(addresses[first]), nullptr);
  EXPECT_TRUE(AwaitLeft(*group, 1));
  // What it had is given up meanwhile, if that waits for nothing.
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_NE(StartAgain(addresses[1 - first]), nullptr);
  ended.WaitForNotification();
  EXPECT_TRUE(all_back);
}

// The thread that tries one worker's call again waits for room on the other, whose functions run
// on.
TEST_P(ReconnectTest, AGroupMayGoWhileACallThatIsTriedAgainWaitsForRoom) {
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

// Of the calls of a lost worker, those that are tried again and have to wait for room do so without
// the others, and for no longer than they have time.
TEST_P(ReconnectTest, ACallThatIsTriedAgainWaitsForRoomByItself) {
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
      EXPECT_EQ(CallFateName(GetCallFate(status)), "not_sent") << status;
      release();
      rendezvous.Release();
    }
    while (under_way > 0) absl::SleepFor(absl::Milliseconds(1));
  }
}

TEST_P(ReconnectTest, AGroupThatIsNotToReconnectDoesNot) {
  ServerProcess* server = StartToReturn();
  ASSERT_NE(server, nullptr);
  const std::string address = server->address();
  const std::unique_ptr<ClientGroup> group = Group({address}, /*reconnect=*/false);
  ASSERT_NE(group, nullptr);
  const absl::StatusOr<GroupFunction> echo = group->Function("test.echo");
  server->Kill();
  while (group->Invoke(*echo, "until it shows").ok()) {
  }
  ASSERT_NE(StartAgain(address), nullptr);
  const absl::Status status = group->Invoke(*echo, "after").status();
  EXPECT_EQ(CallFateName(GetCallFate(status)), "not_sent") << status;
  EXPECT_EQ(group->left(), 0u);
}

TEST_P(ReconnectTest, ARetriedCallRunsOnAnotherExecutorAndOthersAreNotTriedAgain) {
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

TEST_P(ReconnectTest, AnAsynchronousCallAndAMapAreRetriedToo) {
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

// With a deadline of its own, the second try would end after a call that begins with it and has
// less.
TEST_P(ReconnectTest, AllTriesOfACallHaveOneDeadline) {
  for (const bool asynchronous : {false, true}) {
    absl::Mutex mutex;
    std::vector<std::string> ended;
    const auto end = [&](const std::string& call, const absl::Status& status) {
      EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << call << ": " << status;
      absl::MutexLock lock(&mutex);
      ended.push_back(call);
    };
    Rendezvous rendezvous;
    ServerProcess* doomed = StartServer();
    ServerProcess* other = StartServer();
    ASSERT_NE(other, nullptr);
    const std::unique_ptr<ClientGroup> group = Group({doomed->address(), other->address()}, false);
    ASSERT_NE(group, nullptr);
    const absl::StatusOr<GroupFunction> hold = group->Function("test.rendezvous");
    ASSERT_TRUE(hold.ok()) << hold.status();
    const Bytes input(reinterpret_cast<const std::byte*>(rendezvous.path().data()),
                      rendezvous.path().size());
    CallOptions twice;
    twice.retry = 1;
    twice.timeout = absl::Seconds(5);
    std::thread calls;
    if (asynchronous) {
      group->InvokeAsync(*hold, input, twice, [&](absl::StatusOr<Response> response) {
        end("retried", response.status());
      });
    } else {
      calls = std::thread([&] { end("retried", group->Invoke(*hold, input, twice).status()); });
    }
    ASSERT_TRUE(rendezvous.WaitUntilRunning());
    // Of the five seconds, two are left for the second try: the third call has four.
    absl::SleepFor(absl::Seconds(3));
    doomed->Kill();
    ASSERT_TRUE(rendezvous.WaitUntilRunning());
    CallOptions once;
    once.timeout = absl::Seconds(4);
    end("third", group->Invoke(*hold, input, once).status());
    if (calls.joinable()) calls.join();
    EXPECT_EQ(ended, (std::vector<std::string>{"retried", "third"}));
    rendezvous.Release();
    rendezvous.Release();
  }
}

TEST_P(ReconnectTest, APlainClientHasNobodyElseToTry) {
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

INSTANTIATE_TEST_SUITE_P(Fabrics, ReconnectTest, BothProviders(), FabricName);

}  // namespace
}  // namespace invoker
