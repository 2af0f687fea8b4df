// Endpoints that take no more sessions, and those that take their places. The test's own thread
// drives every port.

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
    for (const auto& line : lines_) {
      line->ForEach([](ExecutorEndpoint* port) {
        if (port->open()) port->EndAll();
      });
    }
  }

  EndpointSet* AddLine() {
    lines_.push_back(
        std::make_unique<EndpointSet>(0, *DiscoverLoopback(GetParam()), &shared_, 1, options_));
    EXPECT_TRUE(lines_.back()->current()->Open().ok());
    return lines_.back().get();
  }

  // A session for a client that never calls.
  SessionKey OpenSession(EndpointSet* line) {
    auto reply = line->current()->OpenSession(
        session_->MakeRequest(transport::Notification::kWriteImm),
        transport::Notification::kWriteImm, *transport::HostBuffer::Allocate(kWindow),
        *transport::HostBuffer::Allocate(kWindow), DataKeys(), nullptr);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? SessionKey{reply->request_session, reply->epoch} : SessionKey();
  }

  void EndSession(EndpointSet* line, SessionKey key) { line->PortOf(key)->EndSession(key.number); }

  // Drives all that is to be driven until `done`.
  template <typename Done>
  bool DriveUntil(Done done) {
    const int64_t give_up = transport::MonotonicNs() + int64_t{60'000'000'000};
    while (!done() && transport::MonotonicNs() < give_up) {
      for (const auto& line : lines_) {
        line->PutSettledAway();
        line->ForEach([](ExecutorEndpoint* port) {
          if (port->open()) port->Turn();
        });
      }
    }
    return done();
  }

  // Opens a session on the current port and ends it; then the port keeps all that it may.
  absl::Status Fill(EndpointSet* line) {
    EndSession(line, OpenSession(line));
    EXPECT_TRUE(DriveUntil([line] { return !line->current()->TakesSessions().ok(); }));
    return line->current()->TakesSessions();
  }

  TestFunctions functions_;
  FunctionRegistry registry_;
  std::unique_ptr<transport::Reactor> client_;
  const bool closable_;  // endpoints, at any time
  std::unique_ptr<ClientSession> session_;
  ExecutorWatch watch_;
  ExecutorShared shared_;
  transport::ReactorOptions options_;
  std::vector<std::unique_ptr<EndpointSet>> lines_;
};

std::string Name(const testing::TestParamInfo<const char*>& info) { return NameOfProvider(info); }

INSTANTIATE_TEST_SUITE_P(Providers, EndpointSetTest, testing::Values("tcp;ofi_rxm", "shm"), Name);

TEST_P(EndpointSetTest, SessionsStayWhereTheyAreAndNewOnesGoToTheNextEndpoint) {
  EndpointSet* line = AddLine();
  const std::shared_ptr<ExecutorEndpoint> first = line->current();
  const SessionKey stays = OpenSession(line);
  const absl::Status full = Fill(line);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_FALSE(first->healthy());
  EXPECT_TRUE(line->healthy());
  shared_.rearrange = false;
  const auto note = line->Replace(full);
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_TRUE(absl::StrContains(*note, GetParam())) << *note;
  EXPECT_TRUE(absl::StrContains(*note, "its 1 stay")) << *note;
  EXPECT_TRUE(shared_.rearrange);
  const std::shared_ptr<ExecutorEndpoint> second = line->current();
  ASSERT_NE(first, second);
  ASSERT_TRUE(second->Open().ok());
  EXPECT_NE(first->reactor()->address(), second->reactor()->address());
  const SessionKey next = OpenSession(line);
  EXPECT_EQ(line->PortOf(stays), first.get());
  EXPECT_EQ(line->PortOf(next), second.get());
  EXPECT_EQ(line->PortOf({next.number, next.epoch + 1}), nullptr);
  EXPECT_NE(stays.number, next.number);
  EXPECT_EQ(line->Counters().live_sessions, 2u);
  EXPECT_GE(line->Counters().quarantined_bytes, kWindow);
  // A doorbell is of a session of the endpoint that it came to.
  first->OnToken(Immediate{MessageKind::kRequest, next.number, 0}.Encode());
  EXPECT_EQ(watch_.dropped().unknown_session, 1u);
}

