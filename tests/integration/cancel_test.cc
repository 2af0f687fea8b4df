// Calls that are cancelled: what their callers hear, what the worker runs, and what becomes of
// their cells.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/integration/fabric_test.h"
#include "tests/integration/rendezvous.h"

namespace invoker {
namespace {

constexpr char kOverMark[] = "a request inside a send may come over its mark";

class CancelTest : public FabricTest {
 protected:
  void ExpectCancelled(const absl::Status& status, absl::string_view fate) {
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
    EXPECT_EQ(CallFateName(GetCallFate(status)), fate) << status;
  }

  // For what stays in the executor's queue. As a rule it is there; a fabric that takes no write at
  // that moment leaves it with the client.
  void ExpectCancelledBeforeItRuns(const absl::Status& status) {
    const bool left = GetCallFate(status) != CallFate::kNotSent;
    ExpectCancelled(status, left ? "maybe_executed" : "not_sent");
  }
};

TEST_P(CancelTest, AQueuedCallEndsAtOnceAndNeverRuns) {
  Rendezvous running;
  Rendezvous queued;
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  if (client->notification() == Notification::kSendAfterWrite) GTEST_SKIP() << kOverMark;
  const RemoteFunction hold = FunctionNamed(*client, "test.rendezvous");
  Future first = client->InvokeAsync(hold, running.path());
  ASSERT_TRUE(running.WaitUntilRunning());
  Future second = client->InvokeAsync(hold, queued.path());
  EXPECT_FALSE(second.Wait(absl::Milliseconds(1)));
  EXPECT_TRUE(second.Cancel());
  EXPECT_FALSE(second.Cancel());
  ExpectCancelledBeforeItRuns(second.Get().status());
  running.Release();
  EXPECT_TRUE(first.Get().ok());
  // Behind it in the executor's queue, so that its turn has come and gone.
  EXPECT_EQ(client->Ping({}), absl::OkStatus());
  EXPECT_FALSE(queued.HasBegun());
  EXPECT_EQ(client->status(), absl::OkStatus());
}

// Whether it begins or not: if it does, it learns that it has been cancelled.
TEST_P(CancelTest, AQueuedCallDoesNotRunForEver) {
  Rendezvous running;
  Rendezvous queued;
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  Future first = client->InvokeAsync(FunctionNamed(*client, "test.rendezvous"), running.path());
  ASSERT_TRUE(running.WaitUntilRunning());
  Future second =
      client->InvokeAsync(FunctionNamed(*client, "test.until_cancelled"), queued.path());
  EXPECT_TRUE(second.Cancel());
  ExpectCancelledBeforeItRuns(second.Get().status());
  running.Release();
  EXPECT_TRUE(first.Get().ok());
  EXPECT_EQ(client->Ping({}), absl::OkStatus());
}

TEST_P(CancelTest, AFunctionThatRunsLearnsOfIt) {
  Rendezvous rendezvous;
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  Future call =
      client->InvokeAsync(FunctionNamed(*client, "test.until_cancelled"), rendezvous.path());
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  EXPECT_TRUE(call.Cancel());
  ExpectCancelled(call.Get().status(), "maybe_executed");
  EXPECT_TRUE(rendezvous.WaitUntilRunning());
  EXPECT_EQ(client->Ping({}), absl::OkStatus());
}

TEST_P(CancelTest, AFunctionThatRunsLearnsThatItsDeadlineHasPassed) {
  Rendezvous rendezvous;
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  CallOptions options;
  EXPECT_FALSE(rendezvous
                   .RunBeyondDeadline([&](absl::Duration timeout) {
                     options.timeout = timeout;
                     return client
                         ->Invoke(FunctionNamed(*client, "test.until_cancelled"), rendezvous.path(),
                                  options)
                         .status();
                   })
                   .ok());
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  // The function ends by its own clock, whichever side's is first.
  EXPECT_TRUE(rendezvous.WaitUntilRunning());
  EXPECT_EQ(client->Ping({}), absl::OkStatus());
}

// More than the windows take at once, so that cells must come back for all of them to be sent.
TEST_P(CancelTest, TheirCellsComeBackAndNoByteLandsInAnotherMessage) {
  Rendezvous rendezvous;
  ServerProcessOptions options;
  options.window = "64K";
  ServerProcess* server = StartServer(options);
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = FunctionNamed(*client, "test.echo");
  CallOptions small;
  small.response_capacity = 1000;
  const std::string text(1000, 'c');
  for (int round = 0; round < 20; ++round) {
    std::vector<Future> futures;
    for (int i = 0; i < 40; ++i) futures.push_back(client->InvokeAsync(echo, text, small));
    for (int i = 0; i < 40; i += 2) futures[i].Cancel();
    for (int i = 0; i < 40; ++i) {
      const absl::StatusOr<Response> response = futures[i].Get();
      if (response.ok()) {
        ASSERT_EQ(response->text(), text);
      } else {
        ASSERT_EQ(i % 2, 0) << response.status();
        ASSERT_EQ(response.status().code(), absl::StatusCode::kCancelled) << response.status();
      }
    }
  }
  // All of the window at once.
  const std::string all(client->max_payload(), 'a');
  CallOptions whole;
  whole.response_capacity = static_cast<uint32_t>(all.size());
  while (true) {
    const absl::StatusOr<Response> response = client->Invoke(echo, all, whole);
    if (absl::IsResourceExhausted(response.status()))
      continue;  // the last answers are on their way
    ASSERT_TRUE(response.ok()) << response.status();
    ASSERT_EQ(response->text(), all);
    break;
  }
}

TEST_P(CancelTest, AnInterruptedCallIsCancelled) {
  static std::atomic<bool> interrupted;
  interrupted = false;
  Rendezvous running;
  Rendezvous queued;
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  if (client->notification() == Notification::kSendAfterWrite) GTEST_SKIP() << kOverMark;
  const RemoteFunction hold = FunctionNamed(*client, "test.rendezvous");
  Future first = client->InvokeAsync(hold, running.path());
  ASSERT_TRUE(running.WaitUntilRunning());
  CallOptions options;
  options.interrupted = [] { return interrupted.load(); };
  absl::Status status;
  std::thread waits([&] { status = client->Invoke(hold, queued.path(), options).status(); });
  interrupted = true;
  waits.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  running.Release();
  EXPECT_TRUE(first.Get().ok());
  EXPECT_EQ(client->Ping({}), absl::OkStatus());
  EXPECT_FALSE(queued.HasBegun());
}

TEST_P(CancelTest, ACallWithACallbackIsCancelledByItsFuture) {
  Rendezvous rendezvous;
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  absl::Notification ended;
  absl::Status status;
  CallDone done = [&](absl::StatusOr<Response> response) {
    status = response.status();
    ended.Notify();
  };
  const std::string path = rendezvous.path();
  Future call = client->InvokeAsync(FunctionNamed(*client, "test.until_cancelled"), path, {},
                                    std::move(done));
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  EXPECT_TRUE(call.Cancel());
  EXPECT_TRUE(ended.HasBeenNotified());
  ExpectCancelled(status, "maybe_executed");
  EXPECT_FALSE(call.Cancel());
  EXPECT_TRUE(rendezvous.WaitUntilRunning());
  EXPECT_EQ(client->Ping({}), absl::OkStatus());
}

TEST_P(CancelTest, ACallThatHasEndedIsLeftAlone) {
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = Connect(server);
  ASSERT_NE(client, nullptr);
  Future call = client->InvokeAsync(FunctionNamed(*client, "test.echo"), "done");
  ASSERT_TRUE(call.Wait(kPatience));
  EXPECT_FALSE(call.Cancel());
  EXPECT_EQ(call.Get()->text(), "done");
  EXPECT_FALSE(call.Cancel());
}

INSTANTIATE_TEST_SUITE_P(Fabrics, CancelTest, AllFabrics(), FabricName);

}  // namespace
}  // namespace invoker
