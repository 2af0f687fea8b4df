// A server that dies, or is told to stop, while calls are under way.

#include <signal.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "tests/integration/fabric_test.h"
#include "tests/integration/random_calls.h"
#include "tests/integration/rendezvous.h"

namespace invoker {
namespace {

class LostServerTest : public FabricTest {};

TEST_P(LostServerTest, EveryCallEndsWhenTheServerIsKilled) {
  Rendezvous rendezvous;
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = FunctionNamed(*client, "test.echo");
  std::vector<Future> futures;
  futures.push_back(
      client->InvokeAsync(FunctionNamed(*client, "test.rendezvous"), rendezvous.path()));
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  for (int i = 0; i < 20; ++i) futures.push_back(client->InvokeAsync(echo, "lost"));
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
  const absl::Status later = client->Invoke(echo, "late").status();
  EXPECT_EQ(later.code(), absl::StatusCode::kUnavailable) << later;
  EXPECT_EQ(CallFateName(GetCallFate(later)), "not_sent") << later;
}

TEST_P(LostServerTest, AThreadThatWaitsIsToldWhenTheServerIsKilled) {
  Rendezvous rendezvous;
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  absl::Status status;
  std::thread waiter([&] {
    status = client->Invoke(FunctionNamed(*client, "test.rendezvous"), rendezvous.path()).status();
  });
  EXPECT_TRUE(rendezvous.WaitUntilRunning());
  server->Kill();
  waiter.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(CallFateName(GetCallFate(status)), "maybe_executed") << status;
}

TEST_P(LostServerTest, AServerThatIsKilledLeavesItsOtherClientsAndTheirServersAlone) {
  ServerProcess* doomed = StartServer();
  ServerProcess* other = StartServer();
  const std::unique_ptr<Client> lost = Connect(doomed);
  const std::unique_ptr<Client> kept = Connect(other);
  ASSERT_NE(lost, nullptr);
  ASSERT_NE(kept, nullptr);
  doomed->Kill();
  EXPECT_EQ(MakeRandomCalls(kept.get(), TestSeed(), 20, 10'000), absl::OkStatus());
}

TEST_P(LostServerTest, AServerThatIsToldToStopEndsTheRunningCallAndRefusesNewOnes) {
  Rendezvous rendezvous;
  ServerProcessOptions options;
  options.executors = 2;
  options.more = {"--drain-timeout=60s"};
  ServerProcess* server = StartServer(options);
  // On another executor, which can refuse while this one still runs its call.
  const std::unique_ptr<Client> refused = Connect(server);
  const std::unique_ptr<Client> running = Connect(server);
  ASSERT_NE(refused, nullptr);
  ASSERT_NE(running, nullptr);
  ASSERT_EQ(refused->executor(), 0u);
  ASSERT_EQ(running->executor(), 1u);
  Future held = running->InvokeAsync(FunctionNamed(*running, "test.rendezvous"), rendezvous.path());
  ASSERT_TRUE(rendezvous.WaitUntilRunning());

  server->Terminate();
  const RemoteFunction echo = FunctionNamed(*refused, "test.echo");
  absl::Status status;
  do {
    status = refused->Invoke(echo, "new").status();
  } while (status.ok());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "shutting down")) << status;
  EXPECT_EQ(CallFateName(GetCallFate(status)), "not_executed") << status;
  const absl::Status connect = Client::Connect(server->address()).status();
  EXPECT_EQ(connect.code(), absl::StatusCode::kUnavailable) << connect;
  EXPECT_TRUE(absl::StrContains(connect.message(), "drain") ||
              absl::StrContains(connect.message(), "shutting down"))
      << connect;

  rendezvous.Release();
  EXPECT_EQ(CheckAnswer({"test.rendezvous", "", "held"}, held.Get()), absl::OkStatus());
  EXPECT_EQ(server->Wait(), 0) << server->log();
  EXPECT_TRUE(absl::StrContains(server->log(), "draining")) << server->log();
  const absl::Status later = running->Invoke(FunctionNamed(*running, "test.echo"), "x").status();
  EXPECT_EQ(later.code(), absl::StatusCode::kUnavailable) << later;
}

TEST_P(LostServerTest, AFunctionThatNeverReturnsDoesNotKeepTheServerFromEnding) {
  Rendezvous rendezvous;
  ServerProcessOptions options;
  options.more = {"--drain-timeout=100ms"};
  ServerProcess* server = StartServer(options);
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  Future held = client->InvokeAsync(FunctionNamed(*client, "test.rendezvous"), rendezvous.path());
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  server->set_ends_cleanly(false);
  EXPECT_NE(server->Stop(), 0);
  EXPECT_TRUE(absl::StrContains(server->log(), "has not returned")) << server->log();
  const absl::Status status = held.Get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(CallFateName(GetCallFate(status)), "maybe_executed") << status;
  EXPECT_TRUE(SharedMemoryOf(server->pid()).empty());
}

// The executor runs a function, so that the large request can only arrive in part.
TEST_P(LostServerTest, AServerStopsCleanlyThoughAClientLeftAWriteHalfSent) {
  Rendezvous rendezvous;
  ServerProcessOptions options;
  options.window = "64M";
  // The client that stays does not poll, so what is on its way to it may never arrive.
  options.more = {"--drain-timeout=5s"};
  ServerProcess* server = StartServer(options);
  std::unique_ptr<Client> holds = Connect(server);
  std::unique_ptr<Client> leaves = Connect(server);
  std::unique_ptr<Client> stays = Connect(server);
  ASSERT_NE(stays, nullptr);
  Future held = holds->InvokeAsync(FunctionNamed(*holds, "test.rendezvous"), rendezvous.path());
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  CallOptions hurried;
  hurried.timeout = absl::Milliseconds(50);
  hurried.response_capacity = 64;
  const std::string large(30'000'000, 'l');
  for (Client* client : {leaves.get(), stays.get()}) {
    const absl::Status status =
        client->Invoke(FunctionNamed(*client, "test.checksum"), large, hurried).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  }
  leaves.reset();
  server->Terminate();
  rendezvous.Release();
  EXPECT_EQ(server->Wait(), 0) << server->log();
  EXPECT_TRUE(held.Get().ok());
}

// It waits in line, and is not told that the fabric does not work.
TEST_P(LostServerTest, AClientThatConnectsWhileAFunctionRunsGetsItsSession) {
  Rendezvous rendezvous;
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> holds = Connect(server);
  ASSERT_NE(holds, nullptr);
  Future held = holds->InvokeAsync(FunctionNamed(*holds, "test.rendezvous"), rendezvous.path());
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  std::unique_ptr<Client> comes;
  std::thread connecting([&] { comes = Connect(server); });
  rendezvous.Release();
  connecting.join();
  ASSERT_NE(comes, nullptr);
  EXPECT_EQ(comes->downgrade_reason(), "");
  EXPECT_EQ(MakeRandomCalls(comes.get(), TestSeed(), 10, 10'000), absl::OkStatus());
  EXPECT_TRUE(held.Get().ok());
}

TEST_P(LostServerTest, AnIdleServerStopsCleanlyWithSessionsOpen) {
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(server->Stop(), 0) << server->log();
}

TEST_P(LostServerTest, AClientThatIsKilledCostsItsOwnSessionOnly) {
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  auto doomed = ChildProcess::Start({{"tests/integration/random_client", server->address(),
                                      GetParam().notify, "1", "100000000", "10000", "5s"}});
  ASSERT_TRUE(doomed.ok()) << doomed.status();
  ASSERT_TRUE(AwaitOpenLeases(server, 2));
  EXPECT_EQ(MakeRandomCalls(client.get(), TestSeed(), 20, 10'000), absl::OkStatus());
  const pid_t pid = (*doomed)->pid();
  (*doomed)->Signal(SIGUSR1);
  EXPECT_EQ((*doomed)->Wait(), 128 + SIGKILL) << (*doomed)->Errors();
  for (const std::string& name : SharedMemoryOf(pid)) unlink(("/dev/shm/" + name).c_str());
  EXPECT_EQ(MakeRandomCalls(client.get(), TestSeed(), 20, 10'000), absl::OkStatus());
  EXPECT_EQ(client->status(), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Fabrics, LostServerTest, AllFabrics(), FabricName);

}  // namespace
}  // namespace invoker
