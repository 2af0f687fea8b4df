// A process whose threads ask for the fabric at once, when none has asked before.

#include <unistd.h>

#include <thread>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "gtest/gtest.h"
#include "src/transport/discovery.h"

namespace invoker::transport {
namespace {

// Of this many processes a few at least would meet the fault of a provider.
constexpr int kProcesses = 30;
constexpr int kThreads = 4;

[[noreturn]] void AskFromThreads() {
  auto* const barrier = new absl::Barrier(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([barrier] {
      if (barrier->Block()) delete barrier;
      FabricRequest request;
      request.provider = "efa";
      if (!Discover(request).ok()) _exit(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  _exit(0);
}

TEST(FirstQuery, MayComeFromSeveralThreadsAtOnce) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  for (int i = 0; i < kProcesses; ++i) {
    ASSERT_EXIT(AskFromThreads(), testing::ExitedWithCode(0), "") << i;
  }
}

}  // namespace
}  // namespace invoker::transport
