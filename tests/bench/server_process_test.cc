#include "bench/harness/server_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace invoker::bench {
namespace {

using testing::HasSubstr;

// What takes longer hangs.
constexpr int kPatienceMs = 120'000;

ServerProcess::Options Shell(const std::string& script) {
  ServerProcess::Options options;
  options.command = {"/bin/sh", "-c", script};
  return options;
}

// Says that it is ready, then repeats its input.
ServerProcess::Options Cat() { return Shell("echo ready; exec cat"); }

// Writes `path` when SIGTERM has come, and ends.
ServerProcess::Options EndsCleanly(const std::string& path) {
  ServerProcess::Options options;
  options.command = {"/usr/bin/python3", "-c",
                     "import signal, sys\n"
                     "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
                     "print('ready', flush=True)\n"
                     "signal.sigwait([signal.SIGTERM])\n"
                     "open(sys.argv[1], 'w').close()\n",
                     path};
  return options;
}

// "State:" and the like, of the process.
std::string StatusLine(pid_t pid, const std::string& name) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  std::string line;
  while (std::getline(file, line)) {
    if (absl::StartsWith(line, name)) return line;
  }
  return "";
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

TEST(ServerProcessTest, FirstLineIsReadAndLinesGoBothWays) {
  auto process = ServerProcess::Start(Cat());
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ((*process)->first_line(), "ready");
  ASSERT_TRUE((*process)->WriteLine("one").ok());
  ASSERT_TRUE((*process)->WriteLine("two").ok());
  EXPECT_EQ(*(*process)->ReadLine(), "one");
  EXPECT_EQ(*(*process)->ReadLine(), "two");
}

TEST(ServerProcessTest, EndBeforeTheFirstLineIsAnErrorWithTheStatus) {
  const auto process = ServerProcess::Start(Shell("exit 3"));
  EXPECT_EQ(process.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(process.status().message()), HasSubstr("sh ended with status 3"));
}

TEST(ServerProcessTest, DeathBySignalIsAnErrorWithTheSignal) {
  const auto process = ServerProcess::Start(Shell("kill -9 $$"));
  EXPECT_THAT(std::string(process.status().message()), HasSubstr("killed by signal 9"));
}

TEST(ServerProcessTest, OutputThatIsClosedIsAnErrorAndTheProcessEnds) {
  const auto process = ServerProcess::Start(Shell("exec 1>&-; read line"));
  EXPECT_THAT(std::string(process.status().message()), HasSubstr("closed its standard output"));
}

TEST(ServerProcessTest, AProgramThatIsNotThereIsNamed) {
  ServerProcess::Options options;
  options.command = {"bench/programs/no_such_program"};
  const auto process = ServerProcess::Start(options);
  EXPECT_EQ(process.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(process.status().message()),
              HasSubstr("/bench/programs/no_such_program"));
}

TEST(ServerProcessTest, WritingToOneThatHasEndedIsAnError) {
  auto process = ServerProcess::Start(Shell("echo ready"));
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_FALSE((*process)->ReadLine().ok());
  EXPECT_FALSE((*process)->WriteLine("hello").ok());
}

TEST(ServerProcessTest, EnvironmentIsAddedAndReplaces) {
  setenv("INVOKER_TEST_VARIABLE", "old", 1);
  ServerProcess::Options options = Shell("echo \"$INVOKER_TEST_VARIABLE $INVOKER_TEST_OTHER\"");
  options.environment = {"INVOKER_TEST_VARIABLE=new", "INVOKER_TEST_OTHER=other"};
  const auto process = ServerProcess::Start(options);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ((*process)->first_line(), "new other");
}

TEST(ServerProcessTest, PauseHasStoppedItWhenItReturns) {
  auto process = ServerProcess::Start(Cat());
  ASSERT_TRUE(process.ok()) << process.status();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE((*process)->Pause().ok());
    ASSERT_TRUE((*process)->Pause().ok()) << "a second time";
    EXPECT_THAT(StatusLine((*process)->pid(), "State:"), HasSubstr("T (stopped)"));
    ASSERT_TRUE((*process)->Resume().ok());
    ASSERT_TRUE((*process)->WriteLine("go").ok());
    EXPECT_EQ(*(*process)->ReadLine(), "go");
  }
}

TEST(ServerProcessTest, PausingOneThatHasEndedIsAnError) {
  auto process = ServerProcess::Start(Shell("echo ready; exit 4"));
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_FALSE((*process)->ReadLine().ok());
  EXPECT_THAT(std::string((*process)->Pause().message()), HasSubstr("status 4"));
}

