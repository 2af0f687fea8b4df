// Faults that cost calls and sessions, from seeds: whatever happens, every call ends and its caller
// is told the truth, no function runs twice, no byte is wrong, sessions without a fault go on, and
// nothing is left behind.
//
//   harmful_faults_test [--provider=NAME] [--plan=NAME[,NAME...]] [--seeds=A-B]

#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "src/invoke/connect/connection.h"
#include "src/invoke/session/driver/call_driver.h"
#include "tests/faults/faulty_fabric.h"
#include "tests/faults/faulty_world.h"

namespace invoker::faults {
namespace {

struct Options {
  std::string provider = "tcp;ofi_rxm";
  std::vector<std::string> plans = {"posts", "errors", "lost", "opening", "everything"};
  uint64_t first_seed = 1;
  uint64_t last_seed = 3;
};

Options& TheOptions() {
  static Options* const options = new Options;
  return *options;
}

constexpr int kClients = 6;
constexpr int kThreads = 2;       // for each client
constexpr int kCalls = 60;        // for each thread
constexpr size_t kGroup = 2;      // sessions of a group
constexpr int kGroupCalls = 120;  // for a group's only thread
constexpr size_t kMostCalls = 50000;
// A victim's calls end by it; the others' never do.
constexpr absl::Duration kShort = absl::Milliseconds(300);
constexpr absl::Duration kLong = absl::Seconds(120);
constexpr int kAttempts = 5;  // to connect

// Whether something has become true while others run; false if that takes longer than any healthy
// run does.
template <typename Condition>
bool Eventually(const Condition& condition) {
  const absl::Time give_up = absl::Now() + absl::Seconds(90);
  while (!condition()) {
    if (absl::Now() > give_up) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

// Includes seeds that came before: what has been made of connections that were not of the plain
// kind.
struct Seen {
  int leases = 0;
  int groups = 0;
  int tagged = 0;
  int send_after_write = 0;

  void Add(const Client& client) {
    if (client.data_auth() != DataAuth::kOff) ++tagged;
    if (client.notification() == Notification::kSendAfterWrite) ++send_after_write;
  }
};

bool HasVictim(const Client& client) {
  return IsVictim(client.connection().driver()->reactor().address());
}

FaultyWorld::Kind KindOf(uint64_t number) {
  return {static_cast<DataAuth>(number % 3), /*send_after_write=*/number % 2 == 1};
}

// Who makes calls, and what it has its session by.
class Caller {
 public:
  explicit Caller(std::unique_ptr<Client> client)
      : own_(std::move(client)), is_victim_(HasVictim(*own_)) {}
  explicit Caller(std::unique_ptr<Lease> lease)
      : lease_(std::move(lease)), is_victim_(HasVictim(lease_->executor(0))) {}

  Client* client() const { return lease_ == nullptr ? own_.get() : &lease_->executor(0); }
  bool is_leased() const { return lease_ != nullptr; }
  bool is_victim() const { return is_victim_; }

 private:
  std::unique_ptr<Client> own_;
  std::unique_ptr<Lease> lease_;
  bool is_victim_;
};

// One attempt. Every fourth has a lease.
absl::StatusOr<Caller> NewCaller(FaultyWorld* world, uint64_t number) {
  if (number % 4 == 0) {
    absl::StatusOr<std::unique_ptr<Lease>> lease = world->Acquire(KindOf(number));
    if (!lease.ok()) return lease.status();
    return Caller(*std::move(lease));
  }
  absl::StatusOr<std::unique_ptr<Client>> client = world->Connect(KindOf(number));
  if (!client.ok()) return client.status();
  return Caller(*std::move(client));
}

// Every cell of both windows is free: a message that takes all of them gets through, once those of
// calls that were cancelled are back.
void ExpectAllCellsFree(Client* client, CallBook* book) {
  const absl::StatusOr<RemoteFunction> function = client->Function("count");
  ASSERT_TRUE(function.ok()) << function.status();
  std::string input(client->max_payload(), 'w');
  absl::Status status;
  EXPECT_TRUE(Eventually([&] {
    const uint64_t number = book->Next();
    memcpy(&input[0], &number, sizeof(number));
    const absl::StatusOr<Response> response = client->Invoke(*function, input);
    status = response.status();
    book->End(number, status);
    if (response.ok()) {
      EXPECT_EQ(response->text(), AnswerTo(input));
    }
    return !absl::IsResourceExhausted(status);
  }));
  EXPECT_TRUE(status.ok()) << status;
}

void RunSeed(const FaultPlan& plan, uint64_t seed, bool look_for_leaks, Seen* seen) {
  CallBook book(kMostCalls);
  const bool is_shm = TheOptions().provider == "shm";
  // On shm a client that has failed, and so takes no part any more, holds up the completions of
  // operations to all others: its provider completes in the order of the posts
  // (docs/design/libfabric.md). Short calls need no completion; transfers do.
  const bool others_have_bulk =
      plan.registration_fails == 0 && plan.map_fails == 0 && !(is_shm && plan.victims > 0);
  if (is_shm) CloseLater();
  {
    FaultyWorld world(TheOptions().provider, &book);
    // Opened before the faults begin, and the worker's endpoint with it: no victims.
    absl::StatusOr<std::unique_ptr<Client>> first = world.Connect({});
    ASSERT_TRUE(first.ok()) << first.status();
    Arm(plan, seed);
    std::vector<Caller> callers;
    callers.emplace_back(*std::move(first));
    for (int i = 0; i < kAttempts * kClients && callers.size() < kClients; ++i) {
      absl::StatusOr<Caller> caller = NewCaller(&world, seed + callers.size());
      if (caller.ok()) callers.push_back(*std::move(caller));
    }
    std::unique_ptr<ClientGroup> group;
    for (int i = 0; i < kAttempts && group == nullptr; ++i) {
      auto connected = world.ConnectGroup(KindOf(seed), kGroup);
      if (connected.ok()) group = *std::move(connected);
    }
    size_t victims = 0;
    std::vector<std::thread> threads;
    for (size_t i = 0; i < callers.size(); ++i) {
      const Caller& caller = callers[i];
      seen->Add(*caller.client());
      if (caller.is_leased()) ++seen->leases;
      if (caller.is_victim()) ++victims;
      for (int t = 0; t < kThreads; ++t) {
        CallMix mix;
        mix.calls = kCalls;
        mix.seed = seed * 100 + i * kThreads + t;
        mix.deadline = caller.is_victim() ? kShort : kLong;
        // What is lost without a deadline is noticed, and ends with its session.
        const bool waits_for_ever = t == 1 && seed % 2 == 0;
        if (caller.is_victim() && waits_for_ever) mix.deadline = absl::InfiniteDuration();
        mix.must_succeed = !caller.is_victim();
        mix.bulk = caller.is_victim() || others_have_bulk;
        threads.emplace_back(
            [&book, mix, client = caller.client()] { MakeCalls(client, mix, &book); });
      }
    }
    bool group_has_victim = false;
    if (group != nullptr) {
      ++seen->groups;
      for (size_t i = 0; i < group->size(); ++i) {
        if (!HasVictim(group->client(i))) continue;
        group_has_victim = true;
        ++victims;
      }
      CallMix mix;
      mix.calls = kGroupCalls;
      mix.seed = seed * 100 + 99;
      mix.deadline = group_has_victim ? kShort : kLong;
      mix.must_succeed = !group_has_victim;
      threads.emplace_back([&book, mix, &group] { MakeGroupCalls(group.get(), mix, &book); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Caller& caller : callers) {
      if (!caller.is_victim()) ExpectAllCellsFree(caller.client(), &book);
    }
    for (size_t i = 0; group != nullptr && !group_has_victim && i < group->size(); ++i) {
      ExpectAllCellsFree(&group->client(i), &book);
    }
    group.reset();
    callers.erase(callers.begin() + 1, callers.end());
    EXPECT_TRUE(Eventually([&] { return world.worker().Counters().live_sessions == 1; }));
    Disarm();
    if (look_for_leaks) {
      // What ended sessions had is retired first, and let go of after a while. On shm the provider
      // keeps operations to a victim that ended without taking them, all that it completes behind
      // those, whomever they were for, and so the addresses of either.
      const bool may_keep = is_shm && victims > 0;
      ExecutorCounters counters;
      EXPECT_TRUE(Eventually([&] {
        counters = world.worker().Counters();
        return counters.peers - counters.peers_kept == 1 && counters.regions == 1 &&
               (may_keep || counters.peers_kept == 0);
      })) << counters.peers
          << " peers, of which kept " << counters.peers_kept << "; " << counters.regions
          << " regions";
      std::printf("  %llu peers kept, %zu victims\n",
                  static_cast<unsigned long long>(counters.peers_kept), victims);
    }
    callers.clear();
    world.Stop();
  }
  CloseNow();
  const std::vector<std::string> violations = book.Close();
  EXPECT_TRUE(violations.empty()) << absl::StrJoin(violations, "\n");
  const OpenObjects open = Open();
  if (is_shm) {
    EXPECT_EQ(open.regions, 0);
    EXPECT_EQ(open.addresses, 0);
    EXPECT_EQ(open.endpoints, 0);
    EXPECT_EQ(open.queues, 0);
    EXPECT_EQ(open.vectors, 0);
  }
  std::printf("  %llu calls, %llu of them with an answer\n",
              static_cast<unsigned long long>(book.ended()),
              static_cast<unsigned long long>(book.ended_well()));
}

TEST(HarmfulFaults, CostOnlyWhatTheyHit) {
  const Options& options = TheOptions();
  for (const std::string& name : options.plans) {
    const std::optional<FaultPlan> plan = FindPlan(name);
    ASSERT_TRUE(plan.has_value()) << name << ": one of " << absl::StrJoin(PlanNames(), ", ");
    const FaultCounts before = Given();
    Seen seen;
    for (uint64_t seed = options.first_seed; seed <= options.last_seed; ++seed) {
      const std::string again =
          absl::StrCat("bazel run //tests/faults:harmful_faults -- '--provider=", options.provider,
                       "' --plan=", name, " --seeds=", seed, "-", seed);
      std::printf("%s\n", again.c_str());
      std::fflush(stdout);
      RunSeed(*plan, seed, name == options.plans.back() && seed == options.last_seed, &seen);
      if (HasFailure()) FAIL() << "repeat it with: " << again;
    }
    const FaultCounts after = Given();
    EXPECT_GT(after.harmful(), before.harmful()) << "plan " << name << " did nothing";
    EXPECT_GT(seen.leases, 0) << name;
    EXPECT_GT(seen.groups, 0) << name;
    EXPECT_GT(seen.tagged, 0) << name;
    // On shm none would end by itself (FaultyWorld).
    if (options.provider != "shm") {
      EXPECT_GT(seen.send_after_write, 0) << name;
    }
  }
  std::printf("given: %s\n", Given().Text().c_str());
}

bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--provider=")) {
      options->provider = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--plan=")) {
      options->plans = absl::StrSplit(argument, ',');
    } else if (absl::ConsumePrefix(&argument, "--seeds=")) {
      const std::pair<std::string, std::string> range = absl::StrSplit(argument, '-');
      if (!absl::SimpleAtoi(range.first, &options->first_seed) ||
          !absl::SimpleAtoi(range.second, &options->last_seed)) {
        return false;
      }
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace invoker::faults

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!invoker::faults::Parse(argc, argv, &invoker::faults::TheOptions())) {
    std::fprintf(stderr, "usage: %s [--provider=NAME] [--plan=NAME[,NAME...]] [--seeds=A-B]\n",
                 argv[0]);
    return 2;
  }
  return RUN_ALL_TESTS();
}
