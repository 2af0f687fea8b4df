// What functions do against limits and against what outlives them; and what becomes of executors
// when what they are forked from is killed.

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "src/isolation/spawner/executor_spawner.h"
#include "src/transport/base/shared_files.h"
#include "tests/invoke/with_output.h"
#include "tests/isolation/isolated_server.h"
#include "tests/log/captured_log.h"

namespace invoker {
namespace {
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class HostileExecutorTest : public testing::Test {
 protected:
  void Start(SpawnerOptions options) {
    options_ = std::move(options);
    auto spawner = ExecutorSpawner::Start(options_);
    ASSERT_TRUE(spawner.ok()) << spawner.status();
    spawner_ = *std::move(spawner);
  }

  SpawnerOptions options_;
  std::unique_ptr<ExecutorSpawner> spawner_;
};

TEST_F(HostileExecutorTest, TheCallLimitHoldsWhateverIsSaidOfSessions) {
  ASSERT_NO_FATAL_FAILURE(Start(TestSpawnerOptions()));
  ExecutorTerms terms;
  terms.call_limit = absl::Milliseconds(200);
  WatchedExecutor executor(spawner_.get(), terms);
  ASSERT_TRUE(executor.ok());
  IsolatedServer server(&executor.process(), options_);
  auto client = server.Connect();
  ASSERT_TRUE(client.ok()) << client.status();
  Future call = (*client)->InvokeAsync(*(*client)->Function("bad.say_closed"), "");
  const ExecutorEnd end = executor.WaitForEnd();
  EXPECT_EQ(end.cause, LeaseEndCause::kCallLimit) << end.reason;
  EXPECT_THAT(end.reason, HasSubstr("bad.say_closed"));
  (*client)->Close();
}

TEST_F(HostileExecutorTest, AnEndIsToldWhileStraysForkOn) {
  ASSERT_NO_FATAL_FAILURE(Start(TestSpawnerOptions()));
  const std::string file = absl::StrCat(testing::TempDir(), "/forking.", getpid());
  std::ofstream(file) << "on";
  {
    WatchedExecutor executor(spawner_.get());
    ASSERT_TRUE(executor.ok());
    IsolatedServer server(&executor.process(), options_);
    EXPECT_EQ(*server.Call("bad.fork_on", file), "forking");
    executor.process().Stop(absl::Seconds(30));
    EXPECT_EQ(executor.WaitForEnd().cause, LeaseEndCause::kReleased);
    // And others come up meanwhile.
    WatchedExecutor other(spawner_.get());
    EXPECT_TRUE(other.ok());
  }
  unlink(file.c_str());
  spawner_.reset();
  EXPECT_TRUE(Descendants().empty());
}

// Whatever a function sends, others are started and call meanwhile.
TEST_F(HostileExecutorTest, WhoSendsNothingForEverKeepsNobody) {
  ASSERT_NO_FATAL_FAILURE(Start(TestSpawnerOptions()));
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok());
  IsolatedServer server(&executor.process(), options_);
  auto client = server.Connect();
  ASSERT_TRUE(client.ok()) << client.status();
  Future call = (*client)->InvokeAsync(*(*client)->Function("hostile.send_nothing"), "");
  WatchedExecutor other(spawner_.get());
  ASSERT_TRUE(other.ok());
  IsolatedServer other_server(&other.process(), options_);
  EXPECT_EQ(*other_server.Call("bad.echo", "meanwhile"), "meanwhile");
  const ExecutorEnd end = executor.WaitForEnd();
  EXPECT_EQ(end.cause, LeaseEndCause::kCrashed) << end.reason;
  EXPECT_THAT(end.reason, HasSubstr("what is no message"));
  EXPECT_FALSE(other.ended());
  (*client)->Close();
}

TEST_F(HostileExecutorTest, AnEndIsToldWhileStraysTalkOn) {
  ASSERT_NO_FATAL_FAILURE(Start(TestSpawnerOptions()));
  const std::string file = absl::StrCat(testing::TempDir(), "/talking.", getpid());
  std::ofstream(file) << "on";
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok());
  IsolatedServer server(&executor.process(), options_);
  EXPECT_EQ(*server.Call("hostile.talk_on", file), "talking");
  WatchedExecutor other(spawner_.get());
  ASSERT_TRUE(other.ok());
  IsolatedServer other_server(&other.process(), options_);
  EXPECT_EQ(*other_server.Call("bad.echo", "meanwhile"), "meanwhile");
  executor.process().Stop(absl::Seconds(30));
  EXPECT_EQ(executor.WaitForEnd().cause, LeaseEndCause::kReleased);
  EXPECT_EQ(*other_server.Call("bad.echo", "afterwards"), "afterwards");
  unlink(file.c_str());
}

TEST_F(HostileExecutorTest, ASpawnerEndsWhileItsTemplateIsStopped) {
  SpawnerOptions options = TestSpawnerOptions();
  options.end_limit = absl::Milliseconds(200);
  ASSERT_NO_FATAL_FAILURE(Start(options));
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok());
  IsolatedServer server(&executor.process(), options_);
  EXPECT_EQ(*server.Call("hostile.stop_parent"), "stopped");
  const pid_t pid = executor.process().pid();
  spawner_.reset();
  EXPECT_EQ(executor.WaitForEnd().cause, LeaseEndCause::kServer);
  EXPECT_TRUE(WaitUntilGone(pid));
  EXPECT_TRUE(Descendants().empty());
}

