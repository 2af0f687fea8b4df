// Endpoints that take no more sessions, and those that take their places. The test's own thread
// drives every endpoint.

#include "src/invoke/executor/endpoint_set.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/invoke/served_client.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

constexpr uint64_t kWindow = 4096;

class EndpointSetTest : public testing::TestWithParam<const char*> {
 protected:
  EndpointSetTest()
      : registry_(MakeTestFunctions(&functions_)),
        client_(OpenReactor(GetParam())),
        closable_(!DiscoverLoopback(GetParam())->profile.close_needs_quiet) {
    ClientSession::Options options;
    options.window_bytes = kWindow;
    auto session = ClientSession::Create(client_.get(), options);
    EXPECT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    shared_.functions = &registry_;
    shared_.watch = &watch_;
    shared_.times = FunctionTimes(registry_.size());
    shared_.bulk_budget = std::make_shared<BulkBudget>();
    shared_.on_session_failed = [](SessionKey, const absl::Status& status) {
      ADD_FAILURE() << status;
    };
    // One session's window is all that an endpoint keeps.
    options_.quarantine_bytes = 1;
    options_.retirement = absl::Milliseconds(1);
  }
  ~EndpointSetTest() override {
    for (const auto& set : sets_) {
      set->ForEach([](ExecutorEndpoint* endpoint) {
        if (endpoint->open()) endpoint->EndAll();
      });
    }
  }

  EndpointSet* AddSet() {
    sets_.push_back(
        std::make_unique<EndpointSet>(0, *DiscoverLoopback(GetParam()), &shared_, 1, options_));
    EXPECT_TRUE(sets_.back()->current()->Open().ok());
    return sets_.back().get();
  }

  // A session for a client that never calls.
  SessionKey OpenSession(EndpointSet* set) {
    auto reply = set->current()->OpenSession(
        session_->MakeRequest(Notification::kWriteImm), Notification::kWriteImm,
        *transport::HostBuffer::Allocate(kWindow), *transport::HostBuffer::Allocate(kWindow),
        DataKeys(), nullptr);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? SessionKey{reply->request_session, reply->epoch} : SessionKey();
  }

  void EndSession(EndpointSet* set, SessionKey key) { set->Find(key)->EndSession(key.number); }

