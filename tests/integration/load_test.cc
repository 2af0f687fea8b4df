// More than a worker can take at once: of sessions, of calls, of memory. What is measured is
// counted, in calls and bytes, so that it holds on a machine of any speed.

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/fabric_test.h"
#include "tests/integration/random_calls.h"
#include "tests/integration/rendezvous.h"

namespace invoker {
namespace {

constexpr uint64_t kKilobyte = 1024;

class LoadTest : public FabricTest {
 protected:
  // A client whose windows have a cell for each of that many small calls.
  std::unique_ptr<Client> ConnectFor(const ServerProcess* server, uint64_t calls) {
    ClientOptions options;
    options.window_bytes = 4096;
    while (options.window_bytes / 64 < calls) options.window_bytes *= 2;
    return Connect(server, options);
  }
};

// A field of /proc/PID/status, in bytes.
uint64_t MemoryOf(const ServerProcess& server, const std::string& field) {
  std::ifstream status(absl::StrCat("/proc/", server.pid(), "/status"));
  std::string line;
  while (std::getline(status, line)) {
    uint64_t kilobytes = 0;
    if (absl::StartsWith(line, field + ":") &&
        absl::SimpleAtoi(line.substr(field.size() + 1, line.rfind(" kB") - field.size() - 1),
                         &kilobytes)) {
      return kilobytes * kKilobyte;
    }
  }
  ADD_FAILURE() << "no " << field << " of process " << server.pid();
  return 0;
}

CallOptions Small() {
  CallOptions options;
  options.response_capacity = 16;
  return options;
}

// Calls of one session, so many of them under way at a time.
class Caller {
 public:
  Caller(Client* client, size_t depth)
      : client_(client), depth_(depth), echo_(FunctionNamed(*client, "test.echo")) {}

  void Fill() {
    while (under_way_.size() < depth_) {
      std::string input = absl::StrCat("call ", started_++);
      Future future = client_->InvokeAsync(echo_, input, Small());
      under_way_.push_back({std::move(input), std::move(future)});
    }
  }

