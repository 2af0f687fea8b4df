// A blocking call allocates nothing, on either side, once it has been made a few times.

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "bench/harness/counted_memory.h"
#include "gtest/gtest.h"
#include "tests/invoke/served_client.h"
#include "tests/transport/immediates.h"

namespace invoker {
namespace {

struct Path {
  const char* name;
  const char* provider;
  Notification notification;

  ClientOptions options() const {
    ClientOptions options;
    options.notification = notification;
    // gRPC allocates for the lease's heartbeats, and on a loaded machine a burst of calls takes
    // longer than from one to the next of the default.
    options.peer_timeout = absl::Seconds(60);
    return options;
  }
};

class NoAllocationTest : public testing::TestWithParam<Path> {};

INSTANTIATE_TEST_SUITE_P(
    Paths, NoAllocationTest,
    testing::Values(Path{"TcpWriteImm", transport::WithImmediates("tcp;ofi_rxm"),
                         Notification::kWriteImm},
                    Path{"TcpSendAfterWrite", "tcp;ofi_rxm", Notification::kSendAfterWrite},
                    Path{"ShmWriteImm", "shm", Notification::kWriteImm},
                    Path{"ShmSendAfterWrite", "shm", Notification::kSendAfterWrite}),
    [](const testing::TestParamInfo<Path>& info) { return info.param.name; });

// What both sides allocate during the calmest of several bursts: a heartbeat, or a pool that grows,
// falls into some of them, what a call allocates into each.
template <typename Burst>
uint64_t FewestAllocations(const Burst& burst) {
  constexpr int kBursts = 40;
  uint64_t fewest = UINT64_MAX;
  for (int i = 0; i < kBursts && fewest != 0; ++i) {
    const uint64_t before = bench::Allocations();
    burst();
    fewest = std::min(fewest, bench::Allocations() - before);
  }
  return fewest;
}

TEST_P(NoAllocationTest, TheCounterCounts) {
  const uint64_t before = bench::Allocations();
  delete new std::string("a string that is too long for the object itself, so it allocates twice");
  EXPECT_GE(bench::Allocations() - before, 2u);
}

TEST_P(NoAllocationTest, BlockingCallsAllocateNothing) {
  ServedWorker served(GetParam().provider);
  std::unique_ptr<Client> client = served.Connect(GetParam().options());
  const RemoteFunction echo = Find(*client, "echo");
  const std::string text(100, 't');
  const std::string large(20000, 'l');  // too long to go inside a send
  CallOptions with_room;
  with_room.response_capacity = 20000;
  absl::StatusOr<Buffer> buffer = client->AllocateBuffer(100);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  CallOptions with_deadline;
  with_deadline.timeout = absl::Seconds(60);
  const auto calls = [&](int times) {
    bool good = true;
    for (int i = 0; i < times; ++i) {
      good &= client->Invoke(echo, text).ok();
      good &= client->Invoke(echo, text, with_deadline).ok();
      good &= client->Invoke(echo, large, with_room).ok();
      good &= client->Invoke(echo, {*buffer, 100}).ok();
    }
    return good;
  };
  ASSERT_TRUE(calls(200));
  bool good = true;
  EXPECT_EQ(FewestAllocations([&] { good &= calls(50); }), 0u);
  EXPECT_TRUE(good);
}

// Many calls under way at once, by futures and by callbacks, on whichever thread drives.
TEST_P(NoAllocationTest, AsynchronousCallsAllocateNothing) {
  constexpr int kUnderWay = 32;
  ServedWorker served(GetParam().provider);
  std::unique_ptr<Client> client = served.Connect(GetParam().options());
  const RemoteFunction echo = Find(*client, "echo");
  const std::string text(100, 't');
  CallOptions options;
  options.response_capacity = 100;
  std::vector<Future> futures;
  futures.reserve(kUnderWay);
  std::atomic<int> called_back{0};
  std::atomic<int> failures{0};
  const auto calls = [&](int times) {
    for (int i = 0; i < times; ++i) {
      for (int k = 0; k < kUnderWay; ++k)
        futures.push_back(client->InvokeAsync(echo, text, options));
      for (Future& future : futures) failures += future.Get().ok() ? 0 : 1;
      futures.clear();
      called_back = 0;
      for (int k = 0; k < kUnderWay; ++k) {
        client->InvokeAsync(echo, {reinterpret_cast<const std::byte*>(text.data()), text.size()},
                            options, [&](absl::StatusOr<Response> response) {
                              failures += response.ok() ? 0 : 1;
                              ++called_back;
                            });
      }
      while (called_back.load() < kUnderWay) std::this_thread::yield();
    }
  };
  calls(50);
  EXPECT_EQ(FewestAllocations([&] { calls(10); }), 0u);
  EXPECT_EQ(failures.load(), 0);
}

// Several threads share the client: those that do not drive sleep, and that allocates nothing
// either.
TEST_P(NoAllocationTest, BlockingCallsOfSeveralThreadsAllocateNothing) {
  ServedWorker served(GetParam().provider);
  std::unique_ptr<Client> client = served.Connect(GetParam().options());
  const RemoteFunction echo = Find(*client, "echo");
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        if (!client->Invoke(echo, "shared").ok()) failures.fetch_add(1);
        calls.fetch_add(1);
      }
    });
  }
  while (calls.load() < 1000) std::this_thread::yield();
  const uint64_t fewest = FewestAllocations([&] {
    const uint64_t until = calls.load() + 300;
    while (calls.load() < until) std::this_thread::yield();
  });
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fewest, 0u);
  EXPECT_EQ(failures.load(), 0u);
}

}  // namespace
}  // namespace invoker
