// Sessions of one endpoint take turns. The test's own thread drives the endpoint and rings, so that
// what runs when is exact: real clients write the requests, with doorbells of no session, and the
// test rings for them.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/invoke/executor/executor_endpoint.h"
#include "src/invoke/session/client_session.h"
#include "tests/invoke/served_client.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

constexpr uint64_t kWindow = 1 << 18;
constexpr int kQuantum = kQuantumCalls;

// A session whose requests lie in the executor's window, and of which the executor has not heard.
class Tenant {
 public:
  Tenant(ExecutorEndpoint* endpoint, const char* provider, uint8_t mark)
      : mark_(mark), reactor_(OpenReactor(provider)) {
    ClientSession::Options options;
    options.window_bytes = kWindow;
    auto session = ClientSession::Create(reactor_.get(), options);
    EXPECT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    reactor_->set_handler(session_.get());
    auto reply =
        endpoint->OpenSession(session_->MakeRequest(Notification::kWriteImm),
                              Notification::kWriteImm, *transport::HostBuffer::Allocate(kWindow),
                              *transport::HostBuffer::Allocate(kWindow), DataKeys(), nullptr);
    EXPECT_TRUE(reply.ok()) << reply.status();
    number_ = reply->request_session;
    // What it rings for is of a session that is not there.
    reply->request_session = static_cast<uint16_t>(number_ ^ 0x8000);
    EXPECT_TRUE(session_->Attach(*reply).ok());
  }

  // Starts a call of function 0 and returns its cell. With `joined`, it leaves in one write with
  // the one before, if it lies beside it.
  uint32_t Start(bool joined = false) {
    ClientSession::Request request;
    request.input = {reinterpret_cast<const std::byte*>(&mark_), 1};
    request.response_capacity = 16;
    if (!joined) session_->Flush();
    Call* call = session_->Start(request);
    EXPECT_NE(call, nullptr);
    calls_.push_back(call);
    return call->request.first;
  }
  std::vector<uint32_t> StartMany(int count, bool joined) {
    std::vector<uint32_t> cells;
    for (int i = 0; i < count; ++i) cells.push_back(Start(joined && i > 0));
    return cells;
  }

  uint32_t Token(uint32_t cell) const {
    return Immediate{MessageKind::kRequest, number_, static_cast<uint16_t>(cell)}.Encode();
  }
  uint16_t number() const { return number_; }
  const std::vector<Call*>& calls() const { return calls_; }
  ClientSession& session() { return *session_; }
  void Poll() {
    session_->Flush();
    reactor_->Poll();
  }
  bool all_ended() const {
    for (const Call* call : calls_) {
      if (!call->ended()) return false;
    }
    return true;
  }

 private:
  uint8_t mark_;
  std::unique_ptr<transport::Reactor> reactor_;
  std::unique_ptr<ClientSession> session_;
  uint16_t number_ = 0;
  std::vector<Call*> calls_;
};

class FairnessTest : public testing::TestWithParam<const char*> {
 protected:
  FairnessTest() {
    FunctionEntry log;
    log.name = "log";
    log.context = this;
    log.function = [](invoker_call* call) -> int64_t {
      auto* test = static_cast<FairnessTest*>(call->context);
      test->order_.push_back(*static_cast<const char*>(call->input));
      const int64_t end_ns = transport::MonotonicNs() + test->run_ns_;
      while (test->run_ns_ > 0 && transport::MonotonicNs() < end_ns) {
      }
      return 0;
    };
    EXPECT_TRUE(registry_.Add(log).ok());
    shared_.functions = &registry_;
    shared_.watch = &watch_;
    shared_.times = FunctionTimes(registry_.size());
    shared_.bulk_budget = std::make_shared<BulkBudget>();
    shared_.on_session_failed = [](SessionKey, const absl::Status& status) {
      ADD_FAILURE() << status;
    };
    port_ = std::make_unique<ExecutorEndpoint>(0, *DiscoverLoopback(GetParam()), &shared_, 1,
                                               transport::ReactorOptions());
    EXPECT_TRUE(port_->Open().ok());
  }
  ~FairnessTest() override {
    tenants_.clear();
    port_->EndAll();
  }

  Tenant* Add(char mark) {
    tenants_.push_back(
        std::make_unique<Tenant>(port_.get(), GetParam(), static_cast<uint8_t>(mark)));
    return tenants_.back().get();
  }

