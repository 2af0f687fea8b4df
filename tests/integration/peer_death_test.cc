// Peers that stop without a word, and those that only seem to: every call ends, and with the truth.

#include <signal.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "invoker/client_group.h"
#include "tests/integration/fabric_test.h"
#include "tests/integration/random_calls.h"
#include "tests/integration/rendezvous.h"
#include "tests/invoke/with_output.h"

namespace invoker {
namespace {

class PeerDeathTest : public FabricTest {
 protected:
  static void ExpectLost(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    const CallFate fate = GetCallFate(status);
    EXPECT_TRUE(fate == CallFate::kMaybeExecuted || fate == CallFate::kNotSent) << status;
  }
};

TEST_P(PeerDeathTest, EveryCallEndsWhenTheServerIsStoppedAndItsSessionStaysEnded) {
  Rendezvous rendezvous;
  ServerProcessOptions options;
  options.window = "64K";
  ServerProcess* server = StartServer(options);
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = FunctionNamed(*client, "test.echo");
  std::vector<Future> futures;
  futures.push_back(
      client->InvokeAsync(FunctionNamed(*client, "test.rendezvous"), rendezvous.path()));
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  for (int i = 0; i < 20; ++i) futures.push_back(client->InvokeAsync(echo, "stopped"));
  server->Suspend();
  absl::Status with_callback;
  absl::Notification called_back;
  client->InvokeAsync(echo, {}, {}, [&](absl::StatusOr<Response> response) {
    with_callback = response.status();
    called_back.Notify();
  });
  absl::Status waits;
  std::thread waiter([&] { waits = client->Invoke(echo, "waits").status(); });
  absl::Status for_room;
  CallOptions whole;
  whole.response_capacity = static_cast<uint32_t>(client->max_payload());
  std::thread waits_for_room([&] { for_room = client->Invoke(echo, "room", whole).status(); });
  absl::Status large;
  std::thread registers([&] {
    const std::string input(1 << 20, 'l');
    std::string output(1 << 20, 'o');
    large = client
                ->Invoke(echo, {reinterpret_cast<const std::byte*>(input.data()), input.size()},
                         WithOutput({reinterpret_cast<std::byte*>(output.data()), output.size()}))
                .status();
  });
  for (Future& future : futures) ExpectLost(future.Get().status());
  waiter.join();
  ExpectLost(waits);
  waits_for_room.join();
  ExpectLost(for_room);
  registers.join();
  ExpectLost(large);
  called_back.WaitForNotification();
  ExpectLost(with_callback);
  EXPECT_EQ(client->status().code(), absl::StatusCode::kUnavailable) << client->status();
  EXPECT_TRUE(absl::StrContains(client->status().message(), "heartbeats")) << client->status();
  const absl::Status later = client->Invoke(echo, "late").status();
  EXPECT_EQ(later.code(), absl::StatusCode::kUnavailable) << later;
  EXPECT_EQ(CallFateName(GetCallFate(later)), "not_sent") << later;
  // While the server cannot answer.
  client->Close();

  server->Resume();
  rendezvous.Release();
  EXPECT_FALSE(client->Invoke(echo, "again").ok());
  const std::unique_ptr<Client> next = Connect(server);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(MakeRandomCalls(next.get(), TestSeed(), 20, 1000), absl::OkStatus());
}

// It ends with the others: what tells its session is not what waits for it.
TEST_P(PeerDeathTest, ACallThatACallbackWaitsForEndsTooWhenTheServerIsStopped) {
  constexpr int kCalls = 2;
  Rendezvous rendezvous[kCalls];
  ServerProcess* server = StartServer();
  ASSERT_NE(server, nullptr);
  ClientOptions options;
  options.provider = GetParam().provider;
  options.hot_timeout = kClientHotTimeout;
  options.reconnect = false;
  options.peer_timeout = absl::Seconds(2);
  auto group = ClientGroup::Connect(server->address(), options, /*sessions_each=*/2);
  ASSERT_TRUE(group.ok()) << group.status();
  const RemoteFunction echo = FunctionNamed((*group)->client(0), "test.echo");
  const RemoteFunction hold = FunctionNamed((*group)->client(0), "test.rendezvous");
  // One on each session; either may be told first.
  absl::Status ends[kCalls];
  absl::Status nested[kCalls];
  absl::Notification done[kCalls];
  for (int i = 0; i < kCalls; ++i) {
    const std::string& path = rendezvous[i].path();
    const Bytes input = {reinterpret_cast<const std::byte*>(path.data()), path.size()};
    (*group)->client(i).InvokeAsync(hold, input, {}, [&, i](absl::StatusOr<Response> response) {
      ends[i] = response.status();
      // With the other session, which has perhaps not been told yet.
      nested[i] = (*group)->client(1 - i).Invoke(echo, "from a callback").status();
      done[i].Notify();
    });
    // The second runs too, or waits behind the first.
    if (i == 0) {
      ASSERT_TRUE(rendezvous[0].WaitUntilRunning());
    }
  }
  server->Suspend();
  for (int i = 0; i < kCalls; ++i) {
    // Not without a limit: those that never end would keep the server stopped.
    ASSERT_TRUE(done[i].WaitForNotificationWithTimeout(kPatience));
    ExpectLost(ends[i]);
    ExpectLost(nested[i]);
  }
  server->Resume();
  for (Rendezvous& one : rendezvous) one.Release();
}

TEST_P(PeerDeathTest, AServerThatStopsForAMomentLosesNobody) {
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  for (int i = 0; i < 3; ++i) {
    server->Suspend();
    // On another thread: a server that has a lock now keeps the call from being posted.
    std::thread resume([server] {
      absl::SleepFor(absl::Milliseconds(20));
      server->Resume();
    });
    Future call = client->InvokeAsync(FunctionNamed(*client, "test.echo"), "moment");
    resume.join();
    EXPECT_TRUE(call.Get().ok());
  }
  EXPECT_EQ(client->status(), absl::OkStatus());
}

// It has not witnessed that anybody was silent.
TEST_P(PeerDeathTest, AClientDoesNotTakeItsOwnAbsenceForItsWorkers) {
  ServerProcessOptions options;
  options.more = {"--peer-timeout=1h"};
  ServerProcess* server = StartServer(options);
  ASSERT_NE(server, nullptr);
  auto child = ChildProcess::Start({{"tests/integration/random_client", server->address(),
                                     GetParam().notify, "1", "100000000", "1000", "4s"}});
  ASSERT_TRUE(child.ok()) << child.status();
  ASSERT_TRUE(AwaitOpenLeases(server, 1));
  uint64_t calls = 0;
  for (int i = 0; i < 2; ++i) {
    // It is in the middle of its calls, the second time after it has been stopped.
    ASSERT_GT(AwaitMoreCalls(server, calls), 0u) << (*child)->Errors();
    // It stops between two calls, and so without a lock that the server needs.
    (*child)->Signal(SIGUSR2);
    // Longer than it waits for the server.
    absl::SleepFor(absl::Milliseconds(4500));
    calls = AwaitMoreCalls(server, 0);
    (*child)->Signal(SIGCONT);
  }
  EXPECT_GT(AwaitMoreCalls(server, calls), 0u) << (*child)->Errors();
  (*child)->Signal(SIGTERM);
  EXPECT_EQ((*child)->Wait(), 0) << (*child)->Errors();
}

TEST_P(PeerDeathTest, AServerDoesNotTakeItsOwnAbsenceForItsClients) {
  ServerProcessOptions options;
  // Long enough for a client that gets no processor for a while, on a machine that others use.
  options.more = {"--peer-timeout=6s"};
  ServerProcess* server = StartServer(options);
  ClientOptions patient;
  patient.peer_timeout = kPatience;
  const std::unique_ptr<Client> client = Connect(server, patient);
  ASSERT_NE(client, nullptr);
  server->Suspend();
  absl::SleepFor(absl::Seconds(8));
  server->Resume();
  EXPECT_EQ(MakeRandomCalls(client.get(), TestSeed(), 100, 1000), absl::OkStatus());
  EXPECT_EQ(client->status(), absl::OkStatus());
}

TEST_P(PeerDeathTest, ASilentClientLosesItsSessionAndCannotGoOnWithIt) {
  ServerProcessOptions options;
  // The other client must not be silent for so long, however busy the machine.
  options.more = {"--peer-timeout=6s"};
  ServerProcess* server = StartServer(options);
  const std::unique_ptr<Client> other = Connect(server);
  ASSERT_NE(other, nullptr);
  auto child = ChildProcess::Start({{"tests/integration/random_client", server->address(),
                                     GetParam().notify, "1", "100000000", "1000", "5s"}});
  ASSERT_TRUE(child.ok()) << child.status();
  ASSERT_TRUE(AwaitOpenLeases(server, 2));
  (*child)->Signal(SIGUSR2);
  ASSERT_TRUE(AwaitOpenLeases(server, 1));
  EXPECT_EQ(MakeRandomCalls(other.get(), TestSeed(), 20, 1000), absl::OkStatus());
  (*child)->Signal(SIGCONT);
  EXPECT_EQ((*child)->Wait(), 1) << (*child)->Errors();
  EXPECT_EQ(MakeRandomCalls(other.get(), TestSeed(), 20, 1000), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Fabrics, PeerDeathTest, BothProviders(), FabricName);

}  // namespace
}  // namespace invoker
