// Self-tests in processes of their own: those that work, and every way in which one may not.

#include "src/transport/self_test/self_test_process.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/integration/dying_self_test.h"
#include "tests/integration/server_process.h"
#include "tests/transport/immediates.h"

namespace invoker::transport {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kHelper[] = "tools/invoker_self_test";

// No healthy run needs this long, not even on a loaded machine or under a sanitizer.
constexpr absl::Duration kLimit = absl::Seconds(60);

FabricRequest Shm() {
  FabricRequest request;
  request.provider = "shm";
  return request;
}

FabricRequest Tcp() {
  FabricRequest request;
  request.provider = "tcp;ofi_rxm";
  request.address = "127.0.0.1";
  return request;
}

std::vector<SelfTestResult> TryAll(std::vector<FabricRequest> requests,
                                   const SelfTestOptions& options = {kHelper, kLimit}) {
  auto results = RunSelfTestsApart(requests, options);
  EXPECT_TRUE(results.ok()) << results.status();
  if (!results.ok() || results->size() != requests.size()) {
    return std::vector<SelfTestResult>(requests.size());
  }
  return *std::move(results);
}

void ExpectNoChild() {
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

// For helpers of this test's process.
class Preloaded {
 public:
  explicit Preloaded(const DyingSelfTest& dying) {
    for (const std::string& variable : dying.environment()) {
      const size_t equals = variable.find('=');
      setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
      names_.push_back(variable.substr(0, equals));
    }
  }
  ~Preloaded() {
    for (const std::string& name : names_) unsetenv(name.c_str());
  }

 private:
  std::vector<std::string> names_;
};

TEST(SelfTestProcess, SeveralFabricsAreTriedAtOnce) {
  FabricRequest absent;
  absent.provider = "carrier-pigeon";
  const auto results = TryAll({Shm(), absent, Tcp()});
  for (const size_t i : {0, 2}) {
    EXPECT_EQ(results[i].status, absl::OkStatus());
    EXPECT_FALSE(results[i].died);
    const std::string provider = i == 0 ? "shm" : "tcp;ofi_rxm";
    const bool immediates = StrongestOn(provider) == Notification::kWriteImm;
    EXPECT_EQ(results[i].immediate_crossed, immediates) << results[i].immediate_failure;
    EXPECT_TRUE(results[i].send_after_write_crossed) << results[i].send_after_write_failure;
    EXPECT_EQ(results[i].notification, StrongestOn(provider));
    EXPECT_EQ(results[i].eager_bytes, FindRow(provider).eager_bytes);
    EXPECT_EQ(results[i].immediate_bytes, immediates ? 8u : 0u);
    EXPECT_GT(results[i].round_trip_us, 0);
    EXPECT_GT(results[i].elapsed, absl::ZeroDuration());
  }
  EXPECT_EQ(results[0].atomics, AtomicsSeen::kNative);
  EXPECT_EQ(results[2].atomics, AtomicsSeen::kMessage);
  EXPECT_EQ(results[2].wait, WaitMethod::kFd);
  EXPECT_TRUE(absl::IsNotFound(results[1].status)) << results[1].status;
  EXPECT_THAT(std::string(results[1].status.message()), HasSubstr("carrier-pigeon"));
  EXPECT_FALSE(results[1].died);
  ExpectNoChild();
}

TEST(SelfTestProcess, ACrashOrAnExitCostsThatFabricOnly) {
  for (const auto& [how, said] :
       {std::pair("segv", "died of SIGSEGV"), {"exit", "ended its process with exit status 7"}}) {
    const DyingSelfTest dying(how);
    std::vector<SelfTestResult> results;
    {
      const Preloaded preloaded(dying);
      results = TryAll({Shm(), Tcp()});
    }
    EXPECT_TRUE(results[0].died);
    EXPECT_TRUE(absl::IsAborted(results[0].status)) << results[0].status;
    EXPECT_THAT(std::string(results[0].status.message()), AllOf(HasSubstr("shm"), HasSubstr(said)));
    EXPECT_EQ(results[1].status, absl::OkStatus());
    ASSERT_GT(dying.pid(), 0);
    EXPECT_THAT(SharedMemoryOf(dying.pid()), IsEmpty());
    ExpectNoChild();
  }
}

TEST(SelfTestProcess, OneThatHangsIsKilled) {
  const DyingSelfTest dying("hang");
  const Preloaded preloaded(dying);
  // Long enough for it to have begun to hang, which is not waited for otherwise.
  SelfTestOptions options = {kHelper, absl::Milliseconds(500)};
  std::vector<SelfTestResult> results;
  do {
    results = TryAll({Shm()}, options);
    options.limit *= 2;
  } while (dying.pid() == 0 && options.limit < kLimit);
  EXPECT_TRUE(results[0].died);
  EXPECT_TRUE(absl::IsDeadlineExceeded(results[0].status)) << results[0].status;
  EXPECT_THAT(std::string(results[0].status.message()),
              AllOf(HasSubstr("shm"), HasSubstr("did not end within"), HasSubstr("killed")));
  ASSERT_GT(dying.pid(), 0);
  EXPECT_THAT(SharedMemoryOf(dying.pid()), IsEmpty());
  ExpectNoChild();
}

TEST(SelfTestProcess, AProgramThatSaysNothingHasNotPassed) {
  const auto results = TryAll({Shm()}, {"/bin/true", kLimit});
  EXPECT_TRUE(absl::IsAborted(results[0].status)) << results[0].status;
  EXPECT_THAT(std::string(results[0].status.message()), HasSubstr("without a result"));
}

// Some programs let the system wait for its children.
TEST(SelfTestProcess, ResultsCountWhereSomebodyElseWaitsForChildren) {
  signal(SIGCHLD, SIG_IGN);
  const auto results = TryAll({Shm()});
  signal(SIGCHLD, SIG_DFL);
  EXPECT_EQ(results[0].status, absl::OkStatus());
}

TEST(SelfTestProcess, AProgramThatIsNotThereIsAnError) {
  const auto results = TryAll({Shm()}, {"/nonexistent/helper", kLimit});
  EXPECT_TRUE(absl::IsUnavailable(results[0].status)) << results[0].status;
  EXPECT_THAT(std::string(results[0].status.message()), HasSubstr("/nonexistent/helper"));
  // Nothing stands beside this test's program.
  const absl::Status status = RunSelfTestsApart({Shm()}, {}).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("invoker_self_test"), HasSubstr("/tests/transport")));
}

}  // namespace
}  // namespace invoker::transport
