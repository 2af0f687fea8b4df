// Clients and their server are killed together, and nobody is left to remove their files in
// /dev/shm: the next process that opens an endpoint of that fabric does.

#include <signal.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/integration/fabric_test.h"

namespace invoker {
namespace {

constexpr char kShm[] = "shm";
constexpr int kClients = 5;

std::unique_ptr<ServerProcess> StartShmServer() {
  ServerProcessOptions options;
  options.provider = kShm;
  auto server = ServerProcess::Start(options);
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

std::unique_ptr<Client> ConnectTo(const ServerProcess& server) {
  ClientOptions options;
  options.provider = kShm;
  options.peer_timeout = absl::Seconds(10);
  auto client = Client::Connect(server.address(), options);
  EXPECT_TRUE(client.ok()) << client.status();
  return client.ok() ? *std::move(client) : nullptr;
}

bool Exists(const std::string& name) { return access(("/dev/shm/" + name).c_str(), F_OK) == 0; }

TEST(LeftFilesTest, TheNextProcessRemovesWhatKilledOnesHaveLeftAndNothingElse) {
  const std::unique_ptr<ServerProcess> living = StartShmServer();
  ASSERT_NE(living, nullptr);
  const std::unique_ptr<Client> client = ConnectTo(*living);
  ASSERT_NE(client, nullptr);
  auto killed = StartShmServer();
  ASSERT_NE(killed, nullptr);
  std::vector<std::unique_ptr<ChildProcess>> clients;
  for (int i = 0; i < kClients; ++i) {
    auto one = ChildProcess::Start({{"tests/integration/random_client", killed->address(), "auto",
                                     "1", "100000000", "1000", "10s"}});
    ASSERT_TRUE(one.ok()) << one.status();
    clients.push_back(*std::move(one));
  }
  // Stopped first, so that none sees the end of another and cleans up.
  std::vector<pid_t> pids = {killed->pid()};
  for (const auto& one : clients) pids.push_back(one->pid());
  for (const pid_t pid : pids) {
    // A client's endpoint comes after its lease.
    const absl::Time deadline = absl::Now() + absl::Seconds(40);
    while (SharedMemoryOf(pid).empty() && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    ASSERT_FALSE(SharedMemoryOf(pid).empty()) << "process " << pid << " has opened no endpoint";
  }
  for (const pid_t pid : pids) kill(pid, SIGSTOP);
  std::vector<std::string> left;
  for (const pid_t pid : pids) {
    const std::vector<std::string> names = SharedMemoryOf(pid);
    left.insert(left.end(), names.begin(), names.end());
    kill(pid, SIGKILL);
  }
  for (const auto& one : clients) one->Wait();
  killed->Wait();
  const std::vector<std::string> in_use = SharedMemoryOf(living->pid());
  EXPECT_FALSE(in_use.empty());

  const std::unique_ptr<ServerProcess> next = StartShmServer();
  ASSERT_NE(next, nullptr);
  for (const std::string& name : left) EXPECT_FALSE(Exists(name)) << name;
  for (const std::string& name : in_use) EXPECT_TRUE(Exists(name)) << name;
  EXPECT_TRUE(client->Invoke(FunctionNamed(*client, "test.echo"), "x").ok());
}

}  // namespace
}  // namespace invoker
