// Clients as programs use them: many threads, futures, callbacks, and whatever outlives what.

#include "invoker/client.h"

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "src/invoke/connect/connection.h"
#include "tests/invoke/served_client.h"

namespace invoker {
namespace {

class ClientTest : public testing::TestWithParam<const char*> {
 protected:
  static WorkerOptions SmallWindows() {
    WorkerOptions options;
    options.window_bytes = 4096;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Providers, ClientTest, testing::Values("tcp;ofi_rxm", "shm"),
                         NameOfProvider);

CallOptions Capacity(uint32_t bytes) {
  CallOptions options;
  options.response_capacity = bytes;
  return options;
}

TEST_P(ClientTest, ThreadsFuturesAndCallbacksShareOneClient) {
  ServedWorker served(GetParam());
  ClientOptions options;
  options.first_sequence = uint64_t{0} - 40;
  std::unique_ptr<Client> client = served.Connect(options);
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = Find(*client, "echo");
  constexpr int kThreads = 4;
  constexpr int kCalls = 300;
  std::atomic<int> callbacks{0};
  std::atomic<int> expected_callbacks{0};
  absl::Notification all_back;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::pair<Future, std::string>> futures;
      for (int i = 0; i < kCalls; ++i) {
        const std::string text = std::to_string(t) + "/" + std::to_string(i);
        if (i % 3 == 0) {
          futures.emplace_back(client->InvokeAsync(echo, text), text);
        } else if (i % 7 == 0) {
          expected_callbacks.fetch_add(2);
          const Bytes bytes(reinterpret_cast<const std::byte*>(text.data()), text.size());
          client->InvokeAsync(echo, bytes, {}, [&, text](absl::StatusOr<Response> response) {
            ASSERT_TRUE(response.ok()) << response.status();
            EXPECT_EQ(response->text(), text);
            callbacks.fetch_add(1);
            // A callback may call, both ways.
            absl::StatusOr<Response> again = client->Invoke(echo, text);
            EXPECT_TRUE(again.ok()) << again.status();
            const Bytes more(reinterpret_cast<const std::byte*>(text.data()), text.size());
            client->InvokeAsync(echo, more, {}, [&, text](absl::StatusOr<Response> last) {
              EXPECT_TRUE(last.ok()) << last.status();
              callbacks.fetch_add(1);
            });
          });
        } else {
          absl::StatusOr<Response> response = client->Invoke(echo, text);
          ASSERT_TRUE(response.ok()) << response.status();
          ASSERT_EQ(response->text(), text);
        }
        if (futures.size() == 8) {
          for (auto& [future, sent] : futures) {
            absl::StatusOr<Response> response = future.Get();
            ASSERT_TRUE(response.ok()) << response.status();
            ASSERT_EQ(response->text(), sent);
          }
          futures.clear();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (callbacks.load() < expected_callbacks.load()) std::this_thread::yield();
  EXPECT_EQ(TotalDrops(served.worker->Counters().dropped), 0u);
  EXPECT_TRUE(client->status().ok());
}

// So that who knows the endpoint's address alone has to guess it, to ring a session's doorbells.
TEST_P(ClientTest, NumbersOfSessionsAreDrawn) {
  ServedWorker served(GetParam());
  std::set<uint16_t> numbers;
  for (int i = 0; i < 4; ++i) {
    const std::unique_ptr<Client> client = served.Connect();
    ASSERT_NE(client, nullptr);
    const bootstrap::OpenSessionRequest request =
        client->connection().driver()->MakeRequest(client->notification());
    numbers.insert(static_cast<uint16_t>(request.response_session));
  }
  EXPECT_GT(numbers.size(), 1u);
}

// With nobody waiting, the helper drives.
TEST_P(ClientTest, ACallbackComesWithoutAnybodyWaiting) {
  ServedWorker served(GetParam());
  std::unique_ptr<Client> client = served.Connect();
  const RemoteFunction echo = Find(*client, "echo");
  for (int i = 0; i < 50; ++i) {
    absl::Notification done;
    client->InvokeAsync(echo, Bytes(), {}, [&](absl::StatusOr<Response> response) {
      EXPECT_TRUE(response.ok()) << response.status();
      done.Notify();
    });
    done.WaitForNotification();
  }
}

// The role of the driver goes to a thread whose patience ends just then; the call that nobody waits
// for must not be left alone.
TEST_P(ClientTest, ACallbackComesThoughWaitsAroundItGiveUp) {
  ServedWorker served(GetParam());
  std::unique_ptr<Client> client = served.Connect();
  const RemoteFunction echo = Find(*client, "echo");
  const RemoteFunction burn = Find(*client, "burn");
  const uint64_t turns = 10'000;
  const absl::string_view input(reinterpret_cast<const char*>(&turns), sizeof(turns));
  std::atomic<bool> stop{false};
  std::vector<std::thread> impatient;
  for (int t = 0; t < 3; ++t) {
    impatient.emplace_back([&, t] {
      while (!stop) {
        Future future = client->InvokeAsync(burn, input, Capacity(8));
        future.Wait(absl::Microseconds(20 + 30 * t));
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    absl::Notification done;
    client->InvokeAsync(echo, Bytes(), Capacity(8),
                        [&](absl::StatusOr<Response>) { done.Notify(); });
    done.WaitForNotification();
  }
  stop = true;
  for (std::thread& thread : impatient) thread.join();
}

TEST_P(ClientTest, AFutureEndsOnceAndWaitSaysWhen) {
  ServedWorker served(GetParam());
  std::unique_ptr<Client> client = served.Connect();
  Future future = client->InvokeAsync(Find(*client, "gate"), "", Capacity(8));
  EXPECT_FALSE(future.Wait(absl::ZeroDuration()));
  EXPECT_FALSE(future.Wait(absl::Milliseconds(1)));
  EXPECT_FALSE(future.Wait(-absl::InfiniteDuration()));
  served.functions.open.Notify();
  EXPECT_TRUE(future.Wait(absl::InfiniteDuration()));
  EXPECT_TRUE(future.Get().ok());
  EXPECT_TRUE(future.Wait(absl::ZeroDuration()));
  EXPECT_TRUE(absl::IsFailedPrecondition(future.Get().status()));
}

// The result of a dropped future is abandoned, the call is made all the same.
TEST_P(ClientTest, ADroppedFuturesCallIsMade) {
  ServedWorker served(GetParam());
  std::unique_ptr<Client> client = served.Connect();
  const RemoteFunction echo = Find(*client, "echo");
  // Both fit into the window at once. Too large to leave in one go.
  const std::string large(1'000'000, 'x');
  for (int i = 0; i < 2; ++i) client->InvokeAsync(echo, large, Capacity(8));
  while (served.functions.calls.load() < 2) std::this_thread::yield();
  absl::StatusOr<Response> response = client->Invoke(echo, "after");
  ASSERT_TRUE(response.ok()) << response.status();
}

TEST_P(ClientTest, AllCellsAreFreeAgainOnceEverythingHasEnded) {
  ServedWorker served(GetParam(), SmallWindows());
  std::unique_ptr<Client> client = served.Connect();
  const RemoteFunction echo = Find(*client, "echo");
  for (int i = 0; i < 200; ++i) {
    Future dropped = client->InvokeAsync(echo, std::string(i, 'd'), Capacity(i % 90 + 1));
    EXPECT_TRUE(client->Invoke(echo, std::string(i % 50, 'k'), Capacity(64)).ok());
  }
  // A whole window, both ways. Notifications may overtake one another, so the answer to what was
  // dropped last may still be to come.
  const std::string whole(client->max_payload(), 'w');
  absl::StatusOr<Response> response = client->Invoke(echo, whole);
  while (absl::IsResourceExhausted(response.status())) response = client->Invoke(echo, whole);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->text(), whole);
}

TEST_P(ClientTest, HeldResponsesExhaustTheWindowWhenNothingIsUnderWay) {
  ServedWorker served(GetParam(), SmallWindows());
  std::unique_ptr<Client> client = served.Connect();
  const RemoteFunction echo = Find(*client, "echo");
  const std::string half(2000, 'h');
  std::vector<Response> held;
  for (int i = 0; i < 2; ++i) {
    absl::StatusOr<Response> response = client->Invoke(echo, half);
    ASSERT_TRUE(response.ok()) << response.status();
    held.push_back(*std::move(response));
  }
  absl::StatusOr<Response> refused = client->Invoke(echo, half);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_EQ(GetCallFate(refused.status()), CallFate::kNotSent);
  held.pop_back();
  EXPECT_TRUE(client->Invoke(echo, half).ok());
  EXPECT_EQ(held[0].text(), half);
}

TEST_P(ClientTest, ACallWaitsForRoomWhileOthersAreUnderWay) {
  ServedWorker served(GetParam(), SmallWindows());
  std::unique_ptr<Client> client = served.Connect();
  std::thread gate(
      [&] { EXPECT_TRUE(client->Invoke(Find(*client, "gate"), "", Capacity(4000)).ok()); });
  served.functions.entered.WaitForNotification();
  // No room, and a deadline that passes first.
  CallOptions hurried = Capacity(4000);
  hurried.timeout = absl::Milliseconds(5);
  absl::StatusOr<Response> late = client->Invoke(Find(*client, "echo"), "x", hurried);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
  EXPECT_EQ(GetCallFate(late.status()), CallFate::kNotSent);
  std::thread waiting([&] {
    // The other thread has its response for a moment.
    CallOptions patient = Capacity(4000);
    patient.when_full = WhenFull::kWaitForResponses;
    absl::StatusOr<Response> response = client->Invoke(Find(*client, "echo"), "patient", patient);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->text(), "patient");
  });
  served.functions.open.Notify();
  gate.join();
  waiting.join();
}

// The thread that waits for room drives itself, so nobody else tells it that a response was
// released.
TEST_P(ClientTest, RoomThatAnotherThreadMakesIsNoticedWhileACallIsUnderWay) {
  ServedWorker served(GetParam(), SmallWindows());
  ClientOptions options;
  options.hot_timeout = absl::InfiniteDuration();
  std::unique_ptr<Client> client = served.Connect(options);
  const RemoteFunction echo = Find(*client, "echo");
  absl::StatusOr<Response> held = client->Invoke(echo, std::string(3000, 'h'));
  ASSERT_TRUE(held.ok()) << held.status();
  Future gate = client->InvokeAsync(Find(*client, "gate"), "", Capacity(8));
  served.functions.entered.WaitForNotification();
  absl::Notification waits;
  std::atomic<bool> started{false};
  Future second = [&] {
    std::thread release([&] {
      waits.WaitForNotification();
      // Late enough, nearly always, that the other thread waits for room by now.
      absl::SleepFor(absl::Milliseconds(20));
      held = absl::CancelledError("released");
    });
    waits.Notify();
    Future future = client->InvokeAsync(echo, "second", Capacity(3000));
    started = true;
    release.join();
    return future;
  }();
  // It was started though the call under way has not ended.
  EXPECT_TRUE(started);
  EXPECT_FALSE(served.functions.open.HasBeenNotified());
  served.functions.open.Notify();
  absl::StatusOr<Response> response = second.Get();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->text(), "second");
  EXPECT_TRUE(gate.Get().ok());
}

// The late response lies in the completion queue, and no call is under way that would make anybody
// look.
TEST_P(ClientTest, RoomOfATimedOutCallIsFoundAgain) {
  ServedWorker served(GetParam(), SmallWindows());
  std::unique_ptr<Client> client = served.Connect();
  CallOptions hurried = Capacity(4000);
  CallFate fate = CallFate::kNotSent;
  // On a busy machine it may not be sent in time.
  for (int ms = 5; fate == CallFate::kNotSent && ms < 30'000; ms *= 4) {
    hurried.timeout = absl::Milliseconds(ms);
    absl::StatusOr<Response> late = client->Invoke(Find(*client, "gate"), "", hurried);
    EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
    fate = GetCallFate(late.status());
  }
  EXPECT_EQ(fate, CallFate::kMaybeExecuted);
  served.functions.open.Notify();
  const RemoteFunction echo = Find(*client, "echo");
  absl::StatusOr<Response> response = absl::UnknownError("not called");
  do {
    response = client->Invoke(echo, "x", Capacity(4000));
  } while (absl::IsResourceExhausted(response.status()));
  EXPECT_TRUE(response.ok()) << response.status();
}

// The worker is told of the cancellation by a write, which may be the last to end.
TEST_P(ClientTest, RoomOfACancelledCallIsThereOnceItHasBeenAnswered) {
  ServedWorker served(GetParam(), SmallWindows());
  std::unique_ptr<Client> client = served.Connect();
  const RemoteFunction echo = Find(*client, "echo");
  const std::string whole(client->max_payload(), 'w');
  for (int i = 0; i < 200; ++i) {
    Future cancelled = client->InvokeAsync(echo, "x", Capacity(64));
    // Where it comes too late, the response is the future's, and holds room.
    if (!cancelled.Cancel()) cancelled.Get().IgnoreError();
    // The one executor answers this after the first.
    ASSERT_TRUE(client->Ping(Bytes()).ok());
    absl::StatusOr<Response> response = client->Invoke(echo, whole);
    ASSERT_TRUE(response.ok()) << response.status() << " in round " << i;
  }
}

TEST_P(ClientTest, ABufferServesOneCallAtATime) {
  ServedWorker served(GetParam());
  std::unique_ptr<Client> client = served.Connect();
  absl::StatusOr<Buffer> buffer = client->AllocateBuffer(100);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  memset(buffer->data().data(), 'b', 100);
  Future gate = client->InvokeAsync(Find(*client, "gate"), {*buffer, 10}, Capacity(8));
  served.functions.entered.WaitForNotification();
  absl::StatusOr<Response> busy = client->Invoke(Find(*client, "echo"), {*buffer, 100});
  EXPECT_TRUE(absl::IsFailedPrecondition(busy.status())) << busy.status();
  EXPECT_EQ(GetCallFate(busy.status()), CallFate::kNotSent);
  served.functions.open.Notify();
  EXPECT_TRUE(gate.Get().ok());
  absl::StatusOr<Response> response = client->Invoke(Find(*client, "echo"), {*buffer, 100});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->text(), std::string(100, 'b'));
  EXPECT_TRUE(
      absl::IsInvalidArgument(client->Invoke(Find(*client, "echo"), {*buffer, 101}).status()));
}

// Both threads find it free at first and have to wait for room; only one may go on with it.
TEST_P(ClientTest, ABufferServesOneCallAtATimeAlsoForThreadsThatWaitedForRoom) {
  ServedWorker served(GetParam(), SmallWindows());
  std::unique_ptr<Client> client = served.Connect();
  absl::StatusOr<Buffer> buffer = client->AllocateBuffer(8);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  const RemoteFunction second_gate = Find(*client, "second_gate");
  std::atomic<int> waiting{0};
  std::atomic<int> started{0};
  std::atomic<int> busy{0};
  std::vector<std::thread> threads;
  {
    std::thread gate(
        [&] { EXPECT_TRUE(client->Invoke(Find(*client, "gate"), "", Capacity(4064)).ok()); });
    served.functions.entered.WaitForNotification();
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        CallOptions options = Capacity(8);
        options.when_full = WhenFull::kWaitForResponses;
        waiting.fetch_add(1);
        Future future = client->InvokeAsync(second_gate, {*buffer, 8}, options);
        started.fetch_add(1);
        const absl::Status status = future.Get().status();
        if (absl::IsFailedPrecondition(status)) {
          busy.fetch_add(1);
        } else {
          EXPECT_TRUE(status.ok()) << status;
        }
      });
    }
    while (waiting.load() < 2) std::this_thread::yield();
    // All but surely they wait for room by then. If not, the buffer is busy all the same.
    absl::SleepFor(absl::Milliseconds(20));
    served.functions.open.Notify();
    gate.join();
  }
  while (started.load() < 2) std::this_thread::yield();
  served.functions.second_open.Notify();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(busy.load(), 1);
}

// None of them has a call of its own to wait for, so each must be content to drive for the others.
TEST_P(ClientTest, ThreadsThatAllWaitForRoomMakeIt) {
  constexpr int kThreads = 6;
  constexpr int kCalls = 200;
  ServedWorker served(GetParam());
  ClientOptions options;
  options.window_bytes = 4096;
  std::unique_ptr<Client> client = served.Connect(options);
  const RemoteFunction echo = Find(*client, "echo");
  CallOptions with_room;
  with_room.response_capacity = 1000;
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const std::string text(900, 'r');
      for (int i = 0; i < kCalls; ++i) {
        client->InvokeAsync(echo, {reinterpret_cast<const std::byte*>(text.data()), text.size()},
                            with_room, [&](absl::StatusOr<Response> response) {
                              EXPECT_TRUE(response.ok()) << response.status();
                              if (response.ok()) {
                                EXPECT_EQ(response->text(), text);
                              }
                              ++done;
                            });
      }
      // The callbacks refer to what is this thread's.
      while (done.load() < kThreads * kCalls) std::this_thread::yield();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(ClientTest, ABufferThatGoesDuringItsCallIsFreedAfterIt) {
  ServedWorker served(GetParam(), SmallWindows());
  std::unique_ptr<Client> client = served.Connect();
  absl::StatusOr<Buffer> buffer = client->AllocateBuffer(4000);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  Future gate = client->InvokeAsync(Find(*client, "gate"), {*buffer, 4000}, Capacity(8));
  served.functions.entered.WaitForNotification();
  buffer = absl::CancelledError("gone");
  EXPECT_TRUE(absl::IsResourceExhausted(client->AllocateBuffer(4000).status()));
  served.functions.open.Notify();
  EXPECT_TRUE(gate.Get().ok());
  EXPECT_TRUE(client->AllocateBuffer(4000).ok());
}

TEST_P(ClientTest, FuturesResponsesAndBuffersOutliveTheClient) {
  ServedWorker served(GetParam());
  std::unique_ptr<Client> client = served.Connect();
  const RemoteFunction echo = Find(*client, "echo");
  absl::StatusOr<Response> response = client->Invoke(echo, "still here");
  ASSERT_TRUE(response.ok()) << response.status();
  absl::StatusOr<Buffer> buffer = client->AllocateBuffer(64);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  Future done = client->InvokeAsync(echo, "done");
  EXPECT_TRUE(done.Wait(absl::InfiniteDuration()));
  Future gate = client->InvokeAsync(Find(*client, "gate"), "", Capacity(8));
  served.functions.entered.WaitForNotification();
  absl::StatusOr<Response> by_callback = absl::UnknownError("not called");
  client->InvokeAsync(echo, Bytes(), {},
                      [&](absl::StatusOr<Response> result) { by_callback = std::move(result); });
  std::thread waits([&] {
    const absl::Status status = gate.Get().status();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_EQ(GetCallFate(status), CallFate::kMaybeExecuted);
  });
  // Closing a session waits for its executor, which the gate keeps busy.
  std::thread opens([&] {
    waits.join();
    served.functions.open.Notify();
  });
  client.reset();
  opens.join();
  EXPECT_NE(by_callback.status().code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(response->text(), "still here");
  memset(buffer->data().data(), 1, 64);
  absl::StatusOr<Response> kept = done.Get();
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->text(), "done");
}

// Closing ends the calls of other threads, which may still be on their way out when the client
// goes.
TEST_P(ClientTest, ThreadsThatWaitInACallSurviveTheEndOfTheClient) {
  ServedWorker served(GetParam());
  std::unique_ptr<Client> client = served.Connect();
  const RemoteFunction gate = Find(*client, "gate");
  std::atomic<int> entered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, raw = client.get()] {
      entered.fetch_add(1);
      const absl::Status status = raw->Invoke(gate, "", Capacity(8)).status();
      EXPECT_TRUE(absl::IsCancelled(status)) << status;
      // Closing a session waits for its executor, which the gate keeps busy.
      if (entered.fetch_sub(1) == 1) served.functions.open.Notify();
    });
  }
  while (entered.load() < 3) std::this_thread::yield();
  // All but surely they wait in the call by then.
  absl::SleepFor(absl::Milliseconds(20));
  client.reset();
  for (std::thread& thread : threads) thread.join();
}

TEST_P(ClientTest, AWorkerThatDrainsRefusesCallsWithoutRunningThem) {
  ServedWorker served(GetParam());
  std::unique_ptr<Client> client = served.Connect();
  const RemoteFunction echo = Find(*client, "echo");
  EXPECT_TRUE(client->Invoke(echo, "before").ok());
  served.worker->Drain();
  const uint64_t calls = served.functions.calls;
  const absl::Status status = client->Invoke(echo, "after").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(GetCallFate(status), CallFate::kNotExecuted);
  EXPECT_EQ(served.functions.calls, calls);
  EXPECT_FALSE(Client::Connect(served.server->listen_address()).ok());
}

}  // namespace
}  // namespace invoker
