// The test's own thread drives the scheduler and writes requests into the sessions' windows, as
// clients would.

#include "src/invoke/executor/session_scheduler.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

constexpr uint64_t kWindow = 64 * 1024;

class SessionSchedulerTest : public testing::Test, public transport::ReactorHandler {
 protected:
  SessionSchedulerTest()
      : registry_(MakeTestFunctions(&functions_)),
        reactor_(OpenReactor("shm")),
        client_reactor_(OpenReactor("shm")),
        geometry_(*WindowGeometry::Make(kWindow)),
        scheduler_(&shared_, &sessions_),
        sessions_(/*first=*/65535) {
    ClientSession::Options options;
    options.window_bytes = kWindow;
    auto client = ClientSession::Create(client_reactor_.get(), options);
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    reactor_->set_handler(this);
    shared_.watch = &watch_;
    shared_.times = FunctionTimes(registry_.size());
    sessions_.Allocate();
    scheduler_.set_reactor(reactor_.get());
    functions_.in_echo = [this](const invoker_call& call) {
      ran_.push_back(*static_cast<const uint8_t*>(call.input));
    };
  }
  ~SessionSchedulerTest() override {
    while (!sessions_.empty()) End(sessions_.Find(sessions_.live().back()));
  }

  void OnToken(uint64_t) override {}
  void OnTick(int64_t) override {}

  struct Opened {
    ExecutorSession* session = nullptr;
    std::byte* window = nullptr;
    uint64_t next_sequence = 1;
  };
  Opened Open() {
    const auto request = client_->MakeRequest(Notification::kWriteImm);
    Opened opened;
    opened.next_sequence = request.first_sequence;
    ExecutorSession::Parts parts;
    parts.reactor = reactor_.get();
    parts.functions = &registry_;
    parts.watch = &watch_;
    parts.draining = &shared_.draining;
    parts.times = &shared_.times;
    parts.ring = scheduler_.ring();
    parts.unfinished = scheduler_.unfinished();
    parts.number = *sessions_.FindFree();
    parts.epoch = ++epoch_;
    parts.first_sequence = request.first_sequence;
    parts.request_window = *transport::HostBuffer::Allocate(kWindow);
    parts.response_staging = *transport::HostBuffer::Allocate(kWindow);
    opened.window = parts.request_window.data();
    auto session = ExecutorSession::Open(std::move(parts), request);
    EXPECT_TRUE(session.ok()) << session.status();
    opened.session = session->get();
    sessions_.Add(*std::move(session));
    return opened;
  }
  void End(ExecutorSession* session) {
    scheduler_.Remove(session);
    sessions_.Remove(session->number());
  }

  // Writes `count` requests of one byte side by side, and rings for the first.
  void Call(Opened* opened, uint8_t mark, uint32_t cell = 0, int count = 1) {
    for (int i = 0; i < count; ++i) {
      RequestHeader header;
      header.function_id = kEcho;
      header.payload_bytes = 1;
      header.sequence = opened->next_sequence++;
      header.epoch = opened->session->epoch();
      header.response_cell = static_cast<uint16_t>(cell + i);
      header.response_capacity = 1;
      header.flags = i + 1 < count ? kMoreFollows : 0;
      std::byte* const message = opened->window + geometry_.OffsetOf(cell + i);
      Pack(header).CopyTo(message);
      message[kHeaderBytes] = std::byte{mark};
    }
  }

  TestFunctions functions_;
  FunctionRegistry registry_;
  std::unique_ptr<transport::Reactor> reactor_;
  std::unique_ptr<transport::Reactor> client_reactor_;
  std::unique_ptr<ClientSession> client_;
  WindowGeometry geometry_;
  ExecutorWatch watch_;
  ExecutorShared shared_;
  SessionScheduler scheduler_;
  SessionNumbers sessions_;
  uint32_t epoch_ = 0;
  std::vector<int> ran_;
};

