// A thousand leases whose client or executor is killed, and what the server has afterwards.

#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "tests/lease/leased_server.h"

namespace invoker {
namespace {

constexpr int kLeases = 1000;
constexpr int kSessionEvery = 20;  // a session costs its client the start of its fabrics

class ManyLeasesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = StartLeasedServer("shm,tcp;ofi_rxm", 2);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto client = bootstrap::BootstrapClient::Connect(server_->address(), kPatience);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  // A client process that is killed.
  void KillClient(bool session) {
    auto holder = StartHolder(server_->address(), session ? "session" : "none");
    ASSERT_TRUE(holder.ok()) << holder.status();
    for (const pid_t pid : Executors()) seen_.insert(pid);
    KillHolder(holder->get());
  }

  // An executor's process that is killed.
  void KillExecutor() {
    bootstrap::LeaseTerms terms;
    terms.executors = 1;
    terms.wait = kPatience;
    absl::Notification lost;
    absl::Status why;
    bootstrap::LeaseEvents events;
    events.on_lost = [&](absl::Status status) {
      why = std::move(status);
      lost.Notify();
    };
    ASSERT_TRUE(Eventually([&] { return Executors().empty(); }));
    auto lease = bootstrap::Lease::Acquire(client_.get(), terms, events, kPatience);
    ASSERT_TRUE(lease.ok()) << lease.status();
    for (const pid_t pid : Executors()) {
      seen_.insert(pid);
      kill(pid, SIGKILL);
    }
    ASSERT_TRUE(lost.WaitForNotificationWithTimeout(kPatience));
    EXPECT_EQ(why.code(), absl::StatusCode::kAborted) << why;
  }

  std::set<pid_t> Executors() const {
    std::set<pid_t> executors = DescendantsOf(server_->pid());
    for (const pid_t pid : always_) executors.erase(pid);
    return executors;
  }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<bootstrap::BootstrapClient> client_;
  std::set<pid_t> always_;  // the server's processes without any lease
  std::set<pid_t> seen_;    // executors
};

TEST_F(ManyLeasesTest, LeaveNothingBehind) {
  // The template; the executor that has proven that one comes up is about to go.
  ASSERT_TRUE(Eventually([&] {
    always_ = DescendantsOf(server_->pid());
    return always_.size() == 1;
  }));
  // What is opened once and kept is open afterwards.
  ASSERT_NO_FATAL_FAILURE(KillClient(/*session=*/true));
  ASSERT_NO_FATAL_FAILURE(KillExecutor());
  ASSERT_TRUE(Eventually([&] { return Executors().empty(); }));
  std::map<pid_t, size_t> descriptors;
  for (const pid_t pid : always_) descriptors[pid] = DescriptorsOf(pid);
  descriptors[server_->pid()] = DescriptorsOf(server_->pid());

  for (int i = 0; i < kLeases; ++i) {
    if (i % 2 == 0) {
      ASSERT_NO_FATAL_FAILURE(KillClient(/*session=*/i % kSessionEvery == 0)) << i;
    } else {
      ASSERT_NO_FATAL_FAILURE(KillExecutor()) << i;
    }
  }

  EXPECT_TRUE(Eventually([&] { return Executors().empty(); }));
  EXPECT_EQ(DescendantsOf(server_->pid()), always_);
  for (const auto& [pid, before] : descriptors) {
    EXPECT_TRUE(Eventually([pid = pid, before = before] { return DescriptorsOf(pid) <= before; }))
        << pid << " had " << before << ", has " << DescriptorsOf(pid);
  }
  EXPECT_GE(seen_.size(), size_t{kLeases / 2});
  for (const pid_t pid : seen_) {
    EXPECT_TRUE(SharedMemoryOf(pid).empty()) << "of executor " << pid;
  }
  const auto info = client_->GetWorkerInfo(kPatience);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->capacity.free_cores, 2u);
  EXPECT_EQ(info->capacity.free_memory_bytes, info->capacity.memory_bytes);
  EXPECT_EQ(server_->Stop(), 0);
}

}  // namespace
}  // namespace invoker
