// How processes come and go: the pool, who they run as, what they load, and that nothing is left of
// them, in any order of their ends.

#include <gmock/gmock.h>
#include <pwd.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/isolation/limits/control_group.h"
#include "src/isolation/spawner/executor_spawner.h"
#include "tests/isolation/isolated_server.h"

namespace invoker {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::unique_ptr<ExecutorSpawner> StartSpawner(const SpawnerOptions& options) {
  auto spawner = ExecutorSpawner::Start(options);
  EXPECT_TRUE(spawner.ok()) << spawner.status();
  return spawner.ok() ? *std::move(spawner) : nullptr;
}

// The directory of a server's groups of the kernel's; empty: it has none.
std::string GroupOf(pid_t server) {
  auto own = ControlGroups::Start(std::make_unique<GroupFiles>(), getpid());
  if (!own.ok()) return "";
  const std::filesystem::path place = (*own)->directory();
  const std::string group = place.parent_path() / absl::StrCat("invoker-", server);
  EXPECT_TRUE(std::filesystem::exists(group)) << group;
  return group;
}

// Nothing tells of a process that is reaped or a descriptor that is closed by the spawner's thread:
// looks again until it is so, for 20 seconds at most.
bool Eventually(const std::function<bool()>& condition) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

TEST(Lifetime, AHundredExecutorsLeaveNothing) {
  const SpawnerOptions options = TestSpawnerOptions({kShm});
  const std::set<pid_t> processes_before = Descendants();
  std::vector<std::string> left;
  {
    std::unique_ptr<ExecutorSpawner> spawner = StartSpawner(options);
    ASSERT_NE(spawner, nullptr);
    { WatchedExecutor first(spawner.get()); }
    // The template; not the one that has proven that executors come up, which was killed.
    const size_t processes = processes_before.size() + 1;
    ASSERT_TRUE(Eventually([processes] { return Descendants().size() == processes; }));
    const size_t descriptors_before = OpenDescriptors();
    for (int i = 0; i < 100; ++i) {
      WatchedExecutor executor(spawner.get());
      ASSERT_TRUE(executor.ok());
      // Killed by the server, by somebody else, or told to stop.
      if (i % 3 == 1) kill(executor.process().pid(), SIGKILL);
      if (i % 3 == 2) executor.process().Stop(absl::Seconds(30));
      if (i % 3 != 0) executor.WaitForEnd();
      for (const std::string& name : SharedMemoryFiles()) {
        if (absl::StartsWith(name, absl::StrCat(executor.process().pid(), ":")) && i % 3 != 0) {
          left.push_back(name);
        }
      }
    }
    // Before, some of the first ones' may not have been closed.
    EXPECT_TRUE(Eventually([descriptors_before] {
      return OpenDescriptors() <= descriptors_before;
    })) << OpenDescriptors()
        << ", before: " << descriptors_before;
    EXPECT_EQ(Descendants().size(), processes);
  }
  EXPECT_EQ(Descendants(), processes_before);
  EXPECT_THAT(left, testing::IsEmpty());
}

TEST(Lifetime, AnExecutorThatIsStoppedIsKilledUnlessItGoesOn) {
  std::unique_ptr<ExecutorSpawner> spawner = StartSpawner(TestSpawnerOptions());
  ASSERT_NE(spawner, nullptr);
  WatchedExecutor goes_on(spawner.get());
  WatchedExecutor stays(spawner.get());
  ASSERT_TRUE(goes_on.ok() && stays.ok());
  ASSERT_EQ(kill(goes_on.process().pid(), SIGSTOP), 0);
  ASSERT_EQ(kill(stays.process().pid(), SIGSTOP), 0);
  ASSERT_EQ(kill(goes_on.process().pid(), SIGCONT), 0);
  const ExecutorEnd end = stays.WaitForEnd();
  EXPECT_EQ(end.cause, LeaseEndCause::kCrashed);
  EXPECT_THAT(end.reason, HasSubstr("was stopped by a signal"));
  EXPECT_FALSE(goes_on.ended());
  goes_on.process().Stop(absl::Seconds(20));
  EXPECT_EQ(goes_on.WaitForEnd().cause, LeaseEndCause::kReleased);
}

// A batch system sends them to each process of a job. The server decides how its executors end.
TEST(Lifetime, SignalsThatAskAProgramToEndDoNotEndExecutors) {
  const SpawnerOptions options = TestSpawnerOptions();
  std::unique_ptr<ExecutorSpawner> spawner = StartSpawner(options);
  ASSERT_NE(spawner, nullptr);
  ExpectToOutliveEndSignals(spawner.get(), options);
}

TEST(Lifetime, WhenTheServerIsKilledNothingIsLeft) {
  FILE* out = popen("exec tests/isolation/doomed_server", "r");
  ASSERT_NE(out, nullptr);
  char line[4096] = {};
  ASSERT_NE(fgets(line, sizeof(line), out), nullptr);
  std::vector<pid_t> pids;
  std::istringstream words(line);
  for (pid_t pid; words >> pid;) pids.push_back(pid);
  // The template, the one that is leased, two that wait, and the daemon.
  EXPECT_GE(pids.size(), 5u);
  pid_t server = 0;
  for (const pid_t pid : Descendants()) {
    std::string name;
    std::getline(std::ifstream(absl::StrCat("/proc/", pid, "/comm")), name);
    if (name == "doomed_server") server = pid;
  }
  ASSERT_NE(server, 0);
  const std::string group = GroupOf(server);
  ASSERT_EQ(kill(server, SIGKILL), 0);
  for (const pid_t pid : pids) EXPECT_TRUE(WaitUntilGone(pid)) << pid;
  pclose(out);
  EXPECT_FALSE(!group.empty() && std::filesystem::exists(group)) << group;
  for (const std::string& name : SharedMemoryFiles()) {
    for (const pid_t pid : pids)
      EXPECT_EQ(name.rfind(absl::StrCat(pid, ":"), 0), std::string::npos);
  }
}

TEST(Lifetime, ThePoolIsTakenFromAndFilled) {
  SpawnerOptions options = TestSpawnerOptions();
  options.prestart = 2;
  std::unique_ptr<ExecutorSpawner> spawner = StartSpawner(options);
  ASSERT_NE(spawner, nullptr);
  std::vector<std::unique_ptr<WatchedExecutor>> taken;
  std::set<pid_t> pids;
  for (int i = 0; i < 5; ++i) {
    taken.push_back(std::make_unique<WatchedExecutor>(spawner.get()));
    ASSERT_TRUE(taken.back()->ok());
    pids.insert(taken.back()->process().pid());
  }
  EXPECT_EQ(pids.size(), 5u);
  IsolatedServer server(&taken.back()->process(), options);
  EXPECT_EQ(*server.Call("bad.echo", "x"), "x");
}

TEST(Lifetime, AWaitingExecutorThatDiesIsNotHandedOut) {
  SpawnerOptions options = TestSpawnerOptions();
  options.prestart = 1;
  std::unique_ptr<ExecutorSpawner> spawner = StartSpawner(options);
  ASSERT_NE(spawner, nullptr);
  pid_t waiting = 0;
  for (const pid_t pid : Descendants()) waiting = std::max(waiting, pid);
  ASSERT_EQ(kill(waiting, SIGKILL), 0);
  ASSERT_TRUE(WaitUntilGone(waiting));
  auto process = spawner->Spawn(ExecutorKind::kNative, {}, {});
  // It is known to be dead, or is found to be.
  if (!process.ok()) process = spawner->Spawn(ExecutorKind::kNative, {}, {});
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_NE((*process)->pid(), waiting);
}

TEST(Lifetime, FunctionsAreLoadedIntoOneExecutorOnly) {
  const SpawnerOptions options = TestSpawnerOptions();
  std::unique_ptr<ExecutorSpawner> spawner = StartSpawner(options);
  ASSERT_NE(spawner, nullptr);
  WatchedExecutor executor(spawner.get());
  WatchedExecutor other(spawner.get());
  ASSERT_TRUE(executor.ok() && other.ok());
  const size_t before = executor.process().Functions()->size();
  auto all =
      executor.process().Load("tests/functions/test_functions.so", CodeKind::kLibrary, "test");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_GT(all->size(), before);
  EXPECT_EQ(other.process().Functions()->size(), before);
  IsolatedServer server(&executor.process(), options);
  EXPECT_EQ(*server.Call("test.echo", "loaded"), "loaded");
  const absl::Status again =
      executor.process()
          .Load("tests/functions/test_functions.so", CodeKind::kLibrary, "test")
          .status();
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists) << again;
  EXPECT_EQ(executor.process()
                .Load("tests/isolation/no_such_file", CodeKind::kLibrary, "x")
                .status()
                .code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(*server.Call("bad.echo", "still there"), "still there");
}

TEST(Lifetime, RootRunsExecutorsAsNobody) {
  if (geteuid() != 0) GTEST_SKIP() << "not root";
  SpawnerOptions options = TestSpawnerOptions({kShm, kTcp});
  options.user.clear();
  std::unique_ptr<ExecutorSpawner> spawner = StartSpawner(options);
  ASSERT_NE(spawner, nullptr);
  EXPECT_THAT(spawner->Notes(), Contains(HasSubstr("do not serve shm")));
  WatchedExecutor executor(spawner.get());
  ASSERT_TRUE(executor.ok());
  options.worker.providers = {kTcp};
  IsolatedServer server(&executor.process(), options);
  EXPECT_EQ(*server.Call("bad.user"), absl::StrCat(getpwnam("nobody")->pw_uid));
  EXPECT_EQ(*server.Call("hostile.kill_parent"), "Operation not permitted");
  // By a descriptor: the path may lead through what nobody may not see.
  auto all =
      executor.process().Load("tests/functions/test_functions.so", CodeKind::kLibrary, "test");
  EXPECT_TRUE(all.ok()) << all.status();
}

TEST(Lifetime, RootCanGiveEachExecutorAUserOfItsOwn) {
  if (geteuid() != 0) GTEST_SKIP() << "not root";
  constexpr uint64_t kUsers = 8;
  SpawnerOptions options = TestSpawnerOptions();
  // No other test's, which may run at the same time.
  const uint64_t first = 1'000'000 + kUsers * static_cast<uint64_t>(getpid());
  options.user = absl::StrCat(first, "-", first + kUsers - 1);
  std::unique_ptr<ExecutorSpawner> spawner = StartSpawner(options);
  ASSERT_NE(spawner, nullptr);
  EXPECT_THAT(spawner->Notes(), Contains(HasSubstr("each as another one")));
  WatchedExecutor other(spawner.get());
  WatchedExecutor executor(spawner.get());
  ASSERT_TRUE(other.ok() && executor.ok());
  IsolatedServer other_server(&other.process(), options);
  IsolatedServer server(&executor.process(), options);
  const uint64_t user = std::stoull(*server.Call("bad.user"));
  EXPECT_NE(user, std::stoull(*other_server.Call("bad.user")));
  EXPECT_GE(user, first);
  EXPECT_LT(user, first + kUsers);
  // The kernel says so even if it has found nobody to whom it may send the signal.
  EXPECT_EQ(*server.Call("hostile.kill_user"), "killed");
  EXPECT_EQ(*server.Call("hostile.kill_parent"), "Operation not permitted");
  EXPECT_EQ(*other_server.Call("bad.echo", "still here"), "still here");
  EXPECT_FALSE(other.ended());
  // No user is two executors'.
  std::vector<std::unique_ptr<ExecutorProcess>> more;
  absl::Status status;
  while (status.ok() && more.size() < kUsers) {
    auto process = spawner->Spawn(ExecutorKind::kNative, {}, {});
    status = process.status();
    if (process.ok()) more.push_back(*std::move(process));
  }
  EXPECT_LE(more.size(), kUsers - 2);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--executor-user"));
}

TEST(Lifetime, ErrorsSayWhatIsMissing) {
  SpawnerOptions options = TestSpawnerOptions();
  options.executor_path = "/nonexistent/invoker_executor";
  EXPECT_THAT(std::string(ExecutorSpawner::Start(options).status().message()),
              HasSubstr("/nonexistent/invoker_executor"));
  options = TestSpawnerOptions();
  options.user = "no_such_user_here";
  EXPECT_THAT(std::string(ExecutorSpawner::Start(options).status().message()),
              HasSubstr("no_such_user_here"));
  for (const char* range : {"0-5", "7-7", "8-7", "1-4294967295"}) {
    options.user = range;
    EXPECT_EQ(ExecutorSpawner::Start(options).status().code(), absl::StatusCode::kInvalidArgument)
        << range;
  }
  options = TestSpawnerOptions();
  options.libraries = {"/nonexistent.so"};
  EXPECT_THAT(std::string(ExecutorSpawner::Start(options).status().message()),
              HasSubstr("/nonexistent.so"));
  options = TestSpawnerOptions({"nonesuch"});
  EXPECT_FALSE(ExecutorSpawner::Start(options).ok());
}

}  // namespace
}  // namespace invoker
