// One lease with several sessions.

#include "src/invoke/connect/client_lease.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "invoker/lease.h"
#include "src/bootstrap/service/server.h"
#include "src/invoke/worker/worker.h"
#include "tests/invoke/leasing_host.h"
#include "tests/invoke/served_client.h"

namespace invoker {
namespace {

constexpr uint32_t kSessions = 4;
// Generous: reached only when a test fails.
constexpr absl::Duration kPatience = absl::Seconds(60);
// For which a question waits for the others. Clients wait for the answer for longer.
constexpr absl::Duration kHeld = absl::Milliseconds(500);

// Leases the worker's executors as if they were the lease's own, and holds questions until there
// are as many at a time as sessions.
class QuestionHost final : public LeasingHost {
 public:
  using LeasingHost::LeasingHost;

  // Whether there have been.
  bool AwaitAll() {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&all_), kPatience);
  }

  void OpenLease(uint64_t, const LeaseTerms& terms,
                 std::shared_ptr<LeaseObserver> observer) override {
    LeaseTerms granted = terms;
    granted.memory_bytes = 64 << 20;  // windows are part of it
    observer->OnGranted(granted);
  }
  absl::StatusOr<bootstrap::RequestState> FindRequest(uint64_t, uint64_t, uint64_t) override {
    absl::MutexLock lock(&mutex_);
    all_ |= ++questions_ == kSessions;
    mutex_.AwaitWithTimeout(absl::Condition(&all_), kHeld);
    --questions_;
    return bootstrap::RequestState::kInHand;
  }

 private:
  absl::Mutex mutex_;
  uint32_t questions_ ABSL_GUARDED_BY(mutex_) = 0;  // that wait now
  bool all_ ABSL_GUARDED_BY(mutex_) = false;
};

// A worker with `executors` executors.
absl::StatusOr<std::unique_ptr<Worker>> StartWorker(TestFunctions* functions, uint32_t executors) {
  WorkerOptions options;
  options.providers = {"tcp;ofi_rxm"};
  options.addresses.preferred_ip = "127.0.0.1";
  options.executors = executors;
  options.executor.hot_timeout = absl::Microseconds(100);
  return Worker::Start(options, MakeTestFunctions(functions));
}

absl::StatusOr<std::unique_ptr<bootstrap::Server>> Serve(QuestionHost* host) {
  bootstrap::ServerOptions options;
  options.listen = "127.0.0.1:0";
  return bootstrap::Server::Start(options, host);
}

// One that takes its time does not keep the others' paths from being looked at.
TEST(ClientLeaseTest, AsksForAllOfItsSessionsAtTheSameTime) {
  TestFunctions functions;
  auto worker = StartWorker(&functions, kSessions);
  ASSERT_TRUE(worker.ok()) << worker.status();
  QuestionHost host(worker->get());
  auto server = Serve(&host);
  ASSERT_TRUE(server.ok()) << server.status();
  LeaseOptions terms;
  terms.executors = kSessions;
  terms.client.hot_timeout = absl::Microseconds(50);
  // Questions are asked after a while, and all of them at the same look.
  terms.client.peer_timeout = absl::Seconds(3);
  auto lease = Lease::Acquire((*server)->listen_address(), terms);
  ASSERT_TRUE(lease.ok()) << lease.status();
  std::vector<Future> calls;
  for (uint32_t i = 0; i < kSessions; ++i) {
    calls.push_back((*lease)->executor(i).InvokeAsync(Find((*lease)->executor(i), "gate"), ""));
  }
  EXPECT_TRUE(host.AwaitAll());
  functions.open.Notify();
  for (Future& call : calls) EXPECT_TRUE(call.Get().ok());
  EXPECT_TRUE((*lease)->Release().ok());
  (*server)->Stop();
}

// The end of the lease comes by TCP, too, but by another connection than the answers.
TEST(ClientLeaseTest, WaitsForAnswersThatComeLaterThanTheEndOfAWorkerThatHasDrained) {
  TestFunctions functions;
  auto worker = StartWorker(&functions, 1);
  ASSERT_TRUE(worker.ok()) << worker.status();
  QuestionHost host(worker->get());
  auto server = Serve(&host);
  ASSERT_TRUE(server.ok()) << server.status();
  LeaseOptions terms;
  terms.client.peer_timeout = kPatience;
  auto lease = Lease::Acquire((*server)->listen_address(), terms);
  ASSERT_TRUE(lease.ok()) << lease.status();
  Client& client = (*lease)->executor(0);
  Future call = client.InvokeAsync(Find(client, "gate"), "");
  functions.entered.WaitForNotification();
  (*server)->Drain("the server is stopping");
  std::thread stop([&] { (*server)->Stop(); });
  while (!(*lease)->end().has_value()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_FALSE(call.Wait(absl::Milliseconds(100)));
  functions.open.Notify();
  const auto answer = call.Get();
  EXPECT_TRUE(answer.ok()) << answer.status();
  stop.join();
}

}  // namespace
}  // namespace invoker