TEST(ServerProcessTest, RunsOnItsCoreOrOnAllWhateverThisThreadDoes) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int core = 0;
  while (!CPU_ISSET(core, &before)) ++core;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  ServerProcess::Options options = Cat();
  options.core = core;
  auto pinned = ServerProcess::Start(options);
  auto free = ServerProcess::Start(Cat());
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  ASSERT_TRUE(pinned.ok() && free.ok());
  cpu_set_t got;
  ASSERT_EQ(sched_getaffinity((*pinned)->pid(), sizeof(got), &got), 0);
  EXPECT_TRUE(CPU_EQUAL(&got, &one));
  ASSERT_EQ(sched_getaffinity((*free)->pid(), sizeof(got), &got), 0);
  EXPECT_GE(CPU_COUNT(&got), CPU_COUNT(&before));
}

TEST(ServerProcessTest, ACoreThatIsNotThereIsAnError) {
  ServerProcess::Options options = Cat();
  options.core = CPU_SETSIZE - 1;
  EXPECT_EQ(ServerProcess::Start(options).status().code(), absl::StatusCode::kUnavailable);
}

TEST(ServerProcessTest, TellsProcessorTimeAndMemory) {
  auto process = ServerProcess::Start(
      Shell("i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; echo ready; read line"));
  ASSERT_TRUE(process.ok()) << process.status();
  const absl::StatusOr<int64_t> time_ns = (*process)->ProcessorTimeNs();
  ASSERT_TRUE(time_ns.ok()) << time_ns.status();
  EXPECT_GT(*time_ns, 1'000'000);
  const absl::StatusOr<int64_t> bytes = (*process)->ResidentBytes();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_GT(*bytes, 100 << 10);
}

TEST(ServerProcessTest, DestructorLetsItEndCleanlyAlsoWhenItIsPaused) {
  for (bool paused : {false, true}) {
    const std::string path = absl::StrCat(testing::TempDir(), "/clean", paused);
    unlink(path.c_str());
    auto process = ServerProcess::Start(EndsCleanly(path));
    ASSERT_TRUE(process.ok()) << process.status();
    const pid_t pid = (*process)->pid();
    if (paused) {
      ASSERT_TRUE((*process)->Pause().ok());
    }
    process->reset();
    EXPECT_EQ(kill(pid, 0), -1);
    EXPECT_TRUE(Exists(path)) << paused;
  }
}

// How the starting process ends, and whether the child is stopped by then.
class ParentEndsTest : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(ParentEndsTest, ChildEndsToo) {
  const auto [number, paused] = GetParam();
  const std::string path = absl::StrCat(testing::TempDir(), "/parent_", number, paused);
  unlink(path.c_str());
  int said[2], hold[2];
  ASSERT_EQ(pipe(said), 0);
  ASSERT_EQ(pipe(hold), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    close(hold[1]);
    auto process = ServerProcess::Start(EndsCleanly(path));
    if (!process.ok() || (paused && !(*process)->Pause().ok())) _exit(1);
    const pid_t pid = (*process)->pid();
    if (write(said[1], &pid, sizeof(pid)) != sizeof(pid)) _exit(1);
    char byte;
    (void)!read(hold[0], &byte, 1);  // until the signal, or until the test has ended
    _exit(2);
  }
  close(said[1]);
  close(hold[0]);
  pid_t child = 0;
  ASSERT_EQ(read(said[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
  const int watch = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  ASSERT_GE(watch, 0);
  ASSERT_EQ(kill(parent, number), 0);
  pollfd ended = {watch, POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, kPatienceMs), 1) << "the child outlives its parent";
  int status = 0;
  ASSERT_EQ(waitpid(parent, &status, 0), parent);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), number);
  // Nothing can be cleaned up behind SIGKILL.
  EXPECT_EQ(Exists(path), number != SIGKILL);
  close(watch);
  close(said[0]);
  close(hold[1]);
}

INSTANTIATE_TEST_SUITE_P(All, ParentEndsTest,
                         testing::Combine(testing::Values(SIGKILL, SIGTERM, SIGINT),
                                          testing::Bool()));

TEST(InvokerServerTest, StartsAndSaysWhereItListens) {
  auto server = StartInvokerServer(-1, "tcp;ofi_rxm", "127.0.0.1", {"--hot-timeout=0"});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT(server->target, testing::MatchesRegex("127\\.0\\.0\\.1:[0-9]+"));
  EXPECT_THAT(server->process->first_line(), HasSubstr("\"noop\""));
  EXPECT_THAT(server->process->first_line(), HasSubstr("\"echo\""));
}

TEST(InvokerServerTest, AFabricThatIsNotThereIsAnErrorThatNamesIt) {
  const auto server = StartInvokerServer(-1, "no_such_fabric", "127.0.0.1", {});
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("no_such_fabric: "));
}

}  // namespace
}  // namespace invoker::bench
