// Executors in a sandbox, on each fabric that they can serve from there: what they see of the
// machine, and how their ends are told. Skipped where bwrap does not work, in words.

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/isolation/spawner/executor_spawner.h"
#include "tests/isolation/isolated_server.h"

namespace invoker {
namespace {
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class SandboxedTest : public testing::TestWithParam<std::vector<std::string>> {
 protected:
  void SetUp() override {
    options_ = TestSpawnerOptions(GetParam());
    options_.sandbox = Sandbox::kBubblewrap;
    auto spawner = ExecutorSpawner::Start(options_);
    if (absl::IsFailedPrecondition(spawner.status())) {
      EXPECT_THAT(std::string(spawner.status().message()), HasSubstr("bwrap"));
      GTEST_SKIP() << spawner.status();
    }
    ASSERT_TRUE(spawner.ok()) << spawner.status();
    spawner_ = *std::move(spawner);
  }
  bool serves_shm() const {
    return std::find(GetParam().begin(), GetParam().end(), kShm) != GetParam().end();
  }

  SpawnerOptions options_;
  std::unique_ptr<ExecutorSpawner> spawner_;
};

INSTANTIATE_TEST_SUITE_P(Fabrics, SandboxedTest,
                         testing::Values(std::vector<std::string>{kTcp},
                                         std::vector<std::string>{kShm},
                                         std::vector<std::string>{kShm, kTcp}),
                         [](const auto& info) {
                           return info.param.size() == 2  ? "Both"
                                  : info.param[0] == kShm ? "Shm"
                                                          : "Tcp";
                         });

TEST_P(SandboxedTest, TheFileSystemIsReadOnlyAndEndsAreTold) {
  {
    WatchedExecutor other(spawner_.get());
    WatchedExecutor executor(spawner_.get());
    ASSERT_TRUE(executor.ok() && other.ok());
    IsolatedServer other_server(&other.process(), options_);
    IsolatedServer server(&executor.process(), options_);
    auto client = server.Connect();
    ASSERT_TRUE(client.ok()) << client.status();
    EXPECT_EQ(*CallOn(client->get(), "bad.write_root"), "Read-only file system");
    // What the server believes to be its number is.
    EXPECT_NE(ParentOf(executor.process().pid()), 0);
    EXPECT_EQ(*CallOn(client->get(), "bad.pid") == absl::StrCat(executor.process().pid()),
              serves_shm());
    EXPECT_GT(executor.process().CpuTime(), absl::ZeroDuration());
    Future call = (*client)->InvokeAsync(*(*client)->Function("bad.null"), "");
    const ExecutorEnd end = executor.WaitForEnd();
    EXPECT_EQ(end.cause, LeaseEndCause::kCrashed);
    EXPECT_THAT(end.reason, HasSubstr("signal 11 (SIGSEGV) in function \"bad.null\""));
    EXPECT_TRUE(WaitUntilGone(executor.process().pid()));
    (*client)->Close();
    EXPECT_EQ(*other_server.Call("bad.echo", "still here"), "still here");
    other.process().Stop(absl::Seconds(30));
    EXPECT_EQ(other.WaitForEnd().cause, LeaseEndCause::kReleased);
  }
  spawner_.reset();
  EXPECT_TRUE(Descendants().empty());
}

// bwrap's own process among them.
TEST_P(SandboxedTest, SignalsThatAskAProgramToEndDoNotEndIt) {
  ExpectToOutliveEndSignals(spawner_.get(), options_);
}

TEST_P(SandboxedTest, ItsProcessesAreAllThatItCanEnd) {
  if (serves_shm()) GTEST_SKIP() << "peers on one host know each other by process number";
  WatchedExecutor other(spawner_.get());
  WatchedExecutor executor(spawner_.get());
  ASSERT_TRUE(executor.ok() && other.ok());
  IsolatedServer other_server(&other.process(), options_);
  IsolatedServer server(&executor.process(), options_);
  auto client = server.Connect();
  ASSERT_TRUE(client.ok()) << client.status();
  const absl::StatusOr<std::string> daemon = CallOn(client->get(), "bad.daemon");
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  EXPECT_EQ(*CallOn(client->get(), "hostile.kill_all"), "killed");
  EXPECT_EQ(*CallOn(client->get(), "bad.echo", "itself not"), "itself not");
  EXPECT_EQ(*other_server.Call("bad.echo", "nor others"), "nor others");
  EXPECT_FALSE(other.ended());
}

TEST(SandboxedStart, AProgramThatItWouldNotSeeIsNamed) {
  SpawnerOptions options = TestSpawnerOptions();
  options.sandbox = Sandbox::kBubblewrap;
  options.executor_path = "/tmp/somewhere/invoker_executor";
  const absl::Status status = ExecutorSpawner::Start(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("bwrap"));
}

}  // namespace
}  // namespace invoker
