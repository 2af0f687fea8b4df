// Leases on the fabric under test: executors that are processes of their own, with endpoints of
// their own.

#include <pwd.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "invoker/lease.h"
#include "invoker/registered_window.h"
#include "tests/conformance/calls_suite.h"
#include "tests/invoke/with_output.h"

namespace invoker::conformance {
namespace {

constexpr char kBadFunctions[] = "tests/isolation/functions/bad_functions.so";
constexpr char kRfaasFunctions[] = "tests/functions/rfaas_functions.so";
constexpr uint64_t kMiB = 1 << 20;

class Leases : public CallsSuite {
 protected:
  ServerProcess* StartLeasingServer() {
    ServerProcessOptions options;
    options.functions = {kTestFunctions, kBadFunctions};
    options.window = absl::StrCat(kMiB);
    options.more = {"--lease-cores=3", "--lease-memory=768M", "--allow-upload=library"};
    // The test's files are the test's user's, and so is shared memory.
    if (const passwd* self = getpwuid(geteuid()); self != nullptr) {
      options.more.push_back(absl::StrCat("--executor-user=", self->pw_name));
    }
    return StartServer(std::move(options));
  }

  std::unique_ptr<Lease> Acquire(const ServerProcess* server, uint32_t executors,
                                 absl::Duration wait = absl::ZeroDuration()) {
    if (server == nullptr) return nullptr;
    LeaseOptions options;
    options.executors = executors;
    options.wait = wait;
    options.client = OnTestedFabric(GetParam(), {});
    auto lease = Lease::Acquire(server->address(), options);
    if (!lease.ok()) {
      ADD_FAILURE() << lease.status();
      return nullptr;
    }
    EXPECT_EQ((*lease)->provider(), Tested().request.provider);
    return *std::move(lease);
  }

  // What the function of that name answers on one of the lease's executors.
  static std::string Call(const Lease& lease, size_t executor, const std::string& function,
                          const std::string& input = "") {
    absl::StatusOr<RemoteFunction> found = lease.Function(function);
    if (!found.ok()) return found.status().ToString();
    CallOptions options;
    options.timeout = kPatience;
    absl::StatusOr<Response> response = lease.executor(executor).Invoke(*found, input, options);
    return response.ok() ? std::string(response->text()) : response.status().ToString();
  }
};

TEST_P(Leases, EachExecutorIsAProcessThatIsCalledDirectlyAndBilled) {
  ServerProcess* server = StartLeasingServer();
  const std::unique_ptr<Lease> lease = Acquire(server, 2);
  ASSERT_NE(lease, nullptr);
  ASSERT_EQ(lease->size(), 2u);
  const std::string server_pid = absl::StrCat(server->pid());
  std::set<std::string> processes = {server_pid};
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(Call(*lease, i, "test.echo", "12345"), "12345");
    processes.insert(Call(*lease, i, "bad.pid"));
  }
  EXPECT_EQ(processes.size(), 3u);
  absl::StatusOr<ResourceUsage> usage = lease->Usage();
  // Executors show what they have counted a little later.
  while (usage.ok() && usage->calls < 4) usage = lease->Usage();
  ASSERT_TRUE(usage.ok()) << usage.status();
  EXPECT_EQ(usage->calls, 4u);
  EXPECT_EQ(usage->bytes_in, 10u);
  const absl::StatusOr<LeaseEnd> bill = lease->Release();
  ASSERT_TRUE(bill.ok()) << bill.status();
  EXPECT_EQ(bill->cause, LeaseEndCause::kReleased);
  EXPECT_EQ(bill->usage.calls, 4u);
  EXPECT_GT(bill->usage.lease_time, absl::ZeroDuration());
  EXPECT_GT(bill->usage.cpu_time, absl::ZeroDuration());
}

TEST_P(Leases, ACrashEndsItsLeaseWithItsSignalWhileAnotherKeepsCalling) {
  ServerProcess* server = StartLeasingServer();
  const std::unique_ptr<Lease> other = Acquire(server, 1);
  const std::unique_ptr<Lease> doomed = Acquire(server, 2);
  ASSERT_NE(other, nullptr);
  ASSERT_NE(doomed, nullptr);
  std::atomic<bool> stop{false};
  std::atomic<int> calls{0};
  std::string failure;
  std::thread caller([&] {
    while (!stop.load()) {
      const std::string answer = Call(*other, 0, "test.echo", "still here");
      if (answer != "still here") failure = answer;
      calls.fetch_add(1);
    }
  });
  const auto more_calls = [&calls] {
    for (const int before = calls.load(); calls.load() < before + 3;) std::this_thread::yield();
  };
  more_calls();
  const std::string crashed = Call(*doomed, 0, "bad.null");
  const std::string status = doomed->status().ToString();
  const absl::StatusOr<LeaseEnd> end = doomed->Release();
  more_calls();
  stop = true;
  caller.join();
  EXPECT_EQ(failure, "");
  for (const std::string& text : {crashed, status}) {
    EXPECT_TRUE(absl::StrContains(text, "ABORTED")) << text;
    EXPECT_TRUE(absl::StrContains(text, "SIGSEGV")) << text;
    EXPECT_TRUE(absl::StrContains(text, "bad.null")) << text;
  }
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->cause, LeaseEndCause::kCrashed);
  EXPECT_EQ(other->status(), absl::OkStatus());
  // Its cores are free again.
  const std::unique_ptr<Lease> next = Acquire(server, 2, kPatience);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(Call(*next, 1, "test.echo", "next"), "next");
}

