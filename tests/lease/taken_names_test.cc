// Executors whose number a client had that was killed, and whose names in /dev/shm are taken.

#include <gtest/gtest.h>

#include <set>

#include "tests/lease/in_process_server.h"
#include "tests/lease/leased_server.h"

namespace invoker {
namespace {

TEST(TakenNamesTest, AnExecutorComesUpAllTheSame) {
  auto server = InProcessServer::Start({"shm"}, 2, "tests/lease/stale_files.so");
  ASSERT_TRUE(server.ok()) << server.status();
  ChildProcess::Options options;
  options.command = {"tests/lease/lease_holder", (*server)->address(), "many", "shm", "2"};
  auto holder = StartHolder(options);
  ASSERT_TRUE(holder.ok()) << holder.status();
  const std::set<pid_t> processes = DescendantsOf(getpid());
  EXPECT_EQ((*server)->lost(), 0);
  KillHolder(holder->get());
  EXPECT_TRUE(Eventually([&] { return (*server)->Info().capacity.free_cores == 2; }));
  // What was left for them goes with them.
  for (const pid_t pid : processes) EXPECT_TRUE(SharedMemoryOf(pid).empty()) << pid;
}

}  // namespace
}  // namespace invoker