TEST_P(EndpointSetTest, AnEndpointThatIsReplacedIsClosedAfterItsLastSessionWhereThatCanBe) {
  EndpointSet* line = AddLine();
  std::weak_ptr<ExecutorEndpoint> first = line->current();
  const SessionKey stays = OpenSession(line);
  ASSERT_TRUE(line->Replace(Fill(line)).ok());
  ASSERT_TRUE(line->current()->Open().ok());
  std::vector<std::shared_ptr<ExecutorEndpoint>> closed;
  EXPECT_FALSE(first.lock()->settled());
  line->PutSettledAway();
  line->TakeClosed(&closed);
  EXPECT_TRUE(closed.empty());
  EndSession(line, stays);
  size_t visited = 0;
  ASSERT_TRUE(DriveUntil([&] {
    visited = 0;
    line->ForEach([&visited](ExecutorEndpoint*) { ++visited; });
    return visited == 1;
  }));
  const uint64_t kept = line->Counters().quarantined_bytes;
  EXPECT_GE(kept, 2 * kWindow);
  line->TakeClosed(&closed);
  ASSERT_EQ(closed.size(), closable_ ? 1u : 0u);
  closed.clear();
  EXPECT_EQ(first.expired(), closable_);
  EXPECT_EQ(line->Counters().quarantined_bytes, closable_ ? 0 : kept);
}

TEST_P(EndpointSetTest, ThereAreSoManyEndpointsAndNoMore) {
  EndpointSet* line = AddLine();
  std::vector<SessionKey> stay;
  std::set<std::string> addresses;
  for (size_t i = 0; i < EndpointSet::kMostOthers; ++i) {
    addresses.insert(line->current()->reactor()->address());
    stay.push_back(OpenSession(line));
    const auto note = line->Replace(Fill(line));
    ASSERT_TRUE(note.ok()) << note.status();
    ASSERT_TRUE(line->current()->Open().ok());
  }
  EXPECT_EQ(addresses.size(), EndpointSet::kMostOthers);
  EXPECT_TRUE(line->healthy());
  const absl::Status full = Fill(line);
  EXPECT_FALSE(line->healthy());
  const absl::Status refused = line->Replace(full).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "restart of the server")) << refused;
  // Sessions of the first of them are as they were.
  EXPECT_NE(line->PortOf(stay.front()), nullptr);
  EndSession(line, stay.front());
  std::vector<std::shared_ptr<ExecutorEndpoint>> closed;
  size_t visited = 0;
  ASSERT_TRUE(DriveUntil([&] {
    visited = 0;
    line->ForEach([&visited](ExecutorEndpoint*) { ++visited; });
    return visited == EndpointSet::kMostOthers;
  }));
  line->TakeClosed(&closed);
  EXPECT_EQ(closed.size(), closable_ ? 1u : 0u);
  EXPECT_EQ(line->healthy(), closable_);
  EXPECT_EQ(line->Replace(full).ok(), closable_);
}

TEST_P(EndpointSetTest, WhatAllKeepTogetherHasALimit) {
  options_.quarantine_bytes = uint64_t{1} << 40;
  shared_.quarantine_total = std::make_shared<transport::QuarantineTotal>(/*most_bytes=*/1);
  EndpointSet* one = AddLine();
  EndpointSet* other = AddLine();
  EXPECT_TRUE(other->current()->TakesSessions().ok());
  const SessionKey stays = OpenSession(other);
  const absl::Status full = Fill(one);
  EXPECT_TRUE(absl::StrContains(full.message(), "together")) << full;
  // The window: nobody writes to the staging.
  EXPECT_EQ(shared_.quarantine_total->bytes(), kWindow);
  EXPECT_EQ(shared_.quarantine_total->bytes(), one->Counters().quarantined_bytes);
  EXPECT_EQ(shared_.quarantine_total->ranges(), one->Counters().quarantined_ranges);
  EXPECT_FALSE(other->current()->TakesSessions().ok());
  EXPECT_NE(other->PortOf(stays), nullptr);
  // Another one in its place would have no room.
  const absl::Status refused = other->Replace(full).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  ASSERT_EQ(one->Replace(full).ok(), closable_);
  if (!closable_) return;
  std::vector<std::shared_ptr<ExecutorEndpoint>> closed;
  ASSERT_TRUE(DriveUntil([&] {
    one->TakeClosed(&closed);
    return !closed.empty();
  }));
  closed.clear();
  EXPECT_EQ(shared_.quarantine_total->bytes(), 0u);
  EXPECT_EQ(shared_.quarantine_total->ranges(), 0u);
  EXPECT_TRUE(other->current()->TakesSessions().ok());
}

}  // namespace
}  // namespace invoker
