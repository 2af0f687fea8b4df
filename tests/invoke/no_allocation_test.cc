// A blocking call allocates nothing, on either side, once it has been made a few times.

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "tests/invoke/served_client.h"

namespace {

// Every thread of this program counts while this is on; in the test only the client's and the
// executor's do anything then but sleep.
std::atomic<bool> counting{false};
std::atomic<uint64_t> allocations{0};

void* Allocate(size_t size, size_t alignment = alignof(std::max_align_t)) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1);
  void* memory = alignment > alignof(std::max_align_t)
                     ? aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)
                     : malloc(size == 0 ? 1 : size);
  if (memory == nullptr) abort();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { free(memory); }

namespace invoker {
namespace {

struct Path {
  const char* name;
  const char* provider;
  transport::Notification notification;

  ClientOptions options() const {
    ClientOptions options;
    options.notification = notification;
    return options;
  }
};

class NoAllocationTest : public testing::TestWithParam<Path> {};

INSTANTIATE_TEST_SUITE_P(
    Paths, NoAllocationTest,
    testing::Values(Path{"TcpWriteImm", "tcp;ofi_rxm", transport::Notification::kWriteImm},
                    Path{"TcpSendAfterWrite", "tcp;ofi_rxm",
                         transport::Notification::kSendAfterWrite},
                    Path{"ShmWriteImm", "shm", transport::Notification::kWriteImm},
                    Path{"ShmSendAfterWrite", "shm", transport::Notification::kSendAfterWrite}),
    [](const testing::TestParamInfo<Path>& info) { return info.param.name; });

TEST_P(NoAllocationTest, TheCounterCounts) {
  allocations = 0;
  counting = true;
  delete new std::string("a string that is too long for the object itself, so it allocates twice");
  counting = false;
  EXPECT_GE(allocations.load(), 2u);
}

// The lease's heartbeats, which gRPC allocates for, come once a second: of several bursts that are
// shorter, one is free of them.
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
      good &= client->Invoke(echo, *buffer, 100).ok();
    }
    return good;
  };
  ASSERT_TRUE(calls(200));
  uint64_t fewest = UINT64_MAX;
  for (int burst = 0; burst < 20 && fewest != 0; ++burst) {
    allocations = 0;
    counting = true;
    const bool good = calls(100);
    counting = false;
    ASSERT_TRUE(good);
    fewest = std::min<uint64_t>(fewest, allocations);
  }
  EXPECT_EQ(fewest, 0u);
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
  uint64_t fewest = UINT64_MAX;
  for (int burst = 0; burst < 20 && fewest != 0; ++burst) {
    allocations = 0;
    counting = true;
    calls(20);
    counting = false;
    fewest = std::min<uint64_t>(fewest, allocations);
  }
  EXPECT_EQ(fewest, 0u);
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
  uint64_t fewest = UINT64_MAX;
  for (int burst = 0; burst < 20 && fewest != 0; ++burst) {
    const uint64_t until = calls.load() + 300;
    allocations = 0;
    counting = true;
    while (calls.load() < until) std::this_thread::yield();
    counting = false;
    fewest = std::min<uint64_t>(fewest, allocations);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fewest, 0u);
  EXPECT_EQ(failures.load(), 0u);
}

}  // namespace
}  // namespace invoker
