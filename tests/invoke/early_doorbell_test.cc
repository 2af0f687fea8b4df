// A peer that has no key rings for a cell whose message is being placed, over a fabric that places
// what the test says when it says so: what holds with each kind of tag, and what does not
// (docs/design/security.md, "A doorbell too early").

#include <string>

#include "gtest/gtest.h"
#include "src/invoke/wire/wire.h"
#include "tests/fuzz/fabric/network.h"
#include "tests/fuzz/session_world.h"

namespace invoker {
namespace {

using fuzz::Flight;
using fuzz::Network;
using fuzz::SessionWorld;

constexpr uint32_t kBytes = 1000;
constexpr size_t kPlaced = kHeaderBytes + 400;  // the header is there, and not all of the payload

class EarlyDoorbellTest : public testing::TestWithParam<DataAuth> {
 protected:
  EarlyDoorbellTest() : world_(Notification::kWriteImm, false, 16, GetParam()) {}

  // Starts a call whose payload is `bytes` long; its request leaves with the next Flush.
  SessionWorld::Sent& Start(uint32_t bytes) {
    EXPECT_TRUE(world_.Start(MessageKind::kRequest, SessionWorld::kTurnRound, bytes, bytes, 0,
                             /*buffer=*/nullptr));
    return world_.sent().back();
  }

  // Starts a call whose response is its payload, and leaves at once with others of its turn.
  SessionWorld::Sent& StartProbe(uint32_t bytes) {
    EXPECT_TRUE(world_.Start(MessageKind::kProbe, SessionWorld::kTurnRound, bytes, bytes, 0,
                             /*buffer=*/nullptr));
    return world_.sent().back();
  }

  // The only message that is under way.
  Flight& UnderWay() {
    Network::Get().Sweep();
    EXPECT_EQ(Network::Get().flights().size(), 1u);
    return Network::Get().flights().front();
  }

  // What a peer can do that knows an address, the number of a session and a cell.
  void RingAtExecutor(uint32_t cell) {
    world_.set_forged();
    Network::Get().Ring(
        world_.executor_endpoint(),
        Immediate{MessageKind::kRequest, SessionWorld::kNumber, static_cast<uint16_t>(cell)}
            .Encode());
    world_.PollExecutor();
  }
  void RingAtClient(uint32_t cell) {
    world_.set_forged();
    Network::Get().Ring(
        world_.client_endpoint(),
        Immediate{MessageKind::kResponse, SessionWorld::kClientNumber, static_cast<uint16_t>(cell)}
            .Encode());
    world_.PollClient();
  }

  void Deliver(Flight* flight) {
    Network::Get().Finish(flight);
    world_.PollExecutor();
    world_.PollClient();
  }

  uint64_t executed() { return world_.executor()->counters().executed; }
  const DropCounters& dropped() { return world_.executor()->counters().dropped; }
  std::string Answer(const SessionWorld::Sent& sent) {
    const Bytes payload = world_.client().Payload(*sent.call);
    return std::string(reinterpret_cast<const char*>(payload.data()), payload.size());
  }
  // What kTurnRound makes of the first `whole` bytes of the input, and zeros behind them.
  static std::string Turned(const std::string& input, size_t whole) {
    std::string turned = input.substr(0, whole);
    turned.resize(input.size());
    for (char& c : turned) c = static_cast<char>(c ^ 0x5a);
    return turned;
  }

  // The request runs once, on all of its bytes, at its own doorbell.
  void CheckHonest(SessionWorld::Sent* sent) {
    Deliver(&UnderWay());
    EXPECT_EQ(executed(), 1u);
    Deliver(&UnderWay());
    ASSERT_TRUE(sent->call->ended());
    ASSERT_TRUE(sent->call->status.ok()) << sent->call->status;
    EXPECT_EQ(Answer(*sent), Turned(sent->input, sent->input.size()));
    world_.Drain();
  }

