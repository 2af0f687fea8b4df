// A thousand leases whose client or executor is killed, each with a session and a call over it, and
// what the server, which is this process, has afterwards.

#include <gtest/gtest.h>

#include <fstream>
#include <ostream>
#include <set>
#include <string>

#include "tests/lease/in_process_server.h"
#include "tests/lease/leased_server.h"

namespace invoker {
namespace {

constexpr char kTcp[] = "tcp;ofi_rxm";
constexpr char kShm[] = "shm";
constexpr int kRounds = 100;          // each a client that is killed, after some of its executors
constexpr int kLeasesOfAClient = 10;  // one executor each, beside a session with a shared one
constexpr int kKilledExecutors = 5;
// Each client's session has windows of 4 MiB here, of which few pages are touched; allocators keep
// some memory for later.
constexpr uint64_t kMoreMemory = 48 << 20;

// Lines of /proc/PID/maps that name files in shared memory: this process's endpoints, and on shm
// its peers', for as long as they are in the address vector.
int SharedMappings(pid_t pid) {
  int count = 0;
  std::ifstream maps(absl::StrCat("/proc/", pid, "/maps"));
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/dev/shm/") != std::string::npos) ++count;
  }
  return count;
}

uint64_t ResidentBytes(pid_t pid) {
  std::ifstream statm(absl::StrCat("/proc/", pid, "/statm"));
  uint64_t total = 0;
  uint64_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// What a killed client must leave as it was.
struct Held {
  std::set<pid_t> processes;
  size_t descriptors = 0;           // this process's
  size_t template_descriptors = 0;  // the template's that executors are forked from
  int shared_mappings = 0;
  uint64_t sessions = 0;  // the shared executors'
  uint64_t peers = 0;     // in their address vectors
  uint64_t regions = 0;   // that peers may write to
  uint32_t free_cores = 0;
  uint64_t free_memory = 0;

  bool NoMoreThan(const Held& other) const {
    return processes == other.processes && descriptors <= other.descriptors &&
           template_descriptors <= other.template_descriptors &&
           shared_mappings <= other.shared_mappings && sessions <= other.sessions &&
           peers <= other.peers && regions <= other.regions && free_cores == other.free_cores &&
           free_memory == other.free_memory;
  }
};

std::ostream& operator<<(std::ostream& out, const Held& held) {
  return out << held.processes.size() << " processes, " << held.descriptors << " and "
             << held.template_descriptors << " descriptors, " << held.shared_mappings
             << " mappings of shared memory, " << held.sessions << " sessions, " << held.peers
             << " peers, " << held.regions << " regions, " << held.free_cores << " cores and "
             << held.free_memory << " bytes free";
}

class ManyLeasesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = InProcessServer::Start({kShm, kTcp}, kLeasesOfAClient);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    // The executor that has proven that one comes up is about to go.
    ASSERT_TRUE(Eventually([this] {
      always_ = DescendantsOf(getpid());
      return always_.size() == 1;
    }));
  }

  // A client takes its leases over `fabric` and calls each of their executors; some executors are
  // killed, and then the client is.
  void Round(const char* fabric) {
    ChildProcess::Options options;
    options.command = {"tests/lease/lease_holder", server_->address(), "many", fabric,
                       absl::StrCat(kLeasesOfAClient)};
    auto holder = StartHolder(options);
    ASSERT_TRUE(holder.ok()) << holder.status();
    const pid_t client = (*holder)->pid();
    std::set<pid_t> executors = DescendantsOf(getpid());
    executors.erase(client);
    for (const pid_t pid : always_) executors.erase(pid);
    ASSERT_EQ(executors.size(), size_t{kLeasesOfAClient});
    ASSERT_EQ(server_->Info().capacity.free_cores, 0u);
    const int lost = server_->lost();
    int killed = 0;
    for (const pid_t pid : executors) {
      if (killed++ < kKilledExecutors) kill(pid, SIGKILL);
    }
    ASSERT_TRUE(Eventually([&] { return server_->lost() == lost + kKilledExecutors; }));
    KillHolder(holder->get());
    ASSERT_TRUE(Eventually([this] { return DescendantsOf(getpid()) == always_; }));
    for (const pid_t pid : executors) {
      EXPECT_TRUE(SharedMemoryOf(pid).empty()) << "of executor " << pid;
    }
  }

  Held Look() {
    const ExecutorCounters counters = server_->worker().Counters();
    const bootstrap::Capacity capacity = server_->Info().capacity;
    Held held;
    held.processes = DescendantsOf(getpid());
    held.descriptors = DescriptorsOf(getpid());
    held.template_descriptors = DescriptorsOf(*always_.begin());
    held.shared_mappings = SharedMappings(getpid());
    held.sessions = counters.live_sessions;
    held.peers = counters.peers;
    held.regions = counters.regions;
    held.free_cores = capacity.free_cores;
    held.free_memory = capacity.free_memory_bytes;
    return held;
  }
  // Without sessions, peers and windows that are only kept until nothing can reach them any more.
  Held LookWhenSettled() {
    Held held;
    EXPECT_TRUE(Eventually([&] {
      held = Look();
      return held.sessions == 0 && held.peers == 0 && held.regions == 0;
    })) << held;
    return held;
  }

  std::unique_ptr<InProcessServer> server_;
  std::set<pid_t> always_;  // without any lease: the template
};

TEST_F(ManyLeasesTest, LeaveNothingBehind) {
  // What is opened once and kept is open afterwards.
  ASSERT_NO_FATAL_FAILURE(Round(kTcp));
  ASSERT_NO_FATAL_FAILURE(Round(kShm));
  const Held before = LookWhenSettled();
  const uint64_t memory = ResidentBytes(getpid());
  const uint64_t template_memory = ResidentBytes(*always_.begin());
  const int lost = server_->lost();

  for (int round = 0; round < kRounds; ++round) {
    ASSERT_NO_FATAL_FAILURE(Round(round % 2 == 0 ? kTcp : kShm)) << round;
  }

  Held after;
  EXPECT_TRUE(Eventually([&] { return (after = Look()).NoMoreThan(before); }))
      << "before: " << before << "; after: " << after;
  // A sanitizer keeps what has been freed.
  if (getenv("INVOKER_SANITIZER") == nullptr) {
    EXPECT_LE(ResidentBytes(getpid()), memory + kMoreMemory);
    EXPECT_LE(ResidentBytes(*always_.begin()), template_memory + kMoreMemory);
  }
  EXPECT_EQ(server_->lost(), lost + kRounds * kKilledExecutors);
  // The shared executors have run one call of each client, and the book has every lease's end.
  EXPECT_EQ(server_->worker().Counters().executed, uint64_t{kRounds + 2});
  for (const bootstrap::UsageRecord& record : server_->book().Records("")) {
    EXPECT_FALSE(record.open) << record.lease;
  }
}

}  // namespace
}  // namespace invoker
