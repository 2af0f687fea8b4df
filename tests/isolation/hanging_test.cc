// Executors that never come up, and code that is never loaded: what they are waited for is bounded.

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "src/isolation/spawner/executor_spawner.h"
#include "tests/isolation/begun_fifo.h"
#include "tests/isolation/isolated_server.h"

namespace invoker {
namespace {
using testing::AllOf;
using testing::HasSubstr;

constexpr char kHangingLibrary[] = "tests/isolation/functions/hanging_library.so";
// Longer than an executor takes to come up beside other tests, and short enough to wait for.
constexpr absl::Duration kStartLimit = absl::Seconds(10);
constexpr absl::Duration kPatience = absl::Seconds(60);

// While it is there, the hanging library hangs.
class HangFile {
 public:
  HangFile() : path_(absl::StrCat(testing::TempDir(), "/hang.", getpid())) {
    setenv("INVOKER_TEST_HANG", path_.c_str(), 1);
  }
  ~HangFile() {
    Remove();
    unsetenv("INVOKER_TEST_HANG");
  }
  void Create() { std::ofstream(path_).close(); }
  void Remove() { std::filesystem::remove(path_); }

 private:
  const std::string path_;
};

SpawnerOptions HangingOptions() {
  SpawnerOptions options = TestSpawnerOptions();
  options.libraries.push_back(kHangingLibrary);
  return options;
}

TEST(HangingTest, ASpawnerWhoseExecutorsNeverComeUpDoesNotStart) {
  HangFile file;
  file.Create();
  SpawnerOptions options = HangingOptions();
  options.start_limit = kStartLimit;
  const absl::Status status = ExecutorSpawner::Start(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("no executor comes up"), HasSubstr("was not ready after 10s")));
  EXPECT_TRUE(Descendants().empty());
}

TEST(HangingTest, AProgramThatNeverBecomesATemplateIsKilled) {
  const std::string program = absl::StrCat(testing::TempDir(), "/sleeper.", getpid());
  std::ofstream(program) << "#!/bin/sh\nexec sleep 1000000\n";
  ASSERT_EQ(chmod(program.c_str(), 0755), 0);
  SpawnerOptions options = TestSpawnerOptions();
  options.executor_path = program;
  options.start_limit = absl::Milliseconds(200);
  const absl::Status status = ExecutorSpawner::Start(options).status();
  std::filesystem::remove(program);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(program), HasSubstr("was not ready after 200ms")));
  EXPECT_TRUE(Descendants().empty());
}

TEST(HangingTest, AnExecutorThatDoesNotComeUpIsKilledAndTheNextOneMay) {
  HangFile file;
  SpawnerOptions options = HangingOptions();
  options.start_limit = kStartLimit;
  auto spawner = ExecutorSpawner::Start(options);
  ASSERT_TRUE(spawner.ok()) << spawner.status();
  file.Create();
  const absl::Status status = (*spawner)->Spawn(ExecutorKind::kNative, {}, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("was not ready after 10s, and was killed"));
  file.Remove();
  WatchedExecutor executor(spawner->get());
  ASSERT_TRUE(executor.ok());
  IsolatedServer server(&executor.process(), options);
  EXPECT_EQ(*server.Call("hanging.echo", "hello"), "hello");
}

TEST(HangingTest, AStartCanBeEnded) {
  HangFile file;
  SpawnerOptions options = HangingOptions();
  options.start_limit = absl::Hours(1);
  auto spawner = ExecutorSpawner::Start(options);
  ASSERT_TRUE(spawner.ok()) << spawner.status();
  file.Create();
  absl::Notification starting;
  std::function<void()> end_start;
  ExecutorProcess::Events events;
  events.on_starting = [&](std::function<void()> end) {
    end_start = std::move(end);
    starting.Notify();
  };
  absl::Status status;
  std::thread spawning(
      [&] { status = (*spawner)->Spawn(ExecutorKind::kNative, {}, std::move(events)).status(); });
  starting.WaitForNotification();
  end_start();
  spawning.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  end_start();
  end_start = nullptr;
}

class HangingLoadTest : public testing::Test {
 protected:
  HangingLoadTest() {
    setenv("INVOKER_TEST_BEGUN", begun_.path().c_str(), 1);
    auto spawner = ExecutorSpawner::Start(TestSpawnerOptions());
    EXPECT_TRUE(spawner.ok()) << spawner.status();
    if (spawner.ok()) spawner_ = *std::move(spawner);
  }
  ~HangingLoadTest() override { unsetenv("INVOKER_TEST_BEGUN"); }

