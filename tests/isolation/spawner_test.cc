// Executors in processes of their own: that they serve calls, and what becomes of them, of their
// clients and of everybody else when a function does what it should not.

#include <gmock/gmock.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "src/isolation/spawner/executor_spawner.h"
#include "tests/isolation/isolated_server.h"

namespace invoker {
namespace {
using testing::HasSubstr;

class SpawnerTest : public testing::TestWithParam<const char*> {
 protected:
  SpawnerTest() : options_(TestSpawnerOptions({GetParam()})) {
    auto spawner = ExecutorSpawner::Start(options_);
    EXPECT_TRUE(spawner.ok()) << spawner.status();
    if (spawner.ok()) spawner_ = *std::move(spawner);
  }

  // What becomes of an executor whose function does that.
  ExecutorEnd EndOf(const std::string& function, const ExecutorTerms& terms = {}) {
    WatchedExecutor executor(spawner_.get(), terms);
    if (!executor.ok()) return {};
    IsolatedServer server(&executor.process(), options_);
    absl::StatusOr<std::unique_ptr<Client>> client = server.Connect();
    EXPECT_TRUE(client.ok()) << client.status();
    if (!client.ok()) return {};
    auto found = (*client)->Function(function);
    EXPECT_TRUE(found.ok()) << found.status();
    Future call = (*client)->InvokeAsync(*found, "");
    const ExecutorEnd end = executor.WaitForEnd();
    EXPECT_TRUE(WaitUntilGone(executor.process().pid()));
    (*client)->Close();
    EXPECT_FALSE(call.Get().ok());
    return end;
  }

  SpawnerOptions options_;
  std::unique_ptr<ExecutorSpawner> spawner_;
};

INSTANTIATE_TEST_SUITE_P(Fabrics, SpawnerTest, testing::Values(kTcp, kShm),
                         [](const auto& info) { return info.param[0] == 's' ? "Shm" : "Tcp"; });

TEST_P(SpawnerTest, CallsRunInTheProcess) {
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok());
  IsolatedServer server(&executor.process(), options_);
  auto client = server.Connect();
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(*CallOn(client->get(), "bad.echo", "hello"), "hello");
  EXPECT_EQ(*CallOn(client->get(), "bad.pid"), absl::StrCat(executor.process().pid()));
  EXPECT_NE(executor.process().pid(), getpid());
  EXPECT_GT(executor.process().CpuTime() + absl::Milliseconds(50), absl::ZeroDuration());
}

TEST_P(SpawnerTest, UsageIsCounted) {
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok());
  IsolatedServer server(&executor.process(), options_);
  ASSERT_TRUE(server.Call("bad.echo", "12345").ok());
  executor.process().Stop(absl::Seconds(30));
  EXPECT_EQ(executor.WaitForEnd().cause, LeaseEndCause::kReleased);
  const ExecutorUsage usage = executor.process().Usage();
  EXPECT_EQ(usage.calls, 1u);
  EXPECT_EQ(usage.bytes_in, 5u);
  EXPECT_EQ(usage.bytes_out, 5u);
}

TEST_P(SpawnerTest, ANullPointerEndsTheExecutorAndNoOther) {
  WatchedExecutor other(spawner_.get());
  ASSERT_TRUE(other.ok());
  IsolatedServer other_server(&other.process(), options_);
  auto client = other_server.Connect();
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE(CallOn(client->get(), "bad.echo", "before").ok());
  const ExecutorEnd end = EndOf("bad.null");
  EXPECT_EQ(end.cause, LeaseEndCause::kCrashed);
  EXPECT_THAT(end.reason,
              HasSubstr("signal 11 (SIGSEGV) in function \"bad.null\", at address 0x0"));
  EXPECT_EQ(*CallOn(client->get(), "bad.echo", "after"), "after");
  EXPECT_FALSE(other.ended());
}

