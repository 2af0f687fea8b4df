// Several clients, threads and executors at once.

#include <map>
#include <thread>

#include "tests/conformance/calls_suite.h"
#include "tests/integration/random_calls.h"

namespace invoker::conformance {
namespace {

class Clients : public CallsSuite {};

TEST_P(Clients, SeveralProcessesShareOneExecutor) {
  ServerProcess* server = StartServer();
  ASSERT_NE(server, nullptr);
  const uint64_t seed = TestSeed();
  std::vector<std::unique_ptr<ChildProcess>> clients;
  for (uint64_t i = 0; i < 3; ++i) {
    clients.push_back(StartClient(server, seed + i, static_cast<int>(Scaled(60)), 100'000));
    ASSERT_NE(clients.back(), nullptr);
  }
  for (const std::unique_ptr<ChildProcess>& client : clients) {
    EXPECT_EQ(client->Wait(), 0) << client->Errors();
    EXPECT_EQ(SharedMemoryOf(client->pid()), std::vector<std::string>());
  }
}

TEST_P(Clients, SessionsAreSpreadOverTheExecutorsAndWorkAtOnce) {
  ServerProcessOptions options;
  options.executors = 2;
  ServerProcess* server = StartServer(options);
  ASSERT_NE(server, nullptr);
  std::map<uint32_t, int> sessions;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(Connect(server));
    ASSERT_NE(clients.back(), nullptr);
    ++sessions[clients.back()->executor()];
  }
  EXPECT_EQ(sessions, (std::map<uint32_t, int>{{0, 2}, {1, 2}}));
  std::vector<absl::Status> results(clients.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] {
      results[i] = MakeRandomCalls(clients[i].get(), i, static_cast<int>(Scaled(30)), 20'000);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) EXPECT_EQ(result, absl::OkStatus());
}

TEST_P(Clients, SeveralThreadsShareOne) {
  const std::unique_ptr<Client> client = Connect(StartServer());
  ASSERT_NE(client, nullptr);
  const uint64_t seed = TestSeed();
  std::vector<absl::Status> results(3);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      results[i] = MakeRandomCalls(client.get(), seed + i, static_cast<int>(Scaled(60)), 50'000);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) EXPECT_EQ(result, absl::OkStatus());
}

TEST_P(Clients, SessionsComeAndGo) {
  ServerProcess* server = StartServer();
  for (uint64_t i = 0; i < 6; ++i) {
    const std::unique_ptr<Client> client = Connect(server);
    ASSERT_NE(client, nullptr);
    EXPECT_EQ(MakeRandomCalls(client.get(), i, 3, 10'000), absl::OkStatus());
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Clients, testing::Values("auto", "send_after_write"),
                         NameOfNotification);

}  // namespace
}  // namespace invoker::conformance
