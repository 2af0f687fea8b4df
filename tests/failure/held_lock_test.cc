// Processes that die or stop while they have the lock of a queue in shared memory, which the
// others' next call of the provider wants: every call ends all the same, and a worker goes on.

#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "invoker/client.h"
#include "src/transport/spin_escape/spin_escape.h"
#include "tests/integration/fabric_test.h"

namespace invoker {
namespace {

// A sanitizer's library would like to be the first.
std::vector<std::string> Preloaded() {
  const char* const options = std::getenv("ASAN_OPTIONS");
  return {"LD_PRELOAD=tests/failure/hold_lock.so",
          absl::StrCat("ASAN_OPTIONS=", options == nullptr ? "" : options,
                       ":verify_asan_link_order=0")};
}

std::string SignalName(const testing::TestParamInfo<int>& info) {
  return info.param == SIGKILL ? "Killed" : "Stopped";
}

// Which signal the process gets while it has the lock.
class HeldLockTest : public ServerTest, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    if (!transport::SpinEscape::Supported()) GTEST_SKIP() << "nothing gets a thread out here";
  }

  ServerProcess* StartServer(std::vector<std::string> environment = {}) {
    ServerProcessOptions options;
    options.provider = "shm";
    options.functions.push_back("tests/failure/held_lock_functions.so");
    options.environment = std::move(environment);
    return ServerTest::StartServer(options);
  }

  static std::unique_ptr<Client> Connect(const ServerProcess* server) {
    ClientOptions options;
    options.hot_timeout = kClientHotTimeout;
    options.peer_timeout = absl::Seconds(5);
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(server->address(), options);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }

  // Whether it is stopped, or has died.
  static bool HasGone(pid_t pid) {
    std::ifstream stat(absl::StrCat("/proc/", pid, "/stat"));
    std::string line;
    std::getline(stat, line);
    const std::string rest = line.substr(line.rfind(')') + 1);
    return absl::StartsWith(rest, " T ") || absl::StartsWith(rest, " Z ");
  }

  // On a session whose worker has the lock, or had it: all of a client's calls.
  static void ExpectAllEnd(Client* client) {
    const RemoteFunction echo = FunctionNamed(*client, "test.echo");
    std::vector<Future> futures;
    for (int i = 0; i < 20; ++i) futures.push_back(client->InvokeAsync(echo, "under way"));
    for (Future& future : futures) {
      const absl::Status status = future.Get().status();
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    }
    const absl::Status next = client->Invoke(echo, "next").status();
    EXPECT_EQ(next.code(), absl::StatusCode::kUnavailable) << next;
  }

  std::unique_ptr<ChildProcess> StartHolder(const ServerProcess* server, const char* whose) {
    auto holder =
        ChildProcess::Start({{"tests/failure/holding_client", server->address(), whose, signal()},
                             {},
                             -1,
                             -1,
                             Preloaded()});
    EXPECT_TRUE(holder.ok()) << holder.status();
    return holder.ok() ? *std::move(holder) : nullptr;
  }

  // The holder may go on now, if it can.
  static void ExpectLost(ChildProcess* holder) {
    if (GetParam() == SIGKILL) {
      EXPECT_EQ(holder->Wait(), 128 + SIGKILL);
      return;
    }
    holder->Signal(SIGCONT);
    EXPECT_EQ(holder->Wait(), 1) << "its calls were answered";
    EXPECT_TRUE(absl::StrContains(holder->Errors(), "UNAVAILABLE")) << holder->Errors();
  }

  void EndServer(ServerProcess* server) {
    if (GetParam() == SIGKILL) {
      server->Kill();
      return;
    }
    server->Resume();
  }

  std::string signal() const { return absl::StrCat(GetParam()); }
};

TEST_P(HeldLockTest, CallsToAWorkerThatHasItsOwnQueuesLockEnd) {
  ServerProcess* const server = StartServer(Preloaded());
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  const auto holds = client->Invoke(FunctionNamed(*client, "test.hold_own_lock"), signal());
  ASSERT_TRUE(holds.ok()) << holds.status();
  // It takes the lock when something is in its queue.
  Future first = client->InvokeAsync(FunctionNamed(*client, "test.echo"), "first");
  while (!HasGone(server->pid())) absl::SleepFor(absl::Milliseconds(1));
  ExpectAllEnd(client.get());
  const absl::Status status = first.Get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EndServer(server);
}

TEST_P(HeldLockTest, CallsOfAClientWhoseQueuesLockIsTheWorkersEnd) {
  ServerProcess* const server = StartServer(Preloaded());
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  const absl::Status status =
      client->Invoke(FunctionNamed(*client, "test.hold_clients_lock"), signal()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  while (!HasGone(server->pid())) absl::SleepFor(absl::Milliseconds(1));
  ExpectAllEnd(client.get());
  EndServer(server);
  // The endpoint is not in the way of the next one.
  ServerProcess* const other = StartServer();
  const std::unique_ptr<Client> next = Connect(other);
  ASSERT_NE(next, nullptr);
  EXPECT_TRUE(next->Invoke(FunctionNamed(*next, "test.echo"), "next").ok());
}

TEST_P(HeldLockTest, AWorkerGoesOnWithoutAClientThatHasItsQueuesLock) {
  ServerProcess* const server = StartServer();
  const std::unique_ptr<Client> beside = Connect(server);
  ASSERT_NE(beside, nullptr);
  const std::unique_ptr<ChildProcess> holder = StartHolder(server, "peers");
  ASSERT_NE(holder, nullptr);
  const RemoteFunction echo = FunctionNamed(*beside, "test.echo");
  // The endpoint is lost, and with it every session on it.
  absl::Status status;
  while (status.ok()) status = beside->Invoke(echo, "beside").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_TRUE(server->AwaitLog("had the lock of this endpoint's queue")) << status;
  const std::unique_ptr<Client> next = Connect(server);
  ASSERT_NE(next, nullptr);
  const RemoteFunction next_echo = FunctionNamed(*next, "test.echo");
  EXPECT_TRUE(next->Invoke(next_echo, "next").ok());
  ExpectLost(holder.get());
  EXPECT_TRUE(next->Invoke(next_echo, "goes on").ok());
}

TEST_P(HeldLockTest, AClientThatHasItsOwnQueuesLockLosesItsOwnSessionOnly) {
  ServerProcess* const server = StartServer();
  const std::unique_ptr<Client> beside = Connect(server);
  ASSERT_NE(beside, nullptr);
  const std::unique_ptr<ChildProcess> holder = StartHolder(server, "own");
  ASSERT_NE(holder, nullptr);
  const RemoteFunction echo = FunctionNamed(*beside, "test.echo");
  absl::Status status;
  while (status.ok() && !HasGone(holder->pid())) status = beside->Invoke(echo, "beside").status();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(AwaitOpenLeases(server, 1));
  ExpectLost(holder.get());
  status = beside->Invoke(echo, "goes on").status();
  EXPECT_TRUE(status.ok()) << status;
}

INSTANTIATE_TEST_SUITE_P(Signals, HeldLockTest, testing::Values(SIGKILL, SIGSTOP), SignalName);

}  // namespace
}  // namespace invoker
