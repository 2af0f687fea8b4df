// A peer that has the memory key of a window changes the payload of a message that has been placed
// and not been looked at yet, over a fabric that does each when the test says so: seen with
// data_auth=full alone (docs/design/security.md, "Tags").

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
// Bytes of the payload: its first, one in the middle, its last.
constexpr uint32_t kChanged[] = {0, kBytes / 2, kBytes - 1};
constexpr char kFlip = 0x10;

class ChangedPayloadTest : public testing::TestWithParam<DataAuth> {
 protected:
  ChangedPayloadTest() : world_(Notification::kWriteImm, false, 16, GetParam()) {}

  // A call whose request is under way.
  SessionWorld::Sent& Call() {
    EXPECT_TRUE(world_.Start(MessageKind::kRequest, SessionWorld::kTurnRound, kBytes, kBytes, 0,
                             /*buffer=*/nullptr));
    world_.client().Flush();
    return world_.sent().back();
  }

  // The only message that is under way.
  Flight& UnderWay() {
    Network::Get().Sweep();
    EXPECT_EQ(Network::Get().flights().size(), 1u);
    return Network::Get().flights().front();
  }
  void Deliver() {
    Network::Get().Finish(&UnderWay());
    world_.PollExecutor();
    world_.PollClient();
  }

  // Writes one byte of a payload. Nobody is told.
  void Write(uint32_t endpoint, const bootstrap::WindowDescriptor& window, uint32_t cell,
             uint32_t at, char byte) {
    Flight flight;
    flight.to = endpoint;
    flight.address = window.base + world_.client().geometry().OffsetOf(cell) + kHeaderBytes + at;
    flight.key = window.key;
    flight.copied.assign(1, static_cast<std::byte>(byte));
    flight.bytes = 1;
    flight.announced = flight.completed = true;
    Network::Get().Post(flight);
    Network::Get().Place(&Network::Get().flights().back());
    Network::Get().Sweep();
  }
  void WriteToExecutor(const SessionWorld::Sent& sent, uint32_t at, char byte) {
    Write(world_.executor_endpoint(), world_.executor()->request_window(), sent.call->request.first,
          at, byte);
  }
  void WriteToClient(const SessionWorld::Sent& sent, uint32_t at, char byte) {
    Write(world_.client_endpoint(), world_.request().response_window, sent.call->response.first, at,
          byte);
  }

  uint64_t executed() { return world_.executor()->counters().executed; }
  const DropCounters& dropped() { return world_.executor()->counters().dropped; }
  std::string Answer(const SessionWorld::Sent& sent) {
    const Bytes payload = world_.client().Payload(*sent.call);
    return std::string(reinterpret_cast<const char*>(payload.data()), payload.size());
  }
  // What kTurnRound makes of it.
  static std::string Turned(std::string text) {
    for (char& c : text) c = static_cast<char>(c ^ 0x5a);
    return text;
  }

  SessionWorld world_;
};

INSTANTIATE_TEST_SUITE_P(Tags, ChangedPayloadTest,
                         testing::Values(DataAuth::kOff, DataAuth::kHeader, DataAuth::kFull),
                         [](const auto& info) { return std::string(DataAuthName(info.param)); });

TEST_P(ChangedPayloadTest, OfARequest) {
  SessionWorld::Sent& sent = Call();
  Network::Get().Place(&UnderWay());
  std::string changed = sent.input;
  if (GetParam() != DataAuth::kFull) {
    // It runs with the changed bytes, and nobody notices. This is what is documented.
    world_.set_hostile();
    for (const uint32_t at : kChanged) {
      changed[at] ^= kFlip;
      WriteToExecutor(sent, at, changed[at]);
    }
    Deliver();
    ASSERT_EQ(executed(), 1u);
    EXPECT_EQ(TotalDrops(dropped()), 0u);
    Deliver();
    ASSERT_TRUE(sent.call->ended());
    ASSERT_TRUE(sent.call->status.ok()) << sent.call->status;
    EXPECT_EQ(Answer(sent), Turned(changed));
    EXPECT_NE(Answer(sent), Turned(sent.input));
    return;
  }
  world_.set_forged();
  uint64_t rung = 0;
  for (const uint32_t at : kChanged) {
    WriteToExecutor(sent, at, static_cast<char>(sent.input[at] ^ kFlip));
    Network::Get().Ring(world_.executor_endpoint(),
                        Immediate{MessageKind::kRequest, SessionWorld::kNumber,
                                  static_cast<uint16_t>(sent.call->request.first)}
                            .Encode());
    world_.PollExecutor();
    EXPECT_EQ(dropped().bad_tag, ++rung) << at;
    EXPECT_EQ(executed(), 0u) << at;
    WriteToExecutor(sent, at, sent.input[at]);
  }
  EXPECT_EQ(TotalDrops(dropped()), rung);
  // It was that byte and nothing else: with its own bytes it runs.
  Deliver();
  EXPECT_EQ(executed(), 1u);
  world_.Drain();
}

TEST_P(ChangedPayloadTest, OfAResponse) {
  SessionWorld::Sent& sent = Call();
  Deliver();
  ASSERT_EQ(executed(), 1u);
  Network::Get().Place(&UnderWay());
  const std::string honest = Turned(sent.input);
  std::string changed = honest;
  if (GetParam() != DataAuth::kFull) {
    world_.set_hostile();
    for (const uint32_t at : kChanged) {
      changed[at] ^= kFlip;
      WriteToClient(sent, at, changed[at]);
    }
    Deliver();
    ASSERT_TRUE(sent.call->ended());
    ASSERT_TRUE(sent.call->status.ok()) << sent.call->status;
    EXPECT_EQ(TotalDrops(world_.client().dropped()), 0u);
    EXPECT_EQ(Answer(sent), changed);
    return;
  }
  world_.set_forged();
  uint64_t rung = 0;
  for (const uint32_t at : kChanged) {
    WriteToClient(sent, at, static_cast<char>(honest[at] ^ kFlip));
    Network::Get().Ring(world_.client_endpoint(),
                        Immediate{MessageKind::kResponse, SessionWorld::kClientNumber,
                                  static_cast<uint16_t>(sent.call->response.first)}
                            .Encode());
    world_.PollClient();
    EXPECT_EQ(world_.client().dropped().bad_tag, ++rung) << at;
    EXPECT_FALSE(sent.call->ended()) << at;
    WriteToClient(sent, at, honest[at]);
  }
  Deliver();
  ASSERT_TRUE(sent.call->ended());
  EXPECT_EQ(Answer(sent), honest);
  world_.Drain();
}

}  // namespace
}  // namespace invoker