  // Takes what has ended, in any order.
  void Harvest() {
    for (size_t i = 0; i < under_way_.size();) {
      if (!under_way_[i].future.Wait(absl::ZeroDuration())) {
        ++i;
        continue;
      }
      End(std::move(under_way_[i]));
      under_way_.erase(under_way_.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  void Drain() {
    for (UnderWay& call : under_way_) End(std::move(call));
    under_way_.clear();
  }

  uint64_t ended() const { return ended_; }
  const absl::Status& failure() const { return failure_; }

 private:
  struct UnderWay {
    std::string input;
    Future future;
  };

  void End(UnderWay call) {
    ++ended_;
    const absl::Status status =
        CheckAnswer({"test.echo", call.input, call.input}, call.future.Get());
    if (failure_.ok()) failure_ = status;
  }

  Client* client_;
  size_t depth_;
  RemoteFunction echo_;
  std::deque<UnderWay> under_way_;
  uint64_t started_ = 0;
  uint64_t ended_ = 0;
  absl::Status failure_;
};

// One thread gives every session the same chance; what differs is what the executor makes of it.
void RunUntil(absl::Span<Caller* const> callers, uint64_t calls) {
  uint64_t ended = 0;
  while (ended < calls) {
    ended = 0;
    for (Caller* caller : callers) {
      caller->Fill();
      caller->Harvest();
      ASSERT_TRUE(caller->failure().ok()) << caller->failure();
      ended += caller->ended();
    }
  }
}

TEST_P(LoadTest, SaturatedSessionsShareTheExecutor) {
  constexpr size_t kSessions = 6;
  // Many, beside what ends while one session's thread waits for a processor.
  constexpr uint64_t kCalls = 60'000;
  ServerProcess* server = StartServer();
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::unique_ptr<Caller>> callers;
  std::vector<Caller*> all;
  for (size_t i = 0; i < kSessions; ++i) {
    clients.push_back(ConnectFor(server, 256));
    ASSERT_NE(clients.back(), nullptr);
    callers.push_back(std::make_unique<Caller>(clients.back().get(), 64));
    all.push_back(callers.back().get());
  }
  ASSERT_NO_FATAL_FAILURE(RunUntil(all, kCalls));
  for (const std::unique_ptr<Caller>& caller : callers) {
    // Nobody starves, and nobody is served instead of the others. How even the shares are also
    // depends on when this process and the server have a processor.
    EXPECT_GE(caller->ended(), kCalls / kSessions / 10);
    caller->Drain();
    EXPECT_TRUE(caller->failure().ok()) << caller->failure();
  }
}

TEST_P(LoadTest, AFloodHoldsUpOthersNoLongerThanItsOwnBacklog) {
  constexpr uint64_t kBacklog = 1000;
  constexpr uint64_t kModestCalls = 21;
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> flooding = ConnectFor(server, kBacklog);
  const std::unique_ptr<Client> modest = ConnectFor(server, 64);
  ASSERT_TRUE(flooding != nullptr && modest != nullptr);
  Caller flood(flooding.get(), kBacklog);
  Caller one(modest.get(), 1);
  flood.Fill();
  uint64_t flooded_at_last = 0;
  std::vector<uint64_t> overtaken_by;  // each call of the modest one's
  while (one.ended() < kModestCalls) {
    const uint64_t before = one.ended();
    ASSERT_NO_FATAL_FAILURE(RunUntil({&flood, &one}, flood.ended() + one.ended() + 1));
    if (one.ended() == before) {
      ASSERT_LE(flood.ended() - flooded_at_last, 100 * kBacklog) << "it starves";
    } else {
      overtaken_by.push_back(flood.ended() - flooded_at_last);
      flooded_at_last = flood.ended();
    }
  }
  // Behind what lay in front of it, and what came while it was on its way. Of one that had to wait
  // for a processor in between, more.
  std::nth_element(overtaken_by.begin(), overtaken_by.begin() + kModestCalls / 2,
                   overtaken_by.end());
  EXPECT_LE(overtaken_by[kModestCalls / 2], 4 * kBacklog);
  flood.Drain();
  one.Drain();
  EXPECT_TRUE(flood.failure().ok()) << flood.failure();
}

// An executor that runs a function reads nothing: what is called meanwhile is more than its
// completion queue has room for, and more than its clients may post.
TEST_P(LoadTest, MoreCallsThanTheQueueHoldsAllRunOnce) {
  constexpr size_t kSessions = 3;
  constexpr uint64_t kEach = 4000;
  constexpr uint64_t kMostGrowth = 128 << 20;
  Rendezvous rendezvous;
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> holding = ConnectFor(server, 64);
  std::vector<std::unique_ptr<Client>> clients;
  for (size_t i = 0; i < kSessions; ++i) {
    clients.push_back(ConnectFor(server, kEach));
    ASSERT_NE(clients.back(), nullptr);
  }
  const uint64_t resident = MemoryOf(*server, "VmRSS");
  Future held = holding->InvokeAsync(FunctionNamed(*holding, "test.rendezvous"), rendezvous.path());
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  std::vector<std::vector<Future>> futures(kSessions);
  const RemoteFunction echo = FunctionNamed(*clients[0], "test.echo");
  for (uint64_t i = 0; i < kEach; ++i) {
    for (size_t c = 0; c < kSessions; ++c) {
      futures[c].push_back(clients[c]->InvokeAsync(echo, absl::StrCat(c, "/", i), Small()));
      // Each leaves by itself.
      EXPECT_FALSE(futures[c].back().Wait(absl::ZeroDuration()));
    }
  }
  rendezvous.Release();
  for (uint64_t i = 0; i < kEach; ++i) {
    for (size_t c = 0; c < kSessions; ++c) {
      const std::string text = absl::StrCat(c, "/", i);
      ASSERT_EQ(CheckAnswer({"test.echo", text, text}, futures[c][i].Get()), absl::OkStatus());
    }
  }
  EXPECT_TRUE(held.Get().ok());
  // A sanitizer keeps what has been freed.
  if (getenv("INVOKER_SANITIZER") == nullptr) {
    EXPECT_LT(MemoryOf(*server, "VmRSS"), resident + kMostGrowth);
  }
  for (std::unique_ptr<Client>& client : clients) client.reset();
}

TEST_P(LoadTest, ACallWithoutRoomWaitsOrIsRefused) {
  Rendezvous rendezvous;
  ServerProcess* server = StartServer();
  const std::unique_ptr<Client> client = ConnectFor(server, 64);
  ASSERT_NE(client, nullptr);
  Future held = client->InvokeAsync(FunctionNamed(*client, "test.rendezvous"), rendezvous.path());
  ASSERT_TRUE(rendezvous.WaitUntilRunning());
  const RemoteFunction echo = FunctionNamed(*client, "test.echo");
  std::vector<Future> futures;
  CallOptions options = Small();
  options.when_full = WhenFull::kFail;
  absl::Status refused;
  while (refused.ok()) {
    ASSERT_LT(futures.size(), 1000u);
    futures.push_back(client->InvokeAsync(echo, "x", options));
    // One that has not started has ended.
    if (futures.back().Wait(absl::ZeroDuration())) refused = futures.back().Get().status();
  }
  futures.pop_back();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(CallFateName(GetCallFate(refused)), "not_sent") << refused;
  EXPECT_GT(futures.size(), 10u);
  options.when_full = WhenFull::kWaitForCalls;
  options.timeout = absl::Milliseconds(10);
  const absl::Status late = client->Invoke(echo, "y", options).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << late;
  EXPECT_EQ(CallFateName(GetCallFate(late)), "not_sent") << late;
  rendezvous.Release();
  for (Future& future : futures) EXPECT_TRUE(future.Get().ok());
  EXPECT_TRUE(held.Get().ok());
  EXPECT_TRUE(client->Invoke(echo, "z", Small()).ok());
}

// What is left to the server is less than a session more needs, and enough for the rest of its
// work.
TEST_P(LoadTest, AServerWithoutMemoryRefusesFurtherSessionsAndServesThoseItHas) {
  if (const char* name = getenv("INVOKER_SANITIZER");
      name != nullptr && name == std::string("tsan")) {
    GTEST_SKIP() << "a sanitizer that ends when its own memory does not fit";
  }
  constexpr uint64_t kWindow = 256 << 20;
  // Each would set so much address space aside for every thread.
  setenv("MALLOC_ARENA_MAX", "1", /*replace=*/1);
  ServerProcessOptions options;
  options.window = "256M";
  ServerProcess* server = StartServer(options);
  unsetenv("MALLOC_ARENA_MAX");
  std::vector<std::unique_ptr<Client>> clients;
  clients.push_back(Connect(server));
  ASSERT_NE(clients.back(), nullptr);
  const uint64_t limit_bytes = MemoryOf(*server, "VmSize") + kWindow * 5 / 2;
  const rlimit limit = {limit_bytes, limit_bytes};
  ASSERT_EQ(prlimit(server->pid(), RLIMIT_AS, &limit, nullptr), 0) << strerror(errno);
  absl::Status refused;
  ClientOptions patient;
  patient.peer_timeout = absl::Seconds(5);
  while (refused.ok()) {
    ASSERT_LT(clients.size(), 3u);
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(server->address(), patient);
    refused = client.status();
    if (client.ok()) clients.push_back(*std::move(client));
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "memory")) << refused;
  EXPECT_EQ(clients.size(), 2u);
  for (const std::unique_ptr<Client>& client : clients) {
    EXPECT_EQ(MakeRandomCalls(client.get(), TestSeed(), 5, 10'000), absl::OkStatus());
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, LoadTest, BothProviders(), FabricName);

}  // namespace
}  // namespace invoker
