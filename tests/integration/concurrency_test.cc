// Many calls, threads, clients and executors at once.

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/barrier.h"
#include "absl/synchronization/blocking_counter.h"
#include "tests/integration/fabric_test.h"
#include "tests/integration/random_calls.h"

namespace invoker {
namespace {

class ConcurrencyTest : public FabricTest {};

TEST_P(ConcurrencyTest, SixtyFourCallsAreInFlightOnOneSession) {
  const std::unique_ptr<Client> client = Connect(StartServer());
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = FunctionNamed(*client, "test.echo");
  for (int round = 0; round < 20; ++round) {
    std::vector<std::string> inputs;
    std::vector<Future> futures;
    for (int i = 0; i < 64; ++i) {
      inputs.push_back(RandomBytes(1 + 37 * i, round));
      futures.push_back(client->InvokeAsync(echo, inputs.back()));
    }
    for (int i = 63; i >= 0; --i) {
      ASSERT_EQ(CheckAnswer({"test.echo", inputs[i], inputs[i]}, futures[i].Get()),
                absl::OkStatus());
    }
  }
}

TEST_P(ConcurrencyTest, CallbacksAreEachCalledOnce) {
  const std::unique_ptr<Client> client = Connect(StartServer());
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = FunctionNamed(*client, "test.echo");
  constexpr int kCalls = 500;
  std::vector<std::atomic<int>> called(kCalls);
  std::atomic<int> wrong{0};
  absl::BlockingCounter left(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    const std::string input = absl::StrCat("call ", i);
    client->InvokeAsync(echo, Bytes(reinterpret_cast<const std::byte*>(input.data()), input.size()),
                        CallOptions(), [&, i, input](absl::StatusOr<Response> response) {
                          ++called[i];
                          if (!response.ok() || response->text() != input) ++wrong;
                          left.DecrementCount();
                        });
  }
  left.Wait();
  EXPECT_EQ(wrong, 0);
  for (const std::atomic<int>& times : called) EXPECT_EQ(times, 1);
}

TEST_P(ConcurrencyTest, ACallbackMayMakeCalls) {
  const std::unique_ptr<Client> client = Connect(StartServer());
  ASSERT_NE(client, nullptr);
  const RemoteFunction twice = FunctionNamed(*client, "test.twice");
  std::string answer;
  absl::BlockingCounter done(1);
  client->InvokeAsync(twice, Bytes(), CallOptions(), [&](absl::StatusOr<Response>) {
    absl::StatusOr<Response> inner = client->Invoke(twice, "ab");
    answer = inner.ok() ? std::string(inner->text()) : inner.status().ToString();
    done.DecrementCount();
  });
  done.Wait();
  EXPECT_EQ(answer, "abab");
}

TEST_P(ConcurrencyTest, SeveralThreadsShareOneClient) {
  const std::unique_ptr<Client> client = Connect(StartServer());
  ASSERT_NE(client, nullptr);
  const uint64_t seed = TestSeed();
  std::vector<absl::Status> results(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back(
        [&, i] { results[i] = MakeRandomCalls(client.get(), seed + i, 100, 50'000); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) EXPECT_EQ(result, absl::OkStatus());
}

TEST_P(ConcurrencyTest, SeveralClientProcessesShareOneExecutor) {
  ServerProcess* server = StartServer();
  ASSERT_NE(server, nullptr);
  const uint64_t seed = TestSeed();
  std::vector<std::unique_ptr<ChildProcess>> clients;
  for (int i = 0; i < 3; ++i) {
    auto child =
        ChildProcess::Start({{"tests/integration/random_client", server->address(),
                              GetParam().notify, absl::StrCat(seed + i), "100", "200000", "5s"}});
    ASSERT_TRUE(child.ok()) << child.status();
    clients.push_back(*std::move(child));
  }
  for (const std::unique_ptr<ChildProcess>& client : clients) {
    EXPECT_EQ(client->Wait(), 0) << client->Errors();
    EXPECT_EQ(SharedMemoryOf(client->pid()), std::vector<std::string>());
  }
}

TEST_P(ConcurrencyTest, SessionsAreSpreadOverTheExecutors) {
  ServerProcessOptions options;
  options.executors = 3;
  ServerProcess* server = StartServer(options);
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(server->ready()["executors"], 3);
  std::multiset<uint32_t> executors;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(Connect(server));
    ASSERT_NE(clients.back(), nullptr);
    executors.insert(clients.back()->executor());
  }
  EXPECT_EQ(executors, (std::multiset<uint32_t>{0, 0, 1, 1, 2, 2}));
  std::vector<absl::Status> results(clients.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = MakeRandomCalls(clients[i].get(), i, 20, 20'000); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) EXPECT_EQ(result, absl::OkStatus());
}

TEST_P(ConcurrencyTest, AnExecutorThatPollsAllTheTimeServesAsWell) {
  ServerProcessOptions options;
  options.hot_timeout = "";  // the default
  const std::unique_ptr<Client> client = Connect(StartServer(options));
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(MakeRandomCalls(client.get(), TestSeed(), 30, 100'000), absl::OkStatus());
}

TEST_P(ConcurrencyTest, SessionsComeAndGo) {
  ServerProcess* server = StartServer();
  for (int i = 0; i < 10; ++i) {
    const std::unique_ptr<Client> client = Connect(server);
    ASSERT_NE(client, nullptr);
    EXPECT_EQ(MakeRandomCalls(client.get(), i, 3, 10'000), absl::OkStatus());
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, ConcurrencyTest, AllFabrics(), FabricName);

}  // namespace
}  // namespace invoker
