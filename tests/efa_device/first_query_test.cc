// A process whose threads ask for the fabric at once, when none has asked before.

#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "src/transport/discovery/discovery.h"

namespace invoker::transport {
namespace {

// A provider with the fault ends some of so many processes.
constexpr int kProcesses = 30;
constexpr int kThreads = 4;

// Whether every thread found the fabric.
bool AskFromThreads() {
  absl::Notification begin;
  std::atomic<int> found{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      begin.WaitForNotification();
      FabricRequest request;
      request.provider = "efa";
      if (Discover(request).ok()) ++found;
    });
  }
  begin.Notify();
  for (std::thread& thread : threads) thread.join();
  return found == kThreads;
}

TEST(FirstQuery, MayComeFromSeveralThreadsAtOnce) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  for (int i = 0; i < kProcesses; ++i) {
    ASSERT_EXIT(_exit(AskFromThreads() ? 0 : 1), testing::ExitedWithCode(0), "") << i;
  }
}

}  // namespace
}  // namespace invoker::transport