  SessionWorld world_;
};

INSTANTIATE_TEST_SUITE_P(Tags, EarlyDoorbellTest,
                         testing::Values(DataAuth::kOff, DataAuth::kHeader, DataAuth::kFull),
                         [](const auto& info) { return std::string(DataAuthName(info.param)); });

// The bytes come in their order. Tags, of either kind, lie behind the payload.
TEST_P(EarlyDoorbellTest, ARequestWhoseEndIsMissing) {
  SessionWorld::Sent& sent = Start(kBytes);
  world_.client().Flush();
  if (GetParam() == DataAuth::kOff) {
    // It runs on what is there, once. This is what is documented.
    world_.set_hostile();
    Flight& request = UnderWay();
    Network::Get().PlacePart(request, 0, kPlaced);
    RingAtExecutor(sent.call->request.first);
    EXPECT_EQ(executed(), 1u);
    Deliver(&request);
    EXPECT_EQ(executed(), 1u);
    EXPECT_EQ(dropped().replayed, 1u);
    for (Flight& flight : Network::Get().flights()) Network::Get().Finish(&flight);
    world_.PollClient();
    ASSERT_TRUE(sent.call->ended());
    EXPECT_EQ(Answer(sent), Turned(sent.input, kPlaced - kHeaderBytes));
    return;
  }
  // From one byte of it to half of its tag: its last byte alone is zero, as if it were not missing,
  // in one of 256 runs.
  for (const size_t placed : {size_t{1}, size_t{kHeaderBytes}, kPlaced,
                              size_t{kHeaderBytes + kBytes}, UnderWay().bytes - kTagBytes / 2}) {
    Network::Get().PlacePart(UnderWay(), 0, placed);
    RingAtExecutor(sent.call->request.first);
    EXPECT_EQ(executed(), 0u) << placed;
  }
  EXPECT_GT(dropped().bad_tag, 0u);
  EXPECT_EQ(dropped().replayed, 0u);
  CheckHonest(&sent);
}

// Happens where packets overtake one another: what lies behind is there, and not what lies before
// it.
TEST_P(EarlyDoorbellTest, ARequestWhoseMiddleIsMissing) {
  SessionWorld::Sent& sent = Start(kBytes);
  world_.client().Flush();
  if (GetParam() != DataAuth::kFull) world_.set_hostile();
  Network::Get().PlacePart(UnderWay(), 0, kPlaced);
  Network::Get().PlacePart(UnderWay(), kHeaderBytes + kBytes, kTagBytes);
  RingAtExecutor(sent.call->request.first);
  if (GetParam() == DataAuth::kFull) {
    EXPECT_EQ(dropped().bad_tag, 1u);
    CheckHonest(&sent);
    return;
  }
  EXPECT_EQ(executed(), 1u);
  EXPECT_EQ(TotalDrops(dropped()), 0u);
}

// The half of a header that is there is of a call, and the other half of the one before it.
TEST_P(EarlyDoorbellTest, ARequestWhoseHeaderIsTorn) {
  SessionWorld::Sent& first = Start(kBytes);
  world_.client().Flush();
  Deliver(&UnderWay());
  Deliver(&UnderWay());
  ASSERT_TRUE(first.call->ended());
  const uint32_t cell = first.call->request.first;
  const uint16_t of_response = static_cast<uint16_t>(first.call->response.first);
  // Its response is kept, so that the next call has another place for its own.
  world_.Finish(&first, /*keep_response=*/true);
  SessionWorld::Sent& second = Start(kBytes);
  world_.client().Flush();
  ASSERT_EQ(second.call->request.first, cell);
  ASSERT_NE(second.call->response.first, of_response);
  if (GetParam() == DataAuth::kOff) world_.set_hostile();
  Network::Get().PlacePart(UnderWay(), 0, 20);
  RingAtExecutor(cell);
  if (GetParam() == DataAuth::kOff) {
    // Runs with the second one's sequence and answers into the first one's place.
    EXPECT_EQ(executed(), 2u);
    return;
  }
  EXPECT_EQ(executed(), 1u);
  EXPECT_EQ(dropped().bad_tag, 1u);
  Deliver(&UnderWay());
  EXPECT_EQ(executed(), 2u);
  world_.Drain();
}

TEST_P(EarlyDoorbellTest, AResponseWhoseEndIsMissing) {
  SessionWorld::Sent& sent = Start(kBytes);
  const uint32_t cell = sent.call->response.first;
  world_.client().Flush();
  if (GetParam() == DataAuth::kOff) world_.set_hostile();
  Deliver(&UnderWay());
  ASSERT_EQ(executed(), 1u);
  Network::Get().PlacePart(UnderWay(), 0, kPlaced);
  RingAtClient(cell);
  if (GetParam() == DataAuth::kOff) {
    ASSERT_TRUE(sent.call->ended());
    EXPECT_NE(Answer(sent), Turned(sent.input, sent.input.size()));
    return;
  }
  EXPECT_FALSE(sent.call->ended());
  EXPECT_EQ(world_.client().dropped().bad_tag, 1u);
  Deliver(&UnderWay());
  ASSERT_TRUE(sent.call->ended());
  EXPECT_EQ(Answer(sent), Turned(sent.input, sent.input.size()));
  world_.Drain();
}

// Two requests are in one write, and the first is there whole. It runs early, is answered, and its
// cells are another call's when the write's own doorbell comes: what tells of the second is gone.
TEST_P(EarlyDoorbellTest, ARequestThatTravelsBehindAnother) {
  SessionWorld::Sent& first = Start(8);
  SessionWorld::Sent& second = Start(kBytes);
  world_.client().Flush();
  const uint32_t cell = first.call->request.first;
  Network::Get().PlacePart(UnderWay(), 0, 64);
  RingAtExecutor(cell);
  EXPECT_EQ(executed(), 1u);
  EXPECT_EQ(dropped().not_a_header, 1u);
  ASSERT_EQ(Network::Get().flights().size(), 2u);
  Network::Get().Finish(&Network::Get().flights().back());
  world_.PollClient();
  ASSERT_TRUE(first.call->ended());
  ASSERT_TRUE(first.call->status.ok()) << first.call->status;
  EXPECT_EQ(Answer(first), Turned(first.input, first.input.size()));
  world_.Finish(&first, false);
  Network::Get().Place(&UnderWay());
  SessionWorld::Sent& third = Start(8);
  ASSERT_EQ(third.call->request.first, cell);
  world_.client().Flush();
  for (Flight& flight : Network::Get().flights()) Network::Get().Place(&flight);
  constexpr int kTurns = 6;  // enough for each request and each response
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Flight& flight : Network::Get().flights()) Network::Get().Finish(&flight);
    world_.PollExecutor();
    world_.PollClient();
  }
  EXPECT_TRUE(third.call->ended());
  EXPECT_FALSE(second.call->ended());
  // Its client finds that out by asking, and at the latest at its deadline; no other call suffers.
  EXPECT_EQ(world_.executor()->FindRequest(second.call->sequence),
            bootstrap::RequestState::kNotArrived);
  EXPECT_EQ(executed(), 2u);
}