  BegunFifo begun_;
  std::unique_ptr<ExecutorSpawner> spawner_;
};

TEST_F(HangingLoadTest, CodeThatBlocksWhenItIsLoadedBreaksTheCallLimit) {
  ExecutorTerms terms;
  terms.call_limit = absl::Milliseconds(300);
  WatchedExecutor executor(spawner_.get(), terms);
  ASSERT_TRUE(executor.ok());
  const auto loaded = executor.process().Load(kHangingLibrary, CodeKind::kLibrary, "f");
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kUnavailable) << loaded.status();
  const ExecutorEnd end = executor.WaitForEnd();
  EXPECT_EQ(end.cause, LeaseEndCause::kCallLimit) << end.reason;
  EXPECT_EQ(end.reason, "code that was being loaded ran for longer than 300ms");
}

TEST_F(HangingLoadTest, CodeThatBlocksWhenItIsLoadedEndsWithItsExecutor) {
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok());
  absl::Status status;
  std::thread loading(
      [&] { status = executor.process().Load(kHangingLibrary, CodeKind::kLibrary, "f").status(); });
  EXPECT_TRUE(begun_.Wait(kPatience));
  executor.process().Stop(absl::Milliseconds(100));
  loading.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  executor.WaitForEnd();
}

// A session that is closed waits for its executor's function; stopping the executor does not.
TEST_F(HangingLoadTest, RequestsBehindAFunctionThatNeverReturnsEndWithTheirExecutor) {
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok());
  IsolatedServer server(&executor.process(), TestSpawnerOptions());
  auto client = server.Connect();
  ASSERT_TRUE(client.ok()) << client.status();
  auto block = (*client)->Function("bad.block");
  ASSERT_TRUE(block.ok()) << block.status();
  Future call = (*client)->InvokeAsync(*block, begun_.path());
  EXPECT_TRUE(begun_.Wait(kPatience));
  std::thread loading([&] {
    EXPECT_FALSE(executor.process().Load(kHangingLibrary, CodeKind::kLibrary, "f").ok());
  });
  std::thread closing([&] { (*client)->Close(); });
  executor.process().Stop(absl::Milliseconds(100));
  loading.join();
  closing.join();
  executor.WaitForEnd();
  EXPECT_FALSE(call.Get().ok());
}

// Nor does a client that asks for its request, or lends memory or takes it back, even behind one
// that waits.
TEST_F(HangingLoadTest, WhatWaitsForNoFunctionIsAnsweredBeforeWhatDoes) {
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok());
  ExecutorProcess& process = executor.process();
  IsolatedServer server(&process, TestSpawnerOptions());
  auto client = server.Connect();
  ASSERT_TRUE(client.ok()) << client.status();
  auto block = (*client)->Function("bad.block");
  ASSERT_TRUE(block.ok()) << block.status();
  const uint64_t session = server.last_session();
  const bootstrap::WindowDescriptor window = {4096, 4096, 1};
  const absl::StatusOr<uint16_t> first = process.RegisterWindow(session, window, true, true);
  ASSERT_TRUE(first.ok()) << first.status();
  Future call = (*client)->InvokeAsync(*block, begun_.path());
  EXPECT_TRUE(begun_.Wait(kPatience));
  absl::Notification switched;
  std::thread switching([&] {
    const Notification notification = Notification::kSendAfterWrite;
    EXPECT_FALSE(process.SwitchNotification(session, notification, "the test asks for it").ok());
    switched.Notify();
  });
  absl::Notification answered;
  std::thread asking([&] {
    // Each question takes a while, so that the last is behind the switch.
    for (int i = 0; i < 10; ++i) {
      const absl::StatusOr<bootstrap::RequestState> state = process.FindRequest(session, 1);
      ASSERT_TRUE(state.ok()) << state.status();
      EXPECT_EQ(*state, bootstrap::RequestState::kInHand);
    }
    EXPECT_EQ(process.ForgetWindow(session, *first), absl::OkStatus());
    EXPECT_TRUE(process.RegisterWindow(session, window, true, true).ok());
    answered.Notify();
  });
  EXPECT_TRUE(answered.WaitForNotificationWithTimeout(kPatience));
  EXPECT_FALSE(switched.HasBeenNotified());
  process.Stop(absl::Milliseconds(100));
  switching.join();
  asking.join();
  (*client)->Close();
  executor.WaitForEnd();
  EXPECT_FALSE(call.Get().ok());
}

}  // namespace
}  // namespace invoker
