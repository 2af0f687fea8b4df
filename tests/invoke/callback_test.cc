// Callbacks: which run when, and what waits for them.

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/invoke/served_client.h"

namespace invoker {
namespace {

constexpr std::byte kByte{'x'};
constexpr Bytes kInput(&kByte, 1);

class CallbackTest : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Providers, CallbackTest, testing::Values("tcp;ofi_rxm", "shm"),
                         NameOfProvider);

// The program may free what it refers to.
TEST_P(CallbackTest, ClosingWaitsForOneOnWhicheverThread) {
  ServedWorker served(GetParam());
  constexpr int kMostRounds = 100;
  bool on_another = false;
  // Which thread it is that takes the result is chance.
  for (int round = 0; round < kMostRounds && !on_another; ++round) {
    std::unique_ptr<Client> client = served.Connect();
    ASSERT_NE(client, nullptr);
    const RemoteFunction echo = Find(*client, "echo");
    std::thread other([&] {
      while (client->Invoke(echo, "others").ok()) {
      }
    });
    absl::Notification entered;
    std::atomic<bool> over{false};
    client->InvokeAsync(echo, kInput, {}, [&](absl::StatusOr<Response> response) {
      EXPECT_TRUE(response.ok()) << response.status();
      on_another = std::this_thread::get_id() == other.get_id();
      entered.Notify();
      while (client->status().ok()) absl::SleepFor(absl::Milliseconds(1));
      // It is being closed, which has time to forget this.
      absl::SleepFor(absl::Milliseconds(20));
      over = true;
    });
    entered.WaitForNotification();
    client->Close();
    EXPECT_TRUE(over) << "in round " << round;
    other.join();
  }
  EXPECT_TRUE(on_another);
}

// Which may lock what others do, and has a stack that ends.
TEST_P(CallbackTest, ACallInsideOfOneRunsNoOther) {
  ServedWorker served(GetParam());
  std::unique_ptr<Client> client = served.Connect();
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = Find(*client, "echo");
  constexpr int kCalls = 200;
  static thread_local int inside = 0;
  std::atomic<int> nested{0};
  absl::BlockingCounter all(kCalls);
  CallOptions options;
  options.response_capacity = 16;  // so that there is always room
  for (int i = 0; i < kCalls; ++i) {
    client->InvokeAsync(echo, kInput, options, [&](absl::StatusOr<Response> response) {
      EXPECT_TRUE(response.ok()) << response.status();
      if (++inside > 1) ++nested;
      const absl::StatusOr<Response> inner = client->Invoke(echo, "inner", options);
      EXPECT_TRUE(inner.ok()) << inner.status();
      --inside;
      all.DecrementCount();
    });
  }
  all.Wait();
  EXPECT_EQ(nested, 0);
}

// They have ended, and nobody else may be there to take them.
TEST_P(CallbackTest, ACallInsideOfOneHasTheRoomOfResultsThatWaitForTheirs) {
  WorkerOptions worker;
  worker.window_bytes = 4096;
  ServedWorker served(GetParam(), worker);
  std::unique_ptr<Client> client = served.Connect();
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = Find(*client, "echo");
  CallOptions options;
  options.response_capacity = 900;
  constexpr int kCalls = 60;
  absl::BlockingCounter all(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    client->InvokeAsync(echo, kInput, options, [&](absl::StatusOr<Response> response) {
      EXPECT_TRUE(response.ok()) << response.status();
      response = absl::CancelledError("released");
      for (int inner = 0; inner < 3; ++inner) {
        const absl::StatusOr<Response> own = client->Invoke(echo, "inner", options);
        EXPECT_TRUE(own.ok()) << own.status();
      }
      all.DecrementCount();
    });
  }
  all.Wait();
}

// Those of one turn are taken together.
TEST_P(CallbackTest, ACallInsideOfOneHasTheRoomOfResultsThatWereTakenWithIts) {
  WorkerOptions worker;
  worker.window_bytes = 4096;
  ServedWorker served(GetParam(), worker);
  std::unique_ptr<Client> client = served.Connect();
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = Find(*client, "echo");
  CallOptions small;
  small.response_capacity = 16;
  CallOptions large;  // there is room for two
  large.response_capacity = 1800;
  std::atomic<int> taken{0};
  absl::BlockingCounter all(3);
  client->InvokeAsync(echo, kInput, small, [&](absl::StatusOr<Response> outer) {
    EXPECT_TRUE(outer.ok()) << outer.status();
    for (int i = 0; i < 2; ++i) {
      client->InvokeAsync(echo, kInput, large, [&](absl::StatusOr<Response> response) {
        EXPECT_TRUE(response.ok()) << response.status();
        if (++taken == 1) {
          const absl::StatusOr<Response> inner = client->Invoke(echo, "inner", large);
          EXPECT_TRUE(inner.ok()) << inner.status();
        }
        all.DecrementCount();
      });
    }
    // Behind both, which so have ended when this callback has.
    EXPECT_TRUE(client->Invoke(echo, kInput, small).ok());
    all.DecrementCount();
  });
  all.Wait();
}

// Each waits for room that the other holds.
TEST_P(CallbackTest, CallsInsideOfTwoOnTwoThreadsDoNotWaitForOneAnother) {
  WorkerOptions worker;
  worker.window_bytes = 4096;
  ServedWorker served(GetParam(), worker);
  std::unique_ptr<Client> client = served.Connect();
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = Find(*client, "echo");
  CallOptions large;  // there is room for two
  large.response_capacity = 1800;
  absl::Notification first_entered;
  absl::Barrier* const both = new absl::Barrier(2);
  absl::BlockingCounter all(2);
  std::atomic<int> refused{0};
  const auto take = [&](absl::StatusOr<Response> response) {
    EXPECT_TRUE(response.ok()) << response.status();
    if (!first_entered.HasBeenNotified()) first_entered.Notify();
    if (both->Block()) delete both;
    const absl::StatusOr<Response> inner = client->Invoke(echo, "inner", large);
    if (!inner.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(inner.status())) << inner.status();
      ++refused;
    }
    all.DecrementCount();
  };
  client->InvokeAsync(echo, kInput, large, take);
  first_entered.WaitForNotification();
  bool taken_here = false;
  client->InvokeAsync(echo, kInput, large, [&](absl::StatusOr<Response> response) {
    taken_here = true;
    take(std::move(response));
  });
  CallOptions small;
  small.response_capacity = 16;
  while (!taken_here) EXPECT_TRUE(client->Invoke(echo, kInput, small).ok());
  all.Wait();
  EXPECT_GE(refused, 1);
}

}  // namespace
}  // namespace invoker