// Three responses are in one write, and the first is there whole, and counts at once. What is rung
// for the write itself finds nobody who waits for that one, and goes on to the others.
TEST_P(EarlyDoorbellTest, ResponsesThatTravelBehindAnother) {
  SessionWorld::Sent& first = StartProbe(8);
  SessionWorld::Sent& second = StartProbe(kBytes);
  SessionWorld::Sent& third = StartProbe(8);
  const uint32_t cell = first.call->response.first;
  world_.client().Flush();
  Deliver(&UnderWay());
  Network::Get().PlacePart(UnderWay(), 0, 64);
  RingAtClient(cell);
  ASSERT_TRUE(first.call->ended());
  EXPECT_EQ(Answer(first), first.input);
  EXPECT_FALSE(second.call->ended());
  EXPECT_EQ(world_.client().dropped().not_a_header, 1u);
  Deliver(&UnderWay());
  EXPECT_EQ(world_.client().dropped().no_such_call, 1u);
  for (SessionWorld::Sent* sent : {&second, &third}) {
    ASSERT_TRUE(sent->call->ended());
    ASSERT_TRUE(sent->call->status.ok()) << sent->call->status;
    EXPECT_EQ(Answer(*sent), sent->input);
  }
  world_.Drain();
}

// The same, and the first one's place is another call's meanwhile.
TEST_P(EarlyDoorbellTest, ResponsesThatTravelBehindOneWhosePlaceIsAnothers) {
  SessionWorld::Sent& first = StartProbe(8);
  SessionWorld::Sent& second = StartProbe(kBytes);
  const uint32_t cell = first.call->response.first;
  world_.client().Flush();
  Deliver(&UnderWay());
  Network::Get().PlacePart(UnderWay(), 0, 64);
  RingAtClient(cell);
  ASSERT_TRUE(first.call->ended());
  world_.Finish(&first, /*keep_response=*/false);
  SessionWorld::Sent& other = StartProbe(8);
  ASSERT_EQ(other.call->response.first, cell);
  Deliver(&UnderWay());
  EXPECT_EQ(world_.client().dropped().wrong_sequence, 1u);
  EXPECT_FALSE(other.call->ended());
  ASSERT_TRUE(second.call->ended());
  EXPECT_EQ(Answer(second), second.input);
  world_.Drain();
}