TEST_P(SpawnerTest, Abort) {
  const ExecutorEnd end = EndOf("bad.abort");
  EXPECT_EQ(end.cause, LeaseEndCause::kCrashed);
  EXPECT_THAT(end.reason, HasSubstr("SIGABRT) in function \"bad.abort\""));
}

TEST_P(SpawnerTest, StackOverflow) {
  const ExecutorEnd end = EndOf("bad.stack");
  EXPECT_EQ(end.cause, LeaseEndCause::kCrashed);
  EXPECT_THAT(end.reason, HasSubstr("SIGSEGV) in function \"bad.stack\""));
}

TEST_P(SpawnerTest, Exit) {
  const ExecutorEnd end = EndOf("bad.exit");
  EXPECT_EQ(end.cause, LeaseEndCause::kExited);
  EXPECT_EQ(end.reason, "function \"bad.exit\" called exit(3)");
}

TEST_P(SpawnerTest, ExitAtOnce) {
  const ExecutorEnd end = EndOf("bad.exit_at_once");
  EXPECT_EQ(end.cause, LeaseEndCause::kExited);
  EXPECT_EQ(end.reason, "function \"bad.exit_at_once\" ended its executor's process with status 4");
}

TEST_P(SpawnerTest, MemoryLimit) {
  if (UnderSanitizer()) GTEST_SKIP() << "limits of memory";
  ExecutorTerms terms;
  terms.memory_bytes = 64 << 20;
  for (const char* function : {"bad.leak", "bad.leak_in_c"}) {
    const ExecutorEnd end = EndOf(function, terms);
    EXPECT_EQ(end.cause, LeaseEndCause::kMemoryLimit) << end.reason;
    EXPECT_THAT(end.reason, HasSubstr(absl::StrCat("memory limit of 67108864 bytes in function \"",
                                                   function, "\"")));
  }
}

TEST_P(SpawnerTest, ACrashUnderAMemoryLimitIsStillACrash) {
  if (UnderSanitizer()) GTEST_SKIP() << "limits of memory";
  ExecutorTerms terms;
  terms.memory_bytes = 64 << 20;
  EXPECT_EQ(EndOf("bad.null", terms).cause, LeaseEndCause::kCrashed);
}

TEST_P(SpawnerTest, CallLimit) {
  ExecutorTerms terms;
  terms.call_limit = absl::Milliseconds(200);
  for (const char* function : {"bad.forever", "bad.block"}) {
    const ExecutorEnd end = EndOf(function, terms);
    EXPECT_EQ(end.cause, LeaseEndCause::kCallLimit) << end.reason;
    EXPECT_EQ(end.reason, absl::StrCat("function \"", function, "\" ran for longer than 200ms"));
  }
}

TEST_P(SpawnerTest, CorruptedMemory) {
  if (UnderSanitizer()) GTEST_SKIP() << "the sanitizer ends who does that";
  const ExecutorEnd end = EndOf("bad.corrupt");
  EXPECT_EQ(end.cause, LeaseEndCause::kCrashed);
  EXPECT_THAT(end.reason, HasSubstr("bad.corrupt"));
}

TEST_P(SpawnerTest, WithoutItsDescriptorsTheCallLimitStillHolds) {
  ExecutorTerms terms;
  terms.call_limit = absl::Milliseconds(200);
  const ExecutorEnd end = EndOf("bad.close_all", terms);
  EXPECT_EQ(end.cause, LeaseEndCause::kCallLimit) << end.reason;
}

TEST_P(SpawnerTest, AChildThatReturnsIsGoneAndTheParentAnswersOnce) {
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok());
  IsolatedServer server(&executor.process(), options_);
  auto client = server.Connect();
  ASSERT_TRUE(client.ok()) << client.status();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(*CallOn(client->get(), "bad.fork"), "the parent");
    EXPECT_EQ(*CallOn(client->get(), "bad.echo", absl::StrCat(i)), absl::StrCat(i));
  }
  EXPECT_EQ(*CallOn(client->get(), "bad.fork_exit"), "7");
  EXPECT_EQ(*CallOn(client->get(), "bad.popen"), "from another program\n");
  // What a child's exit could have taken with it, a new session needs.
  EXPECT_EQ(*server.Call("bad.echo", "new session"), "new session");
  EXPECT_FALSE(executor.ended());
}

