// Leases as programs use them, on real servers whose executors are processes.

#include "invoker/lease.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "invoker/client_group.h"
#include "invoker/registered_window.h"
#include "tests/integration/fabric_test.h"
#include "tests/integration/rendezvous.h"
#include "tests/invoke/with_output.h"

namespace invoker {
namespace {

constexpr char kBadFunctions[] = "tests/isolation/functions/bad_functions.so";

class LeaseTest : public ServerTest, public testing::WithParamInterface<const char*> {
 protected:
  ServerProcess* Start(std::vector<std::string> more = {}) {
    const passwd* user = getpwuid(geteuid());
    ServerProcessOptions options;
    options.provider = GetParam();
    options.functions = {kTestFunctions, kRendezvousFunction, kBadFunctions};
    options.more = std::move(more);
    options.more.push_back("--lease-cores=4");
    options.more.push_back("--prestart=2");
    // The test's files are the test's user's, and so is shared memory.
    options.more.push_back(absl::StrCat("--executor-user=", user != nullptr ? user->pw_name : ""));
    return StartServer(options);
  }
  static LeaseOptions Executors(uint32_t executors) {
    LeaseOptions options;
    options.executors = executors;
    options.client.hot_timeout = kClientHotTimeout;
    options.client.peer_timeout = absl::Seconds(5);
    return options;
  }
  static std::unique_ptr<Lease> Acquire(const ServerProcess* server, const LeaseOptions& options) {
    auto lease = Lease::Acquire(server->address(), options);
    EXPECT_TRUE(lease.ok()) << lease.status();
    return lease.ok() ? *std::move(lease) : nullptr;
  }
  static RemoteFunction FunctionOf(const Lease& lease, const std::string& name) {
    absl::StatusOr<RemoteFunction> function = lease.Function(name);
    if (!function.ok()) {
      ADD_FAILURE() << function.status();
      abort();
    }
    return *std::move(function);
  }
};

INSTANTIATE_TEST_SUITE_P(Providers, LeaseTest, testing::Values("tcp;ofi_rxm", "shm"),
                         [](const auto& info) {
                           return std::string(info.param[0] == 's' ? "Shm" : "Tcp");
                         });

TEST_P(LeaseTest, EveryExecutorCanBeCalledAndTheBillCountsIt) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  LeaseOptions options = Executors(3);
  options.tenant = "tester";
  options.memory_bytes = 256 << 20;
  std::unique_ptr<Lease> lease = Acquire(server, options);
  ASSERT_NE(lease, nullptr);
  ASSERT_EQ(lease->size(), 3u);
  EXPECT_EQ(lease->provider(), GetParam());
  EXPECT_EQ(lease->server(), server->address());
  EXPECT_EQ(lease->terms().executors, 3u);
  EXPECT_EQ(lease->terms().tenant, "tester");
  EXPECT_EQ(lease->terms().memory_bytes, uint64_t{256} << 20);
  const RemoteFunction echo = FunctionOf(*lease, "test.echo");
  for (size_t i = 0; i < lease->size(); ++i) {
    absl::StatusOr<Response> response = lease->executor(i).Invoke(echo, absl::StrCat("to ", i));
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->text(), absl::StrCat("to ", i));
  }
  EXPECT_TRUE(lease->status().ok()) << lease->status();
  absl::StatusOr<LeaseEnd> bill = lease->Release();
  ASSERT_TRUE(bill.ok()) << bill.status();
  EXPECT_EQ(bill->cause, LeaseEndCause::kReleased);
  EXPECT_EQ(bill->usage.calls, 3u);
  EXPECT_EQ(bill->usage.bytes_in, 12u);
  EXPECT_GT(bill->usage.lease_time, absl::ZeroDuration());
  EXPECT_TRUE(absl::IsFailedPrecondition(lease->Release().status()));
  const absl::Status late = lease->executor(0).Invoke(echo, "late").status();
  EXPECT_EQ(GetCallFate(late), CallFate::kNotSent) << late;
}

