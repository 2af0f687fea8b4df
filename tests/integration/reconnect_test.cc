// Groups whose workers go and come back.

#include <atomic>
#include <filesystem>
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

using ReconnectTest = GroupTest;

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
  const absl::StatusOr<GroupFunction> hold = group->Function("test.rendezvous");
  ASSERT_TRUE(hold.ok()) << hold.status();
  Rendezvous rendezvous;
  const std::string path = rendezvous.path();
  absl::Notification ended;
  group->InvokeAsync(*hold, {reinterpret_cast<const std::byte*>(path.data()), path.size()}, {},
                     [&](absl::StatusOr<Response> response) {
                       EXPECT_FALSE(response.ok());
                       ended.Notify();
                     });
  // In a function, so that its call is there when the server goes.
  EXPECT_TRUE(rendezvous.WaitUntilRunning());
  server->Kill();
  EXPECT_TRUE(AwaitLeft(*group, 0));
  ended.WaitForNotification();
  server = StartAgain(address);
  EXPECT_TRUE(AwaitAll(*group));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(failures, 0);
  EXPECT_TRUE(group->Invoke(*echo, "after").ok());
}

// Counts what endpoints have open, and pipes to children are not: descriptors without a file.
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
  ServerProcess* server = StartToReturn();
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
  const absl::Time limit = absl::Now() + kPatience;
  while (OpenAnonymous() >= before + 6 && absl::Now() < limit) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_LT(OpenAnonymous(), before + 6);
}

// Programs that try again by themselves do so.
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

INSTANTIATE_TEST_SUITE_P(Fabrics, ReconnectTest, BothProviders(), FabricName);

}  // namespace
}  // namespace invoker