  // Drives all that is to be driven until `done`.
  template <typename Done>
  bool DriveUntil(Done done) {
    const int64_t give_up = transport::MonotonicNs() + int64_t{60'000'000'000};
    while (!done() && transport::MonotonicNs() < give_up) {
      for (const auto& set : sets_) {
        set->SettleRetired();
        set->ForEach([](ExecutorEndpoint* endpoint) {
          if (endpoint->open()) endpoint->Turn();
        });
      }
    }
    return done();
  }

  // Opens a session on the current endpoint and ends it; then the endpoint keeps all that it may.
  absl::Status Fill(EndpointSet* set) {
    EndSession(set, OpenSession(set));
    EXPECT_TRUE(DriveUntil([set] { return !set->current()->TakesSessions().ok(); }));
    return set->current()->TakesSessions();
  }

  TestFunctions functions_;
  FunctionRegistry registry_;
  std::unique_ptr<transport::Reactor> client_;
  const bool closable_;  // endpoints, at any time
  std::unique_ptr<ClientSession> session_;
  ExecutorWatch watch_;
  ExecutorShared shared_;
  transport::ReactorOptions options_;
  std::vector<std::unique_ptr<EndpointSet>> sets_;
};

std::string Name(const testing::TestParamInfo<const char*>& info) { return NameOfProvider(info); }

INSTANTIATE_TEST_SUITE_P(Providers, EndpointSetTest, testing::Values("tcp;ofi_rxm", "shm"), Name);

TEST_P(EndpointSetTest, SessionsStayWhereTheyAreAndNewOnesGoToTheNextEndpoint) {
  EndpointSet* set = AddSet();
  const std::shared_ptr<ExecutorEndpoint> first = set->current();
  const SessionKey stays = OpenSession(set);
  const absl::Status full = Fill(set);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_FALSE(first->healthy());
  EXPECT_TRUE(set->healthy());
  shared_.rearrange = false;
  const auto note = set->Replace(full);
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_TRUE(absl::StrContains(*note, GetParam())) << *note;
  EXPECT_TRUE(absl::StrContains(*note, "its 1 stay")) << *note;
  EXPECT_TRUE(shared_.rearrange);
  const std::shared_ptr<ExecutorEndpoint> second = set->current();
  ASSERT_NE(first, second);
  ASSERT_TRUE(second->Open().ok());
  EXPECT_NE(first->reactor()->address(), second->reactor()->address());
  const SessionKey next = OpenSession(set);
  EXPECT_EQ(set->Find(stays), first.get());
  EXPECT_EQ(set->Find(next), second.get());
  EXPECT_EQ(set->Find({next.number, next.epoch + 1}), nullptr);
  EXPECT_NE(stays.number, next.number);
  EXPECT_EQ(set->Counters().live_sessions, 2u);
  EXPECT_GE(set->Counters().quarantined_bytes, kWindow);
  // A doorbell is of a session of the endpoint that it came to.
  first->OnToken(Immediate{MessageKind::kRequest, next.number, 0}.Encode());
  EXPECT_EQ(watch_.dropped().unknown_session, 1u);
}

TEST_P(EndpointSetTest, AnEndpointThatIsReplacedIsClosedAfterItsLastSessionWhereThatCanBe) {
  EndpointSet* set = AddSet();
  std::weak_ptr<ExecutorEndpoint> first = set->current();
  const SessionKey stays = OpenSession(set);
  ASSERT_TRUE(set->Replace(Fill(set)).ok());
  ASSERT_TRUE(set->current()->Open().ok());
  std::vector<std::shared_ptr<ExecutorEndpoint>> released;
  EXPECT_FALSE(first.lock()->settled());
  set->SettleRetired();
  set->TakeReleasable(&released);
  EXPECT_TRUE(released.empty());
  EndSession(set, stays);
  size_t visited = 0;
  ASSERT_TRUE(DriveUntil([&] {
    visited = 0;
    set->ForEach([&visited](ExecutorEndpoint*) { ++visited; });
    return visited == 1;
  }));
  const uint64_t kept = set->Counters().quarantined_bytes;
  EXPECT_GE(kept, 2 * kWindow);
  set->TakeReleasable(&released);
  ASSERT_EQ(released.size(), closable_ ? 1u : 0u);
  released.clear();
  EXPECT_EQ(first.expired(), closable_);
  EXPECT_EQ(set->Counters().quarantined_bytes, closable_ ? 0 : kept);
}

TEST_P(EndpointSetTest, ThereAreSoManyEndpointsAndNoMore) {
  EndpointSet* set = AddSet();
  std::vector<SessionKey> stay;
  std::set<std::string> addresses;
  for (size_t i = 0; i < EndpointSet::kMostOthers; ++i) {
    addresses.insert(set->current()->reactor()->address());
    stay.push_back(OpenSession(set));
    const auto note = set->Replace(Fill(set));
    ASSERT_TRUE(note.ok()) << note.status();
    ASSERT_TRUE(set->current()->Open().ok());
  }
  EXPECT_EQ(addresses.size(), EndpointSet::kMostOthers);
  EXPECT_TRUE(set->healthy());
  const absl::Status full = Fill(set);
  EXPECT_FALSE(set->healthy());
  const absl::Status refused = set->Replace(full).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "restart of the server")) << refused;
  // The last one once, however many sessions it refuses.
  EXPECT_FALSE(set->Replace(full).ok());
  EXPECT_EQ(shared_.endpoints_given_up.load(), EndpointSet::kMostOthers + 1);
  // Sessions of the first of them are as they were.
  EXPECT_NE(set->Find(stay.front()), nullptr);
  EndSession(set, stay.front());
  std::vector<std::shared_ptr<ExecutorEndpoint>> released;
  size_t visited = 0;
  ASSERT_TRUE(DriveUntil([&] {
    visited = 0;
    set->ForEach([&visited](ExecutorEndpoint*) { ++visited; });
    return visited == EndpointSet::kMostOthers;
  }));
  set->TakeReleasable(&released);
  EXPECT_EQ(released.size(), closable_ ? 1u : 0u);
  EXPECT_EQ(set->healthy(), closable_);
  EXPECT_EQ(set->Replace(full).ok(), closable_);
}

TEST_P(EndpointSetTest, WhatAllKeepTogetherHasALimit) {
  options_.quarantine_bytes = uint64_t{1} << 40;
  shared_.quarantine_total = std::make_shared<transport::QuarantineTotal>(/*most_bytes=*/1);
  EndpointSet* one = AddSet();
  EndpointSet* other = AddSet();
  EXPECT_TRUE(other->current()->TakesSessions().ok());
  const SessionKey stays = OpenSession(other);
  const absl::Status full = Fill(one);
  EXPECT_TRUE(absl::StrContains(full.message(), "together")) << full;
  // The window: nobody writes to the staging.
  EXPECT_EQ(shared_.quarantine_total->bytes(), kWindow);
  EXPECT_EQ(shared_.quarantine_total->bytes(), one->Counters().quarantined_bytes);
  EXPECT_EQ(shared_.quarantine_total->ranges(), one->Counters().quarantined_ranges);
  EXPECT_FALSE(other->current()->TakesSessions().ok());
  EXPECT_NE(other->Find(stays), nullptr);
  // Another one in its place would have no room.
  const absl::Status refused = other->Replace(full).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(shared_.endpoints_given_up.load(), 1u);
  ASSERT_EQ(one->Replace(full).ok(), closable_);
  if (!closable_) return;
  std::vector<std::shared_ptr<ExecutorEndpoint>> released;
  ASSERT_TRUE(DriveUntil([&] {
    one->TakeReleasable(&released);
    return !released.empty();
  }));
  released.clear();
  EXPECT_EQ(shared_.quarantine_total->bytes(), 0u);
  EXPECT_EQ(shared_.quarantine_total->ranges(), 0u);
  EXPECT_TRUE(other->current()->TakesSessions().ok());
}

}  // namespace
}  // namespace invoker