TEST_P(LeaseTest, ACrashEndsEveryCallOfItsLeaseWithTheReasonAndNoOther) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  std::unique_ptr<Lease> lease = Acquire(server, Executors(2));
  std::unique_ptr<Lease> other = Acquire(server, Executors(1));
  ASSERT_NE(lease, nullptr);
  ASSERT_NE(other, nullptr);
  Rendezvous rendezvous;
  Future waits =
      lease->executor(1).InvokeAsync(FunctionOf(*lease, "test.rendezvous"), rendezvous.path());
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  const absl::Status crashed =
      lease->executor(0).Invoke(FunctionOf(*lease, "bad.null"), "").status();
  const absl::Status waiting = waits.Get().status();
  for (const absl::Status& status : {crashed, waiting, lease->status()}) {
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "SIGSEGV")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "bad.null")) << status;
  }
  EXPECT_EQ(GetCallFate(crashed), CallFate::kMaybeExecuted);
  EXPECT_EQ(GetCallFate(waiting), CallFate::kMaybeExecuted);
  const RemoteFunction echo = FunctionOf(*lease, "test.echo");
  for (size_t i = 0; i < 2; ++i) {
    const absl::Status later = lease->executor(i).Invoke(echo, "later").status();
    EXPECT_TRUE(absl::IsAborted(later)) << later;
    EXPECT_EQ(GetCallFate(later), CallFate::kNotSent) << later;
  }
  absl::StatusOr<LeaseEnd> bill = lease->Release();
  ASSERT_TRUE(bill.ok()) << bill.status();
  EXPECT_EQ(bill->cause, LeaseEndCause::kCrashed);
  EXPECT_TRUE(other->executor(0).Invoke(FunctionOf(*other, "test.echo"), "alive").ok());
  EXPECT_TRUE(other->status().ok()) << other->status();
}

TEST_P(LeaseTest, WhatIsSentAfterACrashEndsWithTheReasonToo) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  std::unique_ptr<Lease> lease = Acquire(server, Executors(1));
  ASSERT_NE(lease, nullptr);
  Client& executor = lease->executor(0);
  const RemoteFunction echo = FunctionOf(*lease, "test.echo");
  Future crashed = executor.InvokeAsync(FunctionOf(*lease, "bad.null"), "");
  // One after the other, so that some are sent when the executor is gone and the lease has not said
  // so yet: some fabrics fail these, and what is under way with them.
  CallOptions options;
  options.response_capacity = 64;
  std::vector<Future> later;
  while (lease->status().ok() && later.size() < 1000) {
    later.push_back(executor.InvokeAsync(echo, "later", options));
    absl::SleepFor(absl::Microseconds(100));
  }
  const auto expect_reason = [](const absl::Status& status) {
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "SIGSEGV")) << status;
    return absl::IsAborted(status);
  };
  expect_reason(crashed.Get().status());
  for (Future& future : later) {
    if (!expect_reason(future.Get().status())) break;
  }
  expect_reason(lease->status());
}

TEST_P(LeaseTest, UsageIsToldWhileTheLeaseIsOpenAndAfterItsEnd) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  std::unique_ptr<Lease> lease = Acquire(server, Executors(2));
  std::unique_ptr<Lease> other = Acquire(server, Executors(1));
  ASSERT_NE(lease, nullptr);
  ASSERT_NE(other, nullptr);
  const RemoteFunction echo = FunctionOf(*lease, "test.echo");
  for (size_t i = 0; i < 2; ++i) ASSERT_TRUE(lease->executor(i).Invoke(echo, "12345").ok());
  absl::StatusOr<ResourceUsage> usage = lease->Usage();
  // Executors show what they have counted a little later.
  while (usage.ok() && usage->calls < 2) usage = lease->Usage();
  ASSERT_TRUE(usage.ok()) << usage.status();
  EXPECT_EQ(usage->calls, 2u);
  EXPECT_EQ(usage->bytes_in, 10u);
  EXPECT_GT(usage->lease_time, absl::ZeroDuration());
  EXPECT_FALSE(lease->end().has_value());
  // This lease's alone.
  absl::StatusOr<ResourceUsage> others = other->Usage();
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_EQ(others->calls, 0u);

  EXPECT_FALSE(lease->executor(0).Invoke(FunctionOf(*lease, "bad.null"), "").ok());
  const absl::optional<LeaseEnd> end = lease->end();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->cause, LeaseEndCause::kCrashed);
  const absl::StatusOr<ResourceUsage> bill = lease->Usage();
  ASSERT_TRUE(bill.ok()) << bill.status();
  EXPECT_GE(bill->calls, 2u);
  EXPECT_EQ(bill->lease_time, end->usage.lease_time);
  EXPECT_TRUE(other->Release().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(other->Usage().status()));
}