TEST_P(SpawnerTest, WhatAFunctionLeavesBehindEndsWithItsExecutor) {
  WatchedExecutor other(spawner_.get());
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok() && other.ok());
  IsolatedServer other_server(&other.process(), options_);
  IsolatedServer server(&executor.process(), options_);
  const pid_t daemon = std::stoi(*server.Call("bad.daemon"));
  const pid_t others = std::stoi(*other_server.Call("bad.daemon"));
  EXPECT_EQ(kill(daemon, 0), 0);
  executor.process().Stop(absl::Seconds(30));
  EXPECT_EQ(executor.WaitForEnd().cause, LeaseEndCause::kReleased);
  EXPECT_NE(kill(daemon, 0), 0);
  EXPECT_EQ(kill(others, 0), 0);
  other.process().Stop(absl::Seconds(30));
  other.WaitForEnd();
  EXPECT_NE(kill(others, 0), 0);
}

TEST_P(SpawnerTest, OneThatDoesNotStopIsKilled) {
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok());
  IsolatedServer server(&executor.process(), options_);
  auto client = server.Connect();
  ASSERT_TRUE(client.ok()) << client.status();
  Future call = (*client)->InvokeAsync(*(*client)->Function("bad.forever"), "");
  // The call is under way: an executor that has used this much processor time since has begun it.
  const absl::Duration before = executor.process().CpuTime();
  while (executor.process().CpuTime() < before + absl::Milliseconds(300)) {
    ASSERT_FALSE(executor.ended());
  }
  executor.process().Stop(absl::Milliseconds(100));
  const ExecutorEnd end = executor.WaitForEnd();
  EXPECT_EQ(end.cause, LeaseEndCause::kServer);
  EXPECT_THAT(end.reason, HasSubstr("did not stop in time"));
  EXPECT_EQ(executor.process().Functions().status().code(), absl::StatusCode::kUnavailable);
}

TEST_P(SpawnerTest, OneWithoutAFunctionThatRunsMayBeLateToStop) {
  // Not for so long that it is killed for having been stopped; this process may be late, too.
  constexpr absl::Duration kLate = absl::Milliseconds(100);
  for (absl::Duration stopped = absl::InfiniteDuration(); stopped > 4 * kLate;) {
    WatchedExecutor executor(spawner_.get());
    ASSERT_TRUE(executor.ok());
    const absl::Time begin = absl::Now();
    ASSERT_EQ(kill(executor.process().pid(), SIGSTOP), 0);
    executor.process().Stop(absl::Milliseconds(1));
    absl::SleepFor(kLate);
    ASSERT_EQ(kill(executor.process().pid(), SIGCONT), 0);
    stopped = absl::Now() - begin;
    const ExecutorEnd end = executor.WaitForEnd();
    if (stopped <= 4 * kLate) {
      EXPECT_EQ(end.cause, LeaseEndCause::kReleased) << end.reason;
    }
  }
}

TEST_P(SpawnerTest, DestroyedProcessesAndSpawnersLeaveNothing) {
  WatchedExecutor first(spawner_.get());
  WatchedExecutor second(spawner_.get());
  ASSERT_TRUE(first.ok() && second.ok());
  const pid_t pids[] = {first.process().pid(), second.process().pid()};
  first.Reset();
  EXPECT_TRUE(first.ended());
  EXPECT_TRUE(WaitUntilGone(pids[0]));
  spawner_.reset();
  EXPECT_TRUE(second.ended());
  EXPECT_TRUE(WaitUntilGone(pids[1]));
  EXPECT_TRUE(Descendants().empty());
  bootstrap::OpenSessionRequest request;
  EXPECT_EQ(second.process().OpenSession(request).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace invoker
