// Leases with the real server and real executors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "invoker/lease.h"
#include "tests/lease/leased_server.h"

namespace invoker {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr char kTcp[] = "tcp;ofi_rxm";
constexpr char kShm[] = "shm";
constexpr char kBadFunctions[] = "tests/isolation/functions/bad_functions.so";
constexpr char kHangingLibrary[] = "tests/isolation/functions/hanging_library.so";

LeaseOptions Asking(uint32_t executors, absl::Duration wait = absl::ZeroDuration()) {
  LeaseOptions options;
  options.executors = executors;
  options.wait = wait;
  options.client.connect_timeout = kPatience;
  options.client.peer_timeout = absl::Seconds(5);
  return options;
}

absl::Status Echo(Client* client) {
  absl::StatusOr<RemoteFunction> echo = client->Function("test.echo");
  if (!echo.ok()) return echo.status();
  CallOptions options;
  options.timeout = kPatience;
  return client->Invoke(*echo, "hello", options).status();
}

TEST(LeasesTest, TheSecondClientGetsItsLeaseOnceTheFirstHasGivenItsOwnBack) {
  auto server = StartLeasedServer(kTcp, 2);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->ready()["lease_cores"], 2);
  auto first = Lease::Acquire((*server)->address(), Asking(2));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(Echo(&(*first)->executor(0)), absl::OkStatus());
  EXPECT_EQ(Echo(&(*first)->executor(1)), absl::OkStatus());

  const absl::Status refused = Lease::Acquire((*server)->address(), Asking(1)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("asks for 1 core"), HasSubstr("0 cores and 0 bytes")));

  absl::Notification queued;
  LeaseOptions waiting = Asking(1, absl::InfiniteDuration());
  waiting.on_queued = [&queued](uint32_t ahead) {
    EXPECT_EQ(ahead, 0u);
    queued.Notify();
  };
  std::thread second([&] {
    auto lease = Lease::Acquire((*server)->address(), waiting);
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ(Echo(&(*lease)->executor(0)), absl::OkStatus());
  });
  queued.WaitForNotification();
  const auto bill = (*first)->Release();
  ASSERT_TRUE(bill.ok()) << bill.status();
  EXPECT_EQ(bill->cause, LeaseEndCause::kReleased);
  EXPECT_EQ(bill->usage.calls, 2u);
  EXPECT_GT(bill->usage.lease_time, absl::ZeroDuration());
  EXPECT_GT(bill->usage.cpu_time, absl::ZeroDuration());
  second.join();
  EXPECT_EQ((*server)->Stop(), 0);
}

TEST(LeasesTest, AKilledClientsLeaseIsFreed) {
  for (const char* fabric : {kTcp, kShm}) {
    auto server = StartLeasedServer(fabric, 1);
    ASSERT_TRUE(server.ok()) << server.status();
    auto holder = StartHolder((*server)->address(), "session");
    ASSERT_TRUE(holder.ok()) << holder.status();
    EXPECT_EQ(Lease::Acquire((*server)->address(), Asking(1)).status().code(),
              absl::StatusCode::kResourceExhausted);
    KillHolder(holder->get());
    auto lease = Lease::Acquire((*server)->address(), Asking(1, kPatience));
    ASSERT_TRUE(lease.ok()) << fabric << ": " << lease.status();
    EXPECT_EQ(Echo(&(*lease)->executor(0)), absl::OkStatus());
  }
}

TEST(LeasesTest, AStoppedClientsLeaseIsFreed) {
  auto server = StartLeasedServer(kShm, 1);
  ASSERT_TRUE(server.ok()) << server.status();
  auto holder = StartHolder((*server)->address(), "session");
  ASSERT_TRUE(holder.ok()) << holder.status();
  const pid_t pid = (*holder)->pid();
  (*holder)->Signal(SIGSTOP);
  auto lease = Lease::Acquire((*server)->address(), Asking(1, kPatience));
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(Echo(&(*lease)->executor(0)), absl::OkStatus());
  // It lives, and what it has is its own.
  const std::vector<std::string> files = SharedMemoryOf(pid);
  EXPECT_FALSE(files.empty());
  (*holder)->Signal(SIGKILL);
  (*holder)->Wait();
  for (const std::string& name : files) std::filesystem::remove("/dev/shm/" + name);
}

TEST(LeasesTest, AKilledClientsLeaseIsFreedWhateverTheServerStillDoesForIt) {
  auto server = StartLeasedServer(kTcp, 1, {"--allow-upload=library"}, {kBadFunctions});
  ASSERT_TRUE(server.ok()) << server.status();
  for (const char* how : {"closing", "loading"}) {
    auto holder = StartHolder((*server)->address(), how);
    ASSERT_TRUE(holder.ok()) << holder.status();
    KillHolder(holder->get());
    auto lease = Lease::Acquire((*server)->address(), Asking(1, kPatience));
    ASSERT_TRUE(lease.ok()) << how << ": " << lease.status();
    EXPECT_EQ(Echo(&(*lease)->executor(0)), absl::OkStatus());
  }
  EXPECT_EQ((*server)->Stop(), 0);
}