TEST_P(LeaseTest, APayloadThatTheLeasesMemoryHasNoRoomForIsRefusedAndTheLeaseStays) {
  if (getenv("INVOKER_SANITIZER") != nullptr) {
    GTEST_SKIP() << "a sanitizer needs memory of its own, and has no use for a limit";
  }
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  constexpr uint64_t kMemory = 64 << 20;
  LeaseOptions options = Executors(1);
  options.memory_bytes = kMemory;
  std::unique_ptr<Lease> lease = Acquire(server, options);
  ASSERT_NE(lease, nullptr);
  Client& executor = lease->executor(0);
  const RemoteFunction echo = FunctionOf(*lease, "test.echo");
  std::vector<std::byte> memory(kMemory);
  absl::StatusOr<RegisteredWindow> window =
      executor.RegisterWindow(memory.data(), memory.size(), WindowAccess::kReadWrite);
  ASSERT_TRUE(window.ok()) << window.status();
  constexpr uint64_t kHalf = kMemory / 2;
  const absl::Status refused =
      executor.Invoke(echo, {*window, 0, kHalf}, WithOutput({*window, kHalf, kHalf})).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(GetCallFate(refused), CallFate::kNotExecuted);
  constexpr uint64_t kFits = kMemory / 8;
  EXPECT_TRUE(executor.Invoke(echo, {*window, 0, kFits}, WithOutput({*window, kHalf, kFits})).ok());
  EXPECT_TRUE(lease->status().ok()) << lease->status();
}

// Memory is taken back by a request that must not wait behind one that waits for the function.
TEST_P(LeaseTest, AFunctionThatRunsOnLetsGoOfTheMemoryWhileOtherMemoryWaitsForIt) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  std::unique_ptr<Lease> lease = Acquire(server, Executors(1));
  ASSERT_NE(lease, nullptr);
  Client& executor = lease->executor(0);
  const RemoteFunction echo = FunctionOf(*lease, "test.echo");
  constexpr size_t kBytes = 8 << 20;
  const std::byte kBefore{7};
  std::vector<std::byte> output(kBytes, kBefore);
  std::vector<std::byte> other(kBytes);
  Rendezvous rendezvous;
  const std::string& path = rendezvous.path();
  absl::Notification ended;
  absl::StatusOr<Response> second = absl::UnknownError("not called");
  std::thread behind([&] {
    if (rendezvous.WaitUntilRunning()) {
      second = executor.Invoke(echo, {other.data(), 4}, WithOutput(absl::MakeSpan(other)));
    }
    ended.Notify();
  });
  CallOptions options;
  options.timeout = absl::Seconds(4);
  const absl::Status status =
      executor
          .Invoke(FunctionOf(*lease, "test.rendezvous"),
                  {reinterpret_cast<const std::byte*>(path.data()), path.size()},
                  WithOutput(absl::MakeSpan(output), options))
          .status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_EQ(executor.status(), absl::OkStatus());
  EXPECT_FALSE(ended.HasBeenNotified());
  rendezvous.Release();
  behind.join();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->size(), 4u);
  EXPECT_EQ(lease->status(), absl::OkStatus());
  EXPECT_EQ(std::count(output.begin(), output.end(), kBefore), static_cast<ptrdiff_t>(kBytes));
}