// And that one's answer is there already: it says nothing of what was to follow.
TEST_P(EarlyDoorbellTest, ResponsesThatTravelBehindOneWhosePlaceHasAnothersAnswer) {
  SessionWorld::Sent& first = StartProbe(8);
  SessionWorld::Sent& second = StartProbe(kBytes);
  const uint32_t cell = first.call->response.first;
  world_.client().Flush();
  Deliver(&UnderWay());
  Network::Get().PlacePart(UnderWay(), 0, 64);
  world_.set_torn();
  RingAtClient(cell);
  ASSERT_TRUE(first.call->ended());
  world_.Finish(&first, /*keep_response=*/false);
  Network::Get().Place(&UnderWay());
  SessionWorld::Sent& other = StartProbe(8);
  ASSERT_EQ(other.call->response.first, cell);
  world_.client().Flush();
  Network::Get().Finish(&Network::Get().flights().back());
  world_.PollExecutor();
  Network::Get().Place(&Network::Get().flights().back());
  for (Flight& flight : Network::Get().flights()) Network::Get().Finish(&flight);
  world_.PollClient();
  EXPECT_TRUE(other.call->ended());
  EXPECT_FALSE(second.call->ended());
  // Its client finds that out by asking.
  EXPECT_EQ(world_.executor()->FindRequest(second.call->sequence),
            bootstrap::RequestState::kAnswered);
}

// A chain of what nobody waits for ends where the window does, however often it is rung for.
TEST_P(EarlyDoorbellTest, AChainThatNobodyWaitsForEndsWithTheWindow) {
  world_.set_hostile();
  const WindowGeometry& geometry = world_.client().geometry();
  Flight flight;
  flight.to = world_.client_endpoint();
  flight.address = world_.request().response_window.base;
  flight.key = world_.request().response_window.key;
  flight.copied.resize(geometry.window_bytes());
  flight.bytes = flight.copied.size();
  ResponseHeader header;
  header.flags = kMoreFollows;
  for (uint32_t cell = 0; cell < geometry.cells(); ++cell) {
    Pack(header).CopyTo(flight.copied.data() + geometry.OffsetOf(cell));
  }
  // One in the middle says that it reaches beyond the window.
  header.payload_bytes = static_cast<uint32_t>(geometry.window_bytes());
  const uint32_t middle = geometry.cells() / 2;
  Pack(header).CopyTo(flight.copied.data() + geometry.OffsetOf(middle));
  Network::Get().Post(flight);
  Network::Get().Place(&Network::Get().flights().back());
  RingAtClient(0);
  EXPECT_EQ(world_.client().dropped().no_such_call, uint64_t{middle} + 1);
  RingAtClient(middle + 1);
  EXPECT_EQ(world_.client().dropped().no_such_call, uint64_t{geometry.cells()});
  EXPECT_EQ(world_.client().dropped().outside_window, 1u);
}

}  // namespace
}  // namespace invoker