TEST(LeasesTest, CodeThatNeverLoadsKeepsNoLeaseFromItsEnd) {
  auto server = StartLeasedServer(kTcp, 1, {"--allow-upload=library"});
  ASSERT_TRUE(server.ok()) << server.status();
  {
    auto lease = Lease::Acquire((*server)->address(), Asking(1));
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ((*lease)->Upload(kHangingLibrary, absl::Seconds(4)).code(),
              absl::StatusCode::kDeadlineExceeded);
    // The lease is given back.
  }
  LeaseOptions limited = Asking(1, kPatience);
  limited.call_limit = absl::Milliseconds(300);
  auto lease = Lease::Acquire((*server)->address(), limited);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_FALSE((*lease)->Upload(kHangingLibrary, kPatience).ok());
  EXPECT_TRUE(Eventually([&] { return !(*lease)->status().ok(); }));
  EXPECT_EQ((*lease)->status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string((*lease)->status().message()),
              HasSubstr("code that was being loaded ran for longer than 300ms"));
  EXPECT_TRUE(Lease::Acquire((*server)->address(), Asking(1, kPatience)).ok());
  // It removes what was uploaded.
  EXPECT_EQ((*server)->Stop(), 0);
}

TEST(LeasesTest, AKilledExecutorEndsItsLeaseAndNoOtherAndNoSharedSession) {
  auto server = StartLeasedServer(kTcp, 2);
  ASSERT_TRUE(server.ok()) << server.status();
  ClientOptions client_options;
  client_options.peer_timeout = absl::Seconds(5);
  client_options.connect_timeout = kPatience;
  auto shared = Client::Connect((*server)->address(), client_options);
  ASSERT_TRUE(shared.ok()) << shared.status();
  auto other = Lease::Acquire((*server)->address(), Asking(1));
  ASSERT_TRUE(other.ok()) << other.status();
  const std::set<pid_t> before = DescendantsOf((*server)->pid());
  std::string reason;
  for (int tries = 0; tries < 3 && !absl::StrContains(reason, "signal 9"); ++tries) {
    auto doomed = Lease::Acquire((*server)->address(), Asking(1, kPatience));
    ASSERT_TRUE(doomed.ok()) << doomed.status();
    for (const pid_t pid : DescendantsOf((*server)->pid())) {
      if (before.count(pid) == 0) kill(pid, SIGKILL);
    }
    EXPECT_TRUE(Eventually([&] { return !(*doomed)->status().ok(); }));
    EXPECT_EQ((*doomed)->status().code(), absl::StatusCode::kAborted);
    reason = std::string((*doomed)->status().message());
    // Which is seen first where nobody looks at either for a second.
    EXPECT_THAT(reason, AnyOf(HasSubstr("signal 9"), HasSubstr("closed its connection")));
  }
  EXPECT_THAT(reason, HasSubstr("signal 9"));
  EXPECT_EQ(Echo(&(*other)->executor(0)), absl::OkStatus());
  EXPECT_EQ(Echo(shared->get()), absl::OkStatus());
  // Its core is free again.
  EXPECT_TRUE(Lease::Acquire((*server)->address(), Asking(1, kPatience)).ok());
}

TEST(LeasesTest, ALeaseEndsWhenItsTimeIsOver) {
  auto server = StartLeasedServer(kTcp, 1, {"--max-ttl=1h"});
  ASSERT_TRUE(server.ok()) << server.status();
  LeaseOptions options = Asking(1);
  options.ttl = absl::Hours(2);
  EXPECT_EQ(Lease::Acquire((*server)->address(), options).status().code(),
            absl::StatusCode::kInvalidArgument);
  // It begins before the session is opened.
  options.ttl = absl::Seconds(5);
  auto lease = Lease::Acquire((*server)->address(), options);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(Eventually([&] { return !(*lease)->status().ok(); }));
  EXPECT_THAT(std::string((*lease)->status().message()), HasSubstr("5s is over"));
  EXPECT_TRUE(Lease::Acquire((*server)->address(), Asking(1, kPatience)).ok());
}

TEST(LeasesTest, AServerThatStopsEndsEveryExecutor) {
  auto server = StartLeasedServer(kTcp, 2);
  ASSERT_TRUE(server.ok()) << server.status();
  auto lease = Lease::Acquire((*server)->address(), Asking(2));
  ASSERT_TRUE(lease.ok()) << lease.status();
  const std::set<pid_t> processes = DescendantsOf((*server)->pid());
  EXPECT_GE(processes.size(), 3u);
  EXPECT_EQ((*server)->Stop(), 0);
  for (const pid_t pid : processes) {
    EXPECT_TRUE(Eventually([pid] { return kill(pid, 0) != 0; })) << pid;
  }
  EXPECT_TRUE(Eventually([&] { return !(*lease)->status().ok(); }));
}

}  // namespace
}  // namespace invoker