TEST_P(LeaseTest, WhoGetsNoneIsToldAndMayWaitInLine) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  std::unique_ptr<Lease> first = Acquire(server, Executors(3));
  ASSERT_NE(first, nullptr);
  const absl::Status refused = Lease::Acquire(server->address(), Executors(2)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(absl::IsInvalidArgument(Lease::Acquire(server->address(), Executors(9)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Lease::Acquire(server->address(), Executors(0)).status()));
  LeaseOptions patient = Executors(2);
  patient.wait = absl::InfiniteDuration();
  absl::Notification queued;
  patient.on_queued = [&](uint32_t ahead) {
    EXPECT_EQ(ahead, 0u);
    if (!queued.HasBeenNotified()) queued.Notify();
  };
  std::unique_ptr<Lease> second;
  std::thread waits([&] { second = Acquire(server, patient); });
  queued.WaitForNotification();
  EXPECT_TRUE(first->Release().ok());
  waits.join();
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(second->executor(1).Invoke(FunctionOf(*second, "test.echo"), "x").ok());
}

TEST_P(LeaseTest, ALeaseEndsWhenItsTimeIsOver) {
  ServerProcess* server = Start();
  ASSERT_NE(server, nullptr);
  LeaseOptions options = Executors(1);
  // It begins before the sessions are opened.
  options.ttl = absl::Seconds(5);
  std::unique_ptr<Lease> lease = Acquire(server, options);
  ASSERT_NE(lease, nullptr);
  Rendezvous rendezvous;
  const absl::Status status =
      lease->executor(0).Invoke(FunctionOf(*lease, "test.rendezvous"), rendezvous.path()).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(GetCallFate(status), CallFate::kMaybeExecuted);
  EXPECT_TRUE(absl::IsUnavailable(lease->status())) << lease->status();
  absl::StatusOr<LeaseEnd> bill = lease->Release();
  ASSERT_TRUE(bill.ok()) << bill.status();
  EXPECT_EQ(bill->cause, LeaseEndCause::kTtl);
}

TEST_P(LeaseTest, UploadedFunctionsAreFoundByName) {
  ServerProcess* server = Start({"--allow-upload=library"});
  ServerProcess* strict = Start();
  ASSERT_NE(server, nullptr);
  ASSERT_NE(strict, nullptr);
  std::unique_ptr<Lease> lease = Acquire(server, Executors(2));
  ASSERT_NE(lease, nullptr);
  EXPECT_TRUE(absl::IsNotFound(lease->Function("c.greet.de").status()));
  const absl::Status uploaded = lease->Upload(kCFunctions);
  ASSERT_TRUE(uploaded.ok()) << uploaded;
  const RemoteFunction greet = FunctionOf(*lease, "c.greet.de");
  for (size_t i = 0; i < 2; ++i) {
    absl::StatusOr<Response> response = lease->executor(i).Invoke(greet, "");
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->text(), "hallo");
  }
  // What was there before keeps its id.
  EXPECT_TRUE(lease->executor(1).Invoke(FunctionOf(*lease, "test.echo"), "x").ok());
  std::unique_ptr<Lease> refused = Acquire(strict, Executors(1));
  ASSERT_NE(refused, nullptr);
  const absl::Status denied = refused->Upload(kCFunctions);
  EXPECT_TRUE(absl::IsPermissionDenied(denied)) << denied;
  EXPECT_TRUE(absl::IsNotFound(refused->Upload("tests/functions/nothing.so")));
}

TEST_P(LeaseTest, AGroupLeasesOnSeveralServersAndOutlivesOneOfThem) {
  ServerProcess* doomed = Start();
  ServerProcess* kept = Start();
  ASSERT_NE(doomed, nullptr);
  ASSERT_NE(kept, nullptr);
  auto group =
      ClientGroup::Acquire(absl::StrCat(doomed->address(), ",", kept->address()), Executors(4));
  ASSERT_TRUE(group.ok()) << group.status();
  ASSERT_EQ((*group)->leases().size(), 2u);
  EXPECT_EQ((*group)->leases()[0]->size(), 2u);
  EXPECT_EQ((*group)->leases()[1]->size(), 2u);
  absl::StatusOr<GroupFunction> echo = (*group)->Function("test.echo");
  ASSERT_TRUE(echo.ok()) << echo.status();
  constexpr uint64_t kItems = 400;
  uint64_t next = 0;
  MapRun run = (*group)->StartMap(*echo, [&]() -> std::optional<absl::StatusOr<MapInput>> {
    if (next == kItems) return std::nullopt;
    return MapInput(absl::StrCat(next++));
  });
  uint64_t results = 0;
  uint64_t failed = 0;
  while (std::optional<MapResult> result = run.Next()) {
    EXPECT_EQ(result->index, results);
    if (result->response.ok()) {
      EXPECT_EQ(result->response->text(), absl::StrCat(results));
    } else {
      EXPECT_TRUE(absl::IsUnavailable(result->response.status())) << result->response.status();
      ++failed;
    }
    result.reset();
    if (++results == 50) doomed->Kill();
  }
  EXPECT_EQ(results, kItems);
  // No more than were under way there.
  EXPECT_LE(failed, 8u);
  EXPECT_EQ((*group)->left(), 2u);
  EXPECT_FALSE((*group)->leases()[0]->status().ok());
  EXPECT_TRUE((*group)->leases()[1]->status().ok());
}

}  // namespace
}  // namespace invoker
