// What executors count for bills: calls, bytes, function time and polling time, by lease.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "src/bootstrap/service/server.h"
#include "src/invoke/executor/usage_meter.h"
#include "src/transport/reactor/reactor.h"
#include "tests/invoke/leasing_host.h"
#include "tests/invoke/served_client.h"

namespace invoker {
namespace {

// Generous: reached only when a test fails.
constexpr absl::Duration kPatience = absl::Seconds(30);

bool WaitUntil(const std::function<bool()>& done) {
  const int64_t limit = transport::MonotonicNs() + absl::ToInt64Nanoseconds(kPatience);
  while (!done()) {
    if (transport::MonotonicNs() > limit) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

// The server has this process to share with its clients, on a machine that may be busy.
ClientOptions Patient() {
  ClientOptions options;
  options.peer_timeout = absl::Seconds(5);
  return options;
}

// Clients share a lease only if they were connected with the same options.
ClientOptions WithLeaseOfItsOwn(uint64_t number) {
  ClientOptions options = Patient();
  options.peer_timeout += absl::Seconds(number);
  return options;
}

class UsageTest : public testing::TestWithParam<const char*> {
 protected:
  void Serve(absl::Duration hot_timeout) {
    began_ns_ = transport::MonotonicNs();
    WorkerOptions options;
    options.executor.hot_timeout = hot_timeout;
    served_ = std::make_unique<ServedWorker>(GetParam(), options);
  }

  UsageCounters Usage() const { return served_->worker->Usage(); }

  // Since before the worker was there. The counters' clock is another one, and may be off a little.
  uint64_t WallNs() const {
    const uint64_t wall = static_cast<uint64_t>(transport::MonotonicNs() - began_ns_);
    return wall + wall / 100;
  }

  int64_t began_ns_ = 0;
  std::unique_ptr<ServedWorker> served_;
};

INSTANTIATE_TEST_SUITE_P(Providers, UsageTest, testing::Values("tcp;ofi_rxm", "shm"),
                         NameOfProvider);

TEST_P(UsageTest, CallsAndBytesAreExact) {
  Serve(absl::Microseconds(100));
  std::unique_ptr<Client> client = served_->Connect();
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = Find(*client, "echo");
  const RemoteFunction fail = Find(*client, "fail");
  uint64_t bytes = 0;
  for (size_t size = 0; size < 100; ++size) {
    const std::string payload(size, 'x');
    ASSERT_TRUE(client->Invoke(echo, payload).ok());
    bytes += size;
  }
  uint64_t bytes_out = bytes;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(client->Invoke(fail, std::string("input")).ok());
    bytes += 5;
    bytes_out += std::string("it did not work").size();
  }
  CallOptions small;
  small.response_capacity = 10;
  EXPECT_FALSE(client->Invoke(echo, std::string(1000, 'x'), small).ok());
  bytes += 1000;
  ASSERT_TRUE(WaitUntil([&] { return Usage().calls == 104; })) << Usage().calls;
  EXPECT_EQ(Usage().bytes_in, bytes);
  EXPECT_EQ(Usage().bytes_out, bytes_out);
  const ExecutorCounters counters = served_->worker->Counters();
  EXPECT_EQ(counters.executed, 104u);
  EXPECT_EQ(counters.bytes_in, bytes);
  EXPECT_EQ(counters.bytes_out, bytes_out);
  client.reset();
  ASSERT_TRUE(WaitUntil([&] { return served_->worker->Counters().live_sessions == 0; }));
  EXPECT_EQ(Usage().calls, 104u) << "a session that has ended counts once";
  EXPECT_EQ(Usage().bytes_in, bytes);
}

TEST_P(UsageTest, CallsThatAreUnderWayTogetherAreAllCounted) {
  Serve(absl::Microseconds(100));
  std::unique_ptr<Client> client = served_->Connect();
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = Find(*client, "echo");
  constexpr int kRounds = 50;
  constexpr int kTogether = 20;
  CallOptions options;
  options.response_capacity = 64;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Future> futures;
    for (int i = 0; i < kTogether; ++i) {
      futures.push_back(client->InvokeAsync(echo, std::string(40, 'x'), options));
    }
    for (Future& future : futures) ASSERT_TRUE(future.Get().ok());
  }
  ASSERT_TRUE(WaitUntil([&] { return Usage().calls == kRounds * kTogether; }));
  EXPECT_EQ(Usage().bytes_in, 40u * kRounds * kTogether);
  EXPECT_EQ(Usage().bytes_out, 40u * kRounds * kTogether);
  EXPECT_GT(Usage().function_ns, 0u);
  EXPECT_LE(Usage().function_ns + Usage().polling_ns, WallNs());
}

TEST_P(UsageTest, FunctionTimeIsThatOfTheFunction) {
  Serve(absl::Microseconds(100));
  std::unique_ptr<Client> client = served_->Connect();
  ASSERT_NE(client, nullptr);
  Future future = client->InvokeAsync(Find(*client, "gate"), std::string());
  served_->functions.entered.WaitForNotification();
  const int64_t entered_ns = transport::MonotonicNs();
  // Asking does not wait for the function.
  EXPECT_EQ(Usage().calls, 0u);
  absl::SleepFor(absl::Milliseconds(20));
  const uint64_t within_ns = static_cast<uint64_t>(transport::MonotonicNs() - entered_ns);
  served_->functions.open.Notify();
  ASSERT_TRUE(future.Get().ok());
  ASSERT_TRUE(WaitUntil([&] { return Usage().calls == 1; }));
  EXPECT_GE(Usage().function_ns, within_ns - within_ns / 100);
  EXPECT_LE(Usage().function_ns + Usage().polling_ns, WallNs());
}

TEST_P(UsageTest, AHotExecutorPolls) {
  Serve(absl::Hours(1));
  EXPECT_EQ(Usage().polling_ns, 0u) << "nobody has a session";
  std::unique_ptr<Client> client = served_->Connect();
  ASSERT_NE(client, nullptr);
  const uint64_t before = Usage().polling_ns;
  const auto polled = [&] { return Usage().polling_ns - before; };
  ASSERT_TRUE(WaitUntil([&] { return polled() > 20'000'000; }));
  EXPECT_LE(Usage().polling_ns + Usage().function_ns, WallNs());
  client.reset();
  ASSERT_TRUE(WaitUntil([&] { return served_->worker->Counters().live_sessions == 0; }));
  // Without a session there is nothing to poll for.
  ASSERT_TRUE(WaitUntil([&] {
    const uint64_t then = Usage().polling_ns;
    absl::SleepFor(absl::Milliseconds(5));
    return Usage().polling_ns == then;
  }));
}

TEST_P(UsageTest, AWarmExecutorPollsHardlyEver) {
  Serve(absl::ZeroDuration());
  std::unique_ptr<Client> client = served_->Connect();
  ASSERT_NE(client, nullptr);
  const RemoteFunction echo = Find(*client, "echo");
  ASSERT_TRUE(client->Invoke(echo, std::string("x")).ok());
  // Another process may keep the executor from falling asleep for a while, but not for ever.
  EXPECT_TRUE(WaitUntil([&] {
    const uint64_t before = Usage().polling_ns;
    const int64_t began_ns = transport::MonotonicNs();
    absl::SleepFor(absl::Milliseconds(20));
    return (Usage().polling_ns - before) * 10 <
           static_cast<uint64_t>(transport::MonotonicNs() - began_ns);
  }));
}

// Hands everything on, and keeps what leases are said to have used at their end.
class BillingHost final : public LeasingHost {
 public:
  using LeasingHost::LeasingHost;

  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      uint64_t lease, const bootstrap::OpenSessionRequest& request) override {
    absl::MutexLock lock(&mutex_);
    leases_.push_back(lease);
    return LeasingHost::OpenSession(lease, request);
  }
  ResourceUsage CloseLease(uint64_t lease) override {
    const ResourceUsage usage = LeasingHost::CloseLease(lease);
    absl::MutexLock lock(&mutex_);
    bills_[lease] = usage;
    return usage;
  }