// With the groups of the kernel's or without; without, template_process_test.cc has more.
TEST_F(HostileExecutorTest, ASpawnerEndsWhileStraysForkOn) {
  ASSERT_NO_FATAL_FAILURE(Start(TestSpawnerOptions()));
  // Those that outlive it come here.
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
  const std::string file = absl::StrCat(testing::TempDir(), "/forking_on.", getpid());
  std::ofstream(file) << "on";
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok());
  {
    IsolatedServer server(&executor.process(), options_);
    EXPECT_EQ(*server.Call("bad.fork_on", file), "forking");
  }
  spawner_.reset();
  EXPECT_TRUE(executor.ended());
  unlink(file.c_str());
  while (waitpid(-1, nullptr, 0) > 0) {
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
  EXPECT_TRUE(Descendants().empty());
}

TEST_F(HostileExecutorTest, AChildThatReturnsFromABulkCallIsGone) {
  ASSERT_NO_FATAL_FAILURE(Start(TestSpawnerOptions()));
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok());
  IsolatedServer server(&executor.process(), options_);
  auto client = server.Connect();
  ASSERT_TRUE(client.ok()) << client.status();
  // More than a window holds, so that it is fetched.
  const std::vector<std::byte> input((*client)->max_payload() + 1);
  std::vector<std::byte> output(64);
  for (int i = 0; i < 5; ++i) {
    const absl::StatusOr<Response> response =
        (*client)->Invoke(*(*client)->Function("bad.fork"), {input.data(), input.size()},
                          WithOutput(absl::MakeSpan(output)));
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->text(), "the parent");
    EXPECT_EQ(*CallOn(client->get(), "bad.echo", absl::StrCat(i)), absl::StrCat(i));
  }
  EXPECT_FALSE(executor.ended());
  EXPECT_EQ(*server.Call("bad.echo", "new session"), "new session");
}

TEST_F(HostileExecutorTest, TheEnvironmentIsNotTheServers) {
  setenv("SECRET_OF_THE_SERVER", "secret", 1);
  setenv("INVOKER_OF_THE_TEST", "given", 1);
  ASSERT_NO_FATAL_FAILURE(Start(TestSpawnerOptions()));
  unsetenv("SECRET_OF_THE_SERVER");
  unsetenv("INVOKER_OF_THE_TEST");
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok());
  IsolatedServer server(&executor.process(), options_);
  auto client = server.Connect();
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(*CallOn(client->get(), "bad.variable", "SECRET_OF_THE_SERVER"), "(none)");
  EXPECT_EQ(*CallOn(client->get(), "bad.variable", "INVOKER_OF_THE_TEST"), "given");
  EXPECT_EQ(*CallOn(client->get(), "bad.directory"), "/");
}

TEST_F(HostileExecutorTest, WhatHasTheExecutorsNameIsRemovedFromSharedMemory) {
  ASSERT_NO_FATAL_FAILURE(Start(TestSpawnerOptions()));
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok());
  IsolatedServer server(&executor.process(), options_);
  const std::string own = transport::SharedFilePrefix(executor.process().pid()) + "left";
  // Somebody else's, as far as anybody can tell.
  const std::string other = transport::SharedFilePrefix(getpid()) + "left";
  for (const std::string& name : {own, other}) {
    EXPECT_EQ(*server.Call("bad.leave_shared", name), "left");
    EXPECT_THAT(SharedMemoryFiles(), Contains(name));
  }
  executor.process().Stop(absl::Seconds(30));
  executor.WaitForEnd();
  EXPECT_THAT(SharedMemoryFiles(), Not(Contains(own)));
  EXPECT_THAT(SharedMemoryFiles(), Contains(other));
  unlink(absl::StrCat("/dev/shm/", other).c_str());
}

TEST_F(HostileExecutorTest, AKilledTemplateIsStartedAgain) {
  CapturedLog log;
  SpawnerOptions options = TestSpawnerOptions({kTcp, kShm});
  options.prestart = 1;
  ASSERT_NO_FATAL_FAILURE(Start(options));
  for (int round = 0; round < 3; ++round) {
    WatchedExecutor executor(spawner_.get());
    ASSERT_TRUE(executor.ok());
    const pid_t pid = executor.process().pid();
    const std::string files = transport::SharedFilePrefix(pid);
    const pid_t template_pid = ParentOf(pid);
    ASSERT_EQ(ParentOf(template_pid), getpid());
    ASSERT_EQ(kill(template_pid, SIGKILL), 0);
    const ExecutorEnd end = executor.WaitForEnd();
    EXPECT_EQ(end.cause, LeaseEndCause::kServer) << end.reason;
    EXPECT_TRUE(WaitUntilGone(pid));
    // This waits for the next template.
    WatchedExecutor next(spawner_.get());
    ASSERT_TRUE(next.ok());
    EXPECT_NE(ParentOf(next.process().pid()), template_pid);
    IsolatedServer server(&next.process(), options_);
    EXPECT_EQ(*server.Call("bad.echo", absl::StrCat(round)), absl::StrCat(round));
    for (const std::string& name : SharedMemoryFiles()) {
      EXPECT_NE(name.rfind(files, 0), 0u) << name;
    }
  }
  EXPECT_THAT(log.messages(), Contains(HasSubstr("started again in")));
  EXPECT_THAT(log.messages(), Contains(HasSubstr("can be started again")));
  spawner_.reset();
  EXPECT_TRUE(Descendants().empty());
}

TEST_F(HostileExecutorTest, ASpawnerEndsWhileItsTemplateIsGone) {
  ASSERT_NO_FATAL_FAILURE(Start(TestSpawnerOptions()));
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok());
  ASSERT_EQ(kill(ParentOf(executor.process().pid()), SIGKILL), 0);
  executor.WaitForEnd();
  spawner_.reset();
  EXPECT_TRUE(Descendants().empty());
}

}  // namespace
}  // namespace invoker