TEST_P(Leases, AKilledClientsLeaseIsFreed) {
  ServerProcess* server = StartLeasingServer();
  ASSERT_NE(server, nullptr);
  const std::unique_ptr<ChildProcess> holder = StartHolder(server, 3);
  ASSERT_NE(holder, nullptr);
  LeaseOptions impatient;
  impatient.client = OnTestedFabric(GetParam(), {});
  const absl::Status refused = Lease::Acquire(server->address(), impatient).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  holder->Signal(SIGKILL);
  holder->Wait();
  for (const std::string& name : SharedMemoryOf(holder->pid())) {
    unlink(("/dev/shm/" + name).c_str());
  }
  const std::unique_ptr<Lease> lease = Acquire(server, 3, kPatience);
  ASSERT_NE(lease, nullptr);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(Call(*lease, i, "test.echo", "mine"), "mine");
}

TEST_P(Leases, UploadedFunctionsAndThoseOfRfaasAreCalledOnEveryExecutor) {
  const std::unique_ptr<Lease> lease = Acquire(StartLeasingServer(), 2);
  ASSERT_NE(lease, nullptr);
  EXPECT_TRUE(absl::IsNotFound(lease->Function("c.greet.de").status()));
  EXPECT_EQ(lease->Upload(kCFunctions, kPatience), absl::OkStatus());
  EXPECT_EQ(lease->Upload(kRfaasFunctions, kPatience), absl::OkStatus());
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(Call(*lease, i, "c.greet.de"), "hallo");
    EXPECT_EQ(Call(*lease, i, "rfaas_reverse", "rFaaS"), "SaaFr");
    EXPECT_EQ(Call(*lease, i, "test.echo", "as before"), "as before");
  }
}

TEST_P(Leases, APayloadLargerThanTheWindowGoesThroughRegisteredMemory) {
  const std::unique_ptr<Lease> lease = Acquire(StartLeasingServer(), 1);
  ASSERT_NE(lease, nullptr);
  Client& executor = lease->executor(0);
  ASSERT_LT(executor.max_payload(), kMiB);
  constexpr uint64_t kBytes = 5 * kMiB + 123;
  std::vector<std::byte> input(kBytes);
  std::vector<std::byte> output(kBytes);
  Stamp(input.data(), input.size(), 1);
  const absl::StatusOr<RegisteredWindow> from =
      executor.RegisterWindow(input.data(), kBytes, WindowAccess::kRead);
  const absl::StatusOr<RegisteredWindow> to =
      executor.RegisterWindow(output.data(), kBytes, WindowAccess::kWrite);
  ASSERT_TRUE(from.ok()) << from.status();
  ASSERT_TRUE(to.ok()) << to.status();
  const absl::StatusOr<RemoteFunction> echo = lease->Function("test.echo");
  ASSERT_TRUE(echo.ok()) << echo.status();
  CallOptions options;
  options.timeout = kPatience;
  const absl::StatusOr<Response> result =
      executor.Invoke(*echo, {*from, 0, kBytes}, WithOutput({*to, 0, kBytes}, options));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->size(), kBytes);
  EXPECT_EQ(FirstDifference(output.data(), kBytes, 1), kBytes);
}

INSTANTIATE_TEST_SUITE_P(Every, Leases, testing::Values("auto"), NameOfNotification);

}  // namespace
}  // namespace invoker::conformance