TEST_F(SessionSchedulerTest, ADoorbellThatArrivesAloneIsServedAtOnceAndAnsweredInTheTurn) {
  Opened one = Open();
  Call(&one, 1);
  scheduler_.Ring(one.session, MessageKind::kRequest, 0);
  EXPECT_EQ(ran_, std::vector<int>{1});
  EXPECT_TRUE(shared_.busy);
  EXPECT_TRUE(one.session->responses().pending());
  scheduler_.Turn();
  EXPECT_EQ(one.session->responses().writes(), 1u);
  EXPECT_FALSE(scheduler_.busy());
}

TEST_F(SessionSchedulerTest, ResponsesOfASessionLeaveBeforeAnotherSessionRuns) {
  Opened one = Open();
  Opened other = Open();
  Call(&one, 1);
  Call(&other, 2);
  scheduler_.Ring(one.session, MessageKind::kRequest, 0);
  scheduler_.Ring(other.session, MessageKind::kRequest, 0);
  EXPECT_EQ(one.session->responses().writes(), 1u);
  EXPECT_EQ(other.session->responses().writes(), 0u);
  scheduler_.Turn();
  EXPECT_EQ(other.session->responses().writes(), 1u);
}

TEST_F(SessionSchedulerTest, ASessionWithManyCallsLetsOthersGoBetweenTwoQuanta) {
  Opened many = Open();
  Opened one = Open();
  Call(&many, 1, 0, 3 * kQuantumCalls);
  Call(&one, 2);
  scheduler_.Ring(many.session, MessageKind::kRequest, 0);
  EXPECT_LE(ran_.size(), size_t{kQuantumCalls});
  EXPECT_TRUE(scheduler_.busy());
  // The rest of the first session waits already, so it goes first, for one more quantum.
  scheduler_.Ring(one.session, MessageKind::kRequest, 0);
  while (scheduler_.busy()) scheduler_.Turn();
  ASSERT_EQ(ran_.size(), size_t{3 * kQuantumCalls + 1});
  const size_t place = std::find(ran_.begin(), ran_.end(), 2) - ran_.begin();
  EXPECT_GT(place, 0u);
  EXPECT_LT(place, size_t{3 * kQuantumCalls});
}

TEST_F(SessionSchedulerTest, ASessionThatEndsLeavesItsUsageAndNothingElse) {
  Opened one = Open();
  Call(&one, 1);
  scheduler_.Ring(one.session, MessageKind::kRequest, 0);
  End(one.session);
  EXPECT_EQ(shared_.usage.calls, 1u);
  EXPECT_EQ(shared_.usage.bytes_in, 1u);
  EXPECT_FALSE(scheduler_.busy());
  scheduler_.Turn();
  EXPECT_EQ(shared_.usage.calls, 1u);
}

TEST_F(SessionSchedulerTest, PublishShowsWhatSessionsHaveUsedSinceTheLastTime) {
  Opened one = Open();
  Opened other = Open();
  Call(&one, 1);
  Call(&other, 2);
  scheduler_.Ring(one.session, MessageKind::kRequest, 0);
  scheduler_.Ring(other.session, MessageKind::kRequest, 0);
  scheduler_.Turn();
  scheduler_.Publish();
  EXPECT_EQ(watch_.usage().Read().calls, 2u);
  scheduler_.Publish();
  EXPECT_EQ(watch_.usage().Read().calls, 2u);
}

TEST_F(SessionSchedulerTest, NumbersWrapAndSkipThoseThatLive) {
  Opened last = Open();
  EXPECT_EQ(last.session->number(), 65535);
  EXPECT_EQ(Open().session->number(), 0);
  EXPECT_EQ(sessions_.next(), 1);
  EXPECT_EQ(sessions_.Find(65535), last.session);
  EXPECT_EQ(sessions_.Find(SessionKey{65535, last.session->epoch()}), last.session);
  EXPECT_EQ(sessions_.Find(SessionKey{65535, last.session->epoch() + 1}), nullptr);
  EXPECT_EQ(sessions_.Find(1), nullptr);
  EXPECT_EQ(sessions_.live().size(), 2u);
  for (int i = 1; i < 65535; ++i) ASSERT_EQ(sessions_.FindFree(), i);
  EXPECT_EQ(sessions_.FindFree(), 1);
}

}  // namespace
}  // namespace invoker
