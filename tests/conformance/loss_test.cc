// Servers and clients that go, in the regular way and in the middle of their work.

#include <signal.h>
#include <unistd.h>

#include "tests/conformance/calls_suite.h"
#include "tests/integration/random_calls.h"
#include "tests/integration/rendezvous.h"

namespace invoker::conformance {
namespace {

class Loss : public CallsSuite {};

TEST_P(Loss, EveryCallEndsWhenTheServerIsKilledAndItsSuccessorServes) {
  Rendezvous rendezvous;
  ServerProcess* server = StartServer();
  {
    const std::unique_ptr<Client> client = Connect(server);
    ASSERT_NE(client, nullptr);
    std::vector<Future> futures;
    futures.push_back(
        client->InvokeAsync(FunctionNamed(*client, "test.rendezvous"), rendezvous.path()));
    ASSERT_TRUE(rendezvous.WaitUntilRunning());
    const RemoteFunction echo = FunctionNamed(*client, "test.echo");
    for (int i = 0; i < 10; ++i) futures.push_back(client->InvokeAsync(echo, "lost"));
    server->Kill();
    for (size_t i = 0; i < futures.size(); ++i) {
      const absl::Status status = futures[i].Get().status();
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      // Behind the one that runs, a fabric may have taken no more.
      const CallFate fate = GetCallFate(status);
      EXPECT_TRUE(fate == CallFate::kMaybeExecuted || (i > 0 && fate == CallFate::kNotSent))
          << status;
    }
    EXPECT_EQ(client->status().code(), absl::StatusCode::kUnavailable) << client->status();
  }
  const std::unique_ptr<Client> again = Connect(StartServer());
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(MakeRandomCalls(again.get(), TestSeed(), 5, 10'000), absl::OkStatus());
}

TEST_P(Loss, AClientThatIsKilledCostsItsOwnSessionOnly) {
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  const auto doomed = StartClient(server, 1, 100'000'000, 10'000);
  ASSERT_NE(doomed, nullptr);
  ASSERT_TRUE(AwaitOpenLeases(server, 2));
  EXPECT_EQ(MakeRandomCalls(client.get(), TestSeed(), 20, 10'000), absl::OkStatus());
  doomed->Signal(SIGKILL);
  EXPECT_EQ(doomed->Wait(), 128 + SIGKILL) << doomed->Errors();
  for (const std::string& name : SharedMemoryOf(doomed->pid())) {
    unlink(("/dev/shm/" + name).c_str());
  }
  EXPECT_EQ(MakeRandomCalls(client.get(), TestSeed(), 20, 10'000), absl::OkStatus());
  EXPECT_EQ(client->status(), absl::OkStatus());
  const std::unique_ptr<Client> next = Connect(server);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(MakeRandomCalls(next.get(), TestSeed(), 5, 10'000), absl::OkStatus());
}

TEST_P(Loss, AServerStopsCleanlyWithSessionsOpen) {
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(MakeRandomCalls(client.get(), TestSeed(), 5, 10'000), absl::OkStatus());
  EXPECT_EQ(server->Stop(), 0) << server->log();
  const absl::Status later = client->Invoke(FunctionNamed(*client, "test.echo"), "late").status();
  EXPECT_EQ(later.code(), absl::StatusCode::kUnavailable) << later;
}

TEST_P(Loss, AServerThatRestartsOnItsPortServesNewClients) {
  ServerProcessOptions options;
  options.listen = LoopbackAddressOfItsOwn() + ":0";
  ServerProcess* first = StartServer(options);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(Connect(first), nullptr);
  const std::string listen = first->address();
  EXPECT_EQ(first->Stop(), 0) << first->log();
  options.listen = listen;
  ServerProcess* second = StartServer(options);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->address(), listen);
  const std::unique_ptr<Client> client = Connect(second);
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(MakeRandomCalls(client.get(), TestSeed(), 5, 10'000), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Every, Loss, testing::Values("auto", "send_after_write"),
                         NameOfNotification);

}  // namespace
}  // namespace invoker::conformance