  // Lets what has been started get into the windows: all of it has been rung for, in vain.
  void Deliver(uint64_t writes) {
    const int64_t give_up = transport::MonotonicNs() + int64_t{60'000'000'000};
    while (watch_.dropped().unknown_session < writes && transport::MonotonicNs() < give_up) {
      for (const auto& tenant : tenants_) tenant->Poll();
      port_->Turn();
    }
    ASSERT_EQ(watch_.dropped().unknown_session, writes);
    ASSERT_EQ(order_, "");
  }

  void Ring(const Tenant& tenant, uint32_t cell) { port_->OnToken(tenant.Token(cell)); }

  // How many ran before the one with that mark, in whole turns.
  size_t RanBefore(char mark) {
    for (int turns = 0; order_.find(mark) == std::string::npos && turns < 10'000; ++turns) {
      port_->Turn();
    }
    return order_.find(mark);
  }

  bool Finish() {
    const int64_t give_up = transport::MonotonicNs() + int64_t{60'000'000'000};
    bool ended = false;
    while (!ended && transport::MonotonicNs() < give_up) {
      ended = true;
      port_->Turn();
      for (const auto& tenant : tenants_) {
        tenant->Poll();
        ended = ended && tenant->all_ended();
      }
    }
    return ended;
  }

  std::string order_;   // the marks of what has run
  int64_t run_ns_ = 0;  // how long each takes
  FunctionRegistry registry_;
  ExecutorWatch watch_;
  ExecutorShared shared_;
  std::unique_ptr<ExecutorEndpoint> port_;
  std::vector<std::unique_ptr<Tenant>> tenants_;
};

std::string Name(const testing::TestParamInfo<const char*>& info) { return NameOfProvider(info); }

INSTANTIATE_TEST_SUITE_P(Providers, FairnessTest, testing::Values("tcp;ofi_rxm", "shm"), Name);

TEST_P(FairnessTest, AChainIsLeftAfterItsQuantum) {
  Tenant* flood = Add('f');
  Tenant* modest = Add('m');
  const uint32_t chain = flood->StartMany(1000, /*joined=*/true).front();
  const uint32_t call = modest->Start();
  ASSERT_NO_FATAL_FAILURE(Deliver(2));
  Ring(*flood, chain);
  EXPECT_LE(order_.size(), size_t{kQuantum});
  Ring(*modest, call);
  // The flood's first quantum, and one more: it came first.
  EXPECT_LE(RanBefore('m'), 2 * size_t{kQuantum});
  EXPECT_TRUE(Finish());
  EXPECT_EQ(order_.size(), 1001u);
  for (const Call* each : flood->calls()) EXPECT_TRUE(each->status.ok()) << each->status;
}

TEST_P(FairnessTest, ManyDoorbellsAreLeftAfterAQuantum) {
  // Each leaves by itself as long as there is a slot for it.
  constexpr int kSingles = 400;
  Tenant* flood = Add('f');
  Tenant* modest = Add('m');
  const uint32_t chain = flood->StartMany(kQuantum + 1, /*joined=*/true).front();
  const std::vector<uint32_t> cells = flood->StartMany(kSingles, /*joined=*/false);
  const uint32_t call = modest->Start();
  ASSERT_NO_FATAL_FAILURE(Deliver(kSingles + 2));
  Ring(*flood, chain);
  for (const uint32_t cell : cells) Ring(*flood, cell);
  const size_t ran = order_.size();
  EXPECT_LE(ran, size_t{kQuantum});
  Ring(*modest, call);
  EXPECT_LE(RanBefore('m'), ran + kQuantum);
  EXPECT_TRUE(Finish());
  EXPECT_EQ(order_.size(), size_t{kQuantum + 1 + kSingles + 1});
}

// One that is slow is the last of its turn.
TEST_P(FairnessTest, SlowFunctionsEndATurnEarly) {
  Tenant* flood = Add('f');
  Tenant* modest = Add('m');
  const uint32_t chain = flood->StartMany(kQuantum, /*joined=*/true).front();
  const uint32_t call = modest->Start();
  ASSERT_NO_FATAL_FAILURE(Deliver(2));
  run_ns_ = kQuantumNs + 1;
  Ring(*flood, chain);
  EXPECT_EQ(order_, "f");
  Ring(*modest, call);
  EXPECT_LE(RanBefore('m'), 2u);
  EXPECT_TRUE(Finish());
}

// Each session with work has a quantum, and a new call waits for one of each.
TEST_P(FairnessTest, SessionsTakeTurns) {
  constexpr int kFloods = 4;
  constexpr int kEach = 300;
  std::vector<Tenant*> floods;
  std::vector<uint32_t> chains;
  for (int i = 0; i < kFloods; ++i) {
    floods.push_back(Add(static_cast<char>('0' + i)));
    chains.push_back(floods[i]->StartMany(kEach, /*joined=*/true).front());
  }
  Tenant* modest = Add('m');
  const uint32_t call = modest->Start();
  ASSERT_NO_FATAL_FAILURE(Deliver(kFloods + 1));
  for (int i = 0; i < kFloods; ++i) Ring(*floods[i], chains[i]);
  const size_t ran = order_.size();
  Ring(*modest, call);
  EXPECT_LE(RanBefore('m'), ran + kFloods * kQuantum);
  EXPECT_TRUE(Finish());
  // From then on, while all have work, each comes after all the others, for a quantum at most. For
  // less where the thread was away: time counts too.
  std::vector<int> runs(kFloods);
  std::vector<int> turn(1);  // who has had how much of which turn, the last one last
  std::string turns(1, 'm');
  bool all_have_work = true;
  for (size_t i = 0; i < order_.size(); ++i) {
    const char mark = order_[i];
    if (mark != 'm') all_have_work = ++runs[mark - '0'] < kEach && all_have_work;
    if (i <= order_.find('m') || !all_have_work) continue;
    if (turns.back() == mark) {
      EXPECT_LE(++turn.back(), kQuantum);
      continue;
    }
    turns.push_back(mark);
    turn.push_back(1);
    if (turns.size() > kFloods + 1) {
      EXPECT_EQ(mark, turns[turns.size() - 1 - kFloods]) << turns;
    }
  }
  EXPECT_GT(turns.size(), size_t{2 * kFloods});
  EXPECT_EQ(runs, std::vector<int>(kFloods, kEach));
}

TEST_P(FairnessTest, OneSessionKeepsItsOrder) {
  Tenant* only = Add('a');
  const std::vector<uint32_t> cells = only->StartMany(200, /*joined=*/true);
  const std::vector<uint32_t> later = only->StartMany(50, /*joined=*/false);
  ASSERT_NO_FATAL_FAILURE(Deliver(51));
  Ring(*only, cells.front());
  for (const uint32_t cell : later) Ring(*only, cell);
  EXPECT_TRUE(Finish());
  EXPECT_EQ(order_.size(), 250u);
  const ExecutorCounters counters = port_->Counters();
  EXPECT_EQ(counters.executed, 250u);
}

TEST_P(FairnessTest, WhatWaitsIsInHandAndEndsWithItsSession) {
  Tenant* flood = Add('f');
  Tenant* modest = Add('m');
  const uint32_t chain = flood->StartMany(1000, /*joined=*/true).front();
  const uint32_t call = modest->Start();
  ASSERT_NO_FATAL_FAILURE(Deliver(2));
  Ring(*flood, chain);
  Ring(*modest, call);
  const SessionKey key = {modest->number(), shared_.next_epoch - 1, 0};
  ASSERT_NE(port_->Find(key), nullptr);
  EXPECT_EQ(port_->Find(key)->FindRequest(modest->calls()[0]->sequence),
            bootstrap::RequestState::kInHand);
  EXPECT_TRUE(port_->finishing());
  port_->EndSession(modest->number());
  port_->EndSession(flood->number());
  const size_t ran = order_.size();
  for (int i = 0; i < 10; ++i) port_->Turn();
  EXPECT_EQ(order_.size(), ran);
  EXPECT_EQ(order_.find('m'), std::string::npos);
}

TEST_P(FairnessTest, WhatWaitsIsRefusedByAWorkerThatDrains) {
  Tenant* flood = Add('f');
  Tenant* modest = Add('m');
  const uint32_t chain = flood->StartMany(200, /*joined=*/true).front();
  const uint32_t call = modest->Start();
  ASSERT_NO_FATAL_FAILURE(Deliver(2));
  Ring(*flood, chain);
  Ring(*modest, call);
  const size_t ran = order_.size();
  shared_.draining = true;
  EXPECT_TRUE(Finish());
  EXPECT_EQ(order_.size(), ran);
  EXPECT_EQ(port_->Counters().refused, 201 - ran);
  for (const Call* refused : {flood->calls().back(), modest->calls().front()}) {
    EXPECT_EQ(GetCallFate(refused->status), CallFate::kNotExecuted) << refused->status;
  }
}

// Doorbells that anybody may forge take no room from those that are real.
TEST_P(FairnessTest, ForgedDoorbellsOfAWaitingSessionLoseNoneOfItsCalls) {
  Tenant* flood = Add('f');
  Tenant* modest = Add('m');
  const uint32_t chain = flood->StartMany(kQuantum + 1, /*joined=*/true).front();
  const uint32_t call = modest->Start();
  ASSERT_NO_FATAL_FAILURE(Deliver(2));
  Ring(*flood, chain);
  for (int round = 0; round < 3; ++round) {
    for (uint32_t cell = 0; cell < kMaxCells; ++cell) Ring(*modest, cell);
  }
  Ring(*modest, call);
  EXPECT_TRUE(Finish());
  EXPECT_EQ(std::count(order_.begin(), order_.end(), 'm'), 1);
}

}  // namespace
}  // namespace invoker