  uint64_t NewestLease() {
    absl::MutexLock lock(&mutex_);
    return leases_.back();
  }
  std::map<uint64_t, ResourceUsage> bills() {
    absl::MutexLock lock(&mutex_);
    return bills_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<uint64_t> leases_;
  std::map<uint64_t, ResourceUsage> bills_;
};

TEST_P(UsageTest, EachLeaseHasItsOwnBill) {
  Serve(absl::Microseconds(100));
  BillingHost host(served_->worker.get());
  bootstrap::ServerOptions options;
  options.listen = "127.0.0.1:0";
  auto server = bootstrap::Server::Start(options, &host);
  ASSERT_TRUE(server.ok()) << server.status();
  std::map<uint64_t, uint64_t> expected;
  std::vector<std::unique_ptr<Client>> clients;
  for (uint64_t calls : {3, 5, 7}) {
    auto client = Client::Connect((*server)->listen_address(), WithLeaseOfItsOwn(calls));
    ASSERT_TRUE(client.ok()) << client.status();
    const RemoteFunction echo = Find(**client, "echo");
    for (uint64_t i = 0; i < calls; ++i) {
      ASSERT_TRUE((*client)->Invoke(echo, std::string(calls, 'x')).ok());
    }
    expected[host.NewestLease()] = calls;
    clients.push_back(*std::move(client));
  }
  ASSERT_TRUE(WaitUntil([&] { return Usage().calls == 15; }));
  for (const auto& [lease, calls] : expected) {
    const UsageCounters usage = served_->worker->UsageUnder(lease);
    EXPECT_EQ(usage.calls, calls);
    EXPECT_EQ(usage.bytes_in, calls * calls);
    EXPECT_GT(usage.function_ns, 0u);
  }
  EXPECT_EQ(served_->worker->UsageUnder(12345).calls, 0u);
  clients.clear();
  ASSERT_TRUE(WaitUntil([&] { return host.bills().size() == 3; }));
  for (const auto& [lease, usage] : host.bills()) {
    EXPECT_EQ(usage.calls, expected[lease]);
    EXPECT_EQ(usage.bytes_out, expected[lease] * expected[lease]);
    EXPECT_GT(usage.function_time, absl::ZeroDuration());
    EXPECT_EQ(served_->worker->UsageUnder(lease).calls, 0u) << "it has ended";
  }
}

// A client that dies says nothing: its sessions end with its lease.
TEST_P(UsageTest, TheLastTurnsAreOnTheBill) {
  Serve(absl::Hours(1));  // shows what it has counted only now and then
  BillingHost host(served_->worker.get());
  bootstrap::ServerOptions options;
  options.listen = "127.0.0.1:0";
  auto server = bootstrap::Server::Start(options, &host);
  ASSERT_TRUE(server.ok()) << server.status();
  for (int round = 0; round < 20; ++round) {
    auto client = Client::Connect((*server)->listen_address(), Patient());
    ASSERT_TRUE(client.ok()) << client.status();
    const RemoteFunction echo = Find(**client, "echo");
    for (int i = 0; i < 3; ++i) ASSERT_TRUE((*client)->Invoke(echo, std::string("12345")).ok());
    const ResourceUsage bill = served_->worker->CloseLease(host.NewestLease());
    EXPECT_EQ(bill.calls, 3u);
    EXPECT_EQ(bill.bytes_in, 15u);
    EXPECT_GT(bill.function_time, absl::ZeroDuration());
  }
}

TEST_P(UsageTest, TheEndOfALeaseDoesNotWaitForAFunctionThatRunsOn) {
  Serve(absl::Microseconds(100));
  BillingHost host(served_->worker.get());
  bootstrap::ServerOptions options;
  options.listen = "127.0.0.1:0";
  auto server = bootstrap::Server::Start(options, &host);
  ASSERT_TRUE(server.ok()) << server.status();
  auto other = Client::Connect((*server)->listen_address(), WithLeaseOfItsOwn(1));
  ASSERT_TRUE(other.ok()) << other.status();
  const uint64_t others = host.NewestLease();
  auto client = Client::Connect((*server)->listen_address(), Patient());
  ASSERT_TRUE(client.ok()) << client.status();
  const uint64_t lease = host.NewestLease();
  ASSERT_NE(lease, others);
  Future future = (*client)->InvokeAsync(Find(**client, "gate"), std::string());
  served_->functions.entered.WaitForNotification();
  // These return while it runs, which is as long as this test wants.
  EXPECT_EQ(served_->worker->CloseLease(others).calls, 0u);
  EXPECT_EQ(served_->worker->CloseLease(lease).calls, 0u);
  served_->functions.open.Notify();
  ASSERT_TRUE(WaitUntil([&] { return served_->worker->Counters().live_sessions == 0; }));
  // What is late has come to its end, and the next bill is complete again.
  auto next = Client::Connect((*server)->listen_address(), Patient());
  ASSERT_TRUE(next.ok()) << next.status();
  ASSERT_TRUE((*next)->Invoke(Find(**next, "echo"), std::string("x")).ok());
  EXPECT_EQ(served_->worker->CloseLease(host.NewestLease()).calls, 1u);
  // Its answer has left before its session was closed, or has not.
  (*client)->Close();
  future.Get().status().IgnoreError();
}

TEST(TickScale, TicksBecomeTheClocksNanoseconds) {
  TickScale scale;
  const int64_t began_ns = transport::MonotonicNs();
  const uint64_t began = ReadTicks();
  while (transport::MonotonicNs() - began_ns < 5'000'000) {
  }
  const uint64_t ticks = ReadTicks() - began;
  const uint64_t passed_ns = static_cast<uint64_t>(transport::MonotonicNs() - began_ns);
  scale.Refine(ReadTicks());
  EXPECT_LE(scale.ToNs(ticks), passed_ns + passed_ns / 100);
  EXPECT_GE(scale.ToNs(ticks), 4'900'000u);
  EXPECT_EQ(scale.ToNs(static_cast<uint64_t>(-5)), 0u);
}

}  // namespace
}  // namespace invoker
