// What a peer that knows a session's window and key can write into it: dropped and counted, and the
// session goes on.

#include <array>
#include <functional>
#include <string>

#include "gtest/gtest.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

constexpr uint32_t kEpoch = 7;
// Where the attacker writes: far from where the client's own small calls are placed.
constexpr uint32_t kCell = 900;

class HostileTest : public testing::TestWithParam<Way> {
 protected:
  HostileTest() : pair_(GetParam(), SessionPair::Options()) {
    pair_.CheckEcho("before");
    attacker_ = pair_.AttackExecutor();
  }

  // A request that would be right, with the next sequence.
  RequestHeader Valid() const {
    RequestHeader header;
    header.function_id = kEcho;
    header.payload_bytes = 4;
    header.sequence = 2;
    header.epoch = kEpoch;
    header.response_cell = kCell;
    header.response_capacity = 16;
    return header;
  }

  static uint32_t Token(const SessionPair& pair, MessageKind kind = MessageKind::kRequest,
                        uint32_t cell = kCell) {
    return Immediate{kind, pair.number(), static_cast<uint16_t>(cell)}.Encode();
  }

  void Send(const RequestHeader& header, uint32_t token,
            const std::function<void(std::byte*)>& spoil = nullptr, uint32_t cell = kCell) {
    std::array<std::byte, 64> message = {};
    Pack(header).CopyTo(message.data());
    if (spoil) spoil(message.data());
    const uint64_t tokens = pair_.tokens;
    attacker_->Write(pair_.geometry().OffsetOf(cell), message, token);
    ASSERT_TRUE(pair_.Until([&] { return pair_.tokens > tokens; }, attacker_.get()));
  }

  const DropCounters& dropped() { return pair_.executor().counters().dropped; }

  // Nothing but `counter` has counted, `functions` have run, and honest calls still work.
  void ExpectDropped(uint64_t DropCounters::*counter, uint64_t times = 1) {
    EXPECT_EQ(dropped().*counter, times);
    EXPECT_EQ(TotalDrops(dropped()), times);
    EXPECT_EQ(pair_.functions.calls, 1u);
    pair_.CheckEcho("after");
    EXPECT_EQ(TotalDrops(dropped()), times);
    EXPECT_TRUE(pair_.executor().failure().ok());
  }

  SessionPair pair_;
  std::unique_ptr<Attacker> attacker_;
};

INSTANTIATE_TEST_SUITE_P(Ways, HostileTest, testing::ValuesIn(kWays), NameOfWay);

TEST_P(HostileTest, KindThatIsNone) {
  for (const int kind : {0, 2, 4, 255}) {
    Send(Valid(), Token(pair_), [&](std::byte* header) { header[0] = std::byte(kind); });
  }
  ExpectDropped(&DropCounters::not_a_header, 4);
}

TEST_P(HostileTest, UnknownFlags) {
  Send(Valid(), Token(pair_), [](std::byte* header) { header[1] = std::byte{0x80}; });
  ExpectDropped(&DropCounters::not_a_header);
}

TEST_P(HostileTest, ReservedFieldInUse) {
  Send(Valid(), Token(pair_), [](std::byte* header) { header[23] = std::byte{1}; });
  ExpectDropped(&DropCounters::not_a_header);
}

TEST_P(HostileTest, EpochOfAnotherSession) {
  RequestHeader header = Valid();
  header.epoch = kEpoch - 1;
  Send(header, Token(pair_));
  ExpectDropped(&DropCounters::wrong_epoch);
}

TEST_P(HostileTest, LengthBeyondTheWindow) {
  for (const uint32_t length : {uint32_t{0xffffffff}, uint32_t{64 * 1024},
                                static_cast<uint32_t>(64 * 1024 - kCell * 64 - 31)}) {
    RequestHeader header = Valid();
    header.payload_bytes = length;
    Send(header, Token(pair_));
  }
  ExpectDropped(&DropCounters::outside_window, 3);
}

TEST_P(HostileTest, DoorbellBeyondTheWindow) {
  Send(Valid(), Token(pair_, MessageKind::kRequest, 1024));
  Send(Valid(), Token(pair_, MessageKind::kRequest, kMaxCells - 1));
  ExpectDropped(&DropCounters::outside_window, 2);
}

TEST_P(HostileTest, ResponseRunBeyondTheWindow) {
  RequestHeader header = Valid();
  header.response_cell = 1024;
  Send(header, Token(pair_));
  header.response_cell = 0xffff;
  Send(header, Token(pair_));
  header.response_cell = 1023;
  header.response_capacity = 33;
  Send(header, Token(pair_));
  header.response_cell = 0;
  header.response_capacity = 0xffffffff;
  Send(header, Token(pair_));
  ExpectDropped(&DropCounters::bad_response_run, 4);
}

TEST_P(HostileTest, SequenceThatWasUsed) {
  RequestHeader header = Valid();
  header.sequence = 1;
  Send(header, Token(pair_));
  header.sequence = 0;
  Send(header, Token(pair_));
  ExpectDropped(&DropCounters::replayed, 2);
}

TEST_P(HostileTest, SequenceThatNobodyCanHaveReached) {
  RequestHeader header = Valid();
  header.sequence = 2 + SequenceWindow::kMaxAdvance;
  Send(header, Token(pair_));
  header.sequence = uint64_t{0} - SequenceWindow::kWidth;
  Send(header, Token(pair_));
  ExpectDropped(&DropCounters::stale_sequence, 2);
}

TEST_P(HostileTest, DoorbellOfAnotherKindThanTheHeader) {
  Send(Valid(), Token(pair_, MessageKind::kProbe));
  ExpectDropped(&DropCounters::kind_mismatch);
}

// Who is in the session has an answer, which here nobody waits for, and the server a count.
TEST_P(HostileTest, FunctionThatIsNotThere) {
  RequestHeader header = Valid();
  header.sequence = 5;  // leaves the client's next one alone
  header.function_id = 0xfff;
  Send(header, Token(pair_));
  EXPECT_EQ(pair_.executor().counters().refused, 1u);
  ExpectDropped(&DropCounters::unknown_function);
}

TEST_P(HostileTest, BulkRequestWithoutADescriptor) {
  RequestHeader header = Valid();
  header.sequence = 5;
  header.flags = kBulk;
  Send(header, Token(pair_));
  EXPECT_EQ(pair_.executor().counters().refused, 1u);
  ExpectDropped(&DropCounters::invalid_request);
}

// Who keeps to the protocol is refused too, and not counted among those who do not.
TEST_P(HostileTest, RequestsToAWorkerThatDrainsAreNotCounted) {
  pair_.draining = true;
  Call* const call = pair_.StartEcho("late", 64);
  ASSERT_TRUE(pair_.UntilEnded(call));
  EXPECT_FALSE(call->status.ok());
  pair_.client().Finish(call, false);
  EXPECT_EQ(pair_.executor().counters().refused, 1u);
  EXPECT_EQ(TotalDrops(dropped()), 0u);
}

TEST_P(HostileTest, DoorbellsOfNoSessionOrOfNoKind) {
  Send(Valid(), Immediate{MessageKind::kRequest, 12345, kCell}.Encode());
  Send(Valid(), Immediate{MessageKind::kResponse, pair_.number(), kCell}.Encode());
  Send(Valid(), uint32_t{3} << 30 | uint32_t{pair_.number()} << kCellBits | kCell);
  EXPECT_EQ(TotalDrops(dropped()), 0u);
  EXPECT_EQ(pair_.functions.calls, 1u);
  pair_.CheckEcho("after");
}

// They do not count as answers, which show that the worker lives and the path works.
TEST_P(HostileTest, DoorbellsAtTheClientShowNothingOfItsWorker) {
  ClientSession& client = pair_.client();
  const uint64_t answers = client.answers();
  EXPECT_EQ(answers, 1u);
  const uint16_t number = client.MakeRequest(GetParam().notification).response_session;
  // The first one's response still stands there.
  for (uint16_t cell = 0; cell < pair_.geometry().cells(); ++cell) {
    client.OnToken(Immediate{MessageKind::kResponse, number, cell}.Encode());
  }
  EXPECT_EQ(client.answers(), answers);
  // Nor while a call is under way.
  Call* const call = pair_.StartEcho("under way", 64);
  ASSERT_NE(call, nullptr);
  for (uint16_t cell = 0; cell < pair_.geometry().cells(); ++cell) {
    client.OnToken(Immediate{MessageKind::kResponse, number, cell}.Encode());
  }
  EXPECT_EQ(client.answers(), answers);
  EXPECT_EQ(client.dropped().no_such_call + client.dropped().not_a_header +
                client.dropped().wrong_sequence,
            uint64_t{2} * pair_.geometry().cells());
  ASSERT_TRUE(pair_.UntilEnded(call));
  EXPECT_EQ(client.answers(), answers + 1);
  client.Finish(call, false);
}

// A message that claims a successor in each of its cells: the chain ends with the window.
TEST_P(HostileTest, ChainThatGoesOnToTheEndOfTheWindow) {
  const uint32_t cells = pair_.geometry().cells() - kCell;
  std::vector<std::byte> messages(uint64_t{cells} * 64);
  RequestHeader header = Valid();
  header.flags = kMoreFollows;
  header.sequence = 1;  // replayed, every one of them
  for (uint32_t i = 0; i < cells; ++i) Pack(header).CopyTo(messages.data() + i * 64);
  const uint64_t tokens = pair_.tokens;
  attacker_->Write(pair_.geometry().OffsetOf(kCell), messages, Token(pair_));
  ASSERT_TRUE(pair_.Until([&] { return pair_.tokens > tokens; }, attacker_.get()));
  EXPECT_EQ(dropped().replayed, cells);
  EXPECT_EQ(dropped().outside_window, 1u);
  EXPECT_EQ(pair_.functions.calls, 1u);
  pair_.CheckEcho("after");
}

// A bad message in a write takes none of the good ones before it along.
TEST_P(HostileTest, BadMessageBehindAGoodOne) {
  std::array<std::byte, 128> messages = {};
  RequestHeader header = Valid();
  header.flags = kMoreFollows;
  header.sequence = 5;  // leaves the client's next one alone
  Pack(header).CopyTo(messages.data());
  const uint64_t tokens = pair_.tokens;
  attacker_->Write(pair_.geometry().OffsetOf(kCell), messages, Token(pair_));
  ASSERT_TRUE(pair_.Until([&] { return pair_.tokens > tokens; }, attacker_.get()));
  EXPECT_EQ(dropped().not_a_header, 1u);
  EXPECT_EQ(TotalDrops(dropped()), 1u);
  EXPECT_EQ(pair_.functions.calls, 2u);
  // Its response came to a client that expects none there.
  ASSERT_TRUE(
      pair_.Until([&] { return TotalDrops(pair_.client().dropped()) == 1; }, attacker_.get()));
  pair_.CheckEcho("after");
}

class ForgedResponseTest : public testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(Ways, ForgedResponseTest, testing::ValuesIn(kWays), NameOfWay);

// The executor has not answered yet. Whatever is forged, the call gets its own answer.
TEST_P(ForgedResponseTest, IsDroppedAndTheCallGetsItsOwnAnswer) {
  SessionPair pair(GetParam(), {});
  pair.CheckEcho("before");
  std::unique_ptr<Attacker> attacker = pair.AttackClient();
  Call* call = pair.StartEcho("honest", 64);
  pair.client().Flush();
  const uint32_t cell = call->response.first;

  ResponseHeader valid;
  valid.payload_bytes = 6;
  valid.sequence = call->sequence;
  valid.epoch = kEpoch;
  const auto forge = [&](const ResponseHeader& header, uint32_t at, uint16_t session,
                         MessageKind kind, const std::function<void(std::byte*)>& spoil) {
    std::array<std::byte, 64> message = {};
    Pack(header).CopyTo(message.data());
    if (spoil) spoil(message.data());
    const uint64_t dropped = TotalDrops(pair.client().dropped());
    attacker->Write(pair.geometry().OffsetOf(at), message,
                    Immediate{kind, session, static_cast<uint16_t>(at)}.Encode());
    const int64_t give_up = transport::MonotonicNs() + int64_t{60'000'000'000};
    while (TotalDrops(pair.client().dropped()) == dropped) {
      attacker->Poll();
      pair.PollClient();
      ASSERT_LT(transport::MonotonicNs(), give_up);
    }
    EXPECT_FALSE(call->ended());
  };
  ResponseHeader header = valid;
  header.sequence = call->sequence - 1;
  forge(header, cell, 9, MessageKind::kResponse, nullptr);
  header = valid;
  header.epoch = kEpoch + 1;
  forge(header, cell, 9, MessageKind::kResponse, nullptr);
  header = valid;
  header.payload_bytes = 65;
  forge(header, cell, 9, MessageKind::kResponse, nullptr);
  header.payload_bytes = 0xffffffff;
  forge(header, cell, 9, MessageKind::kResponse, nullptr);
  forge(valid, cell + 1, 9, MessageKind::kResponse, nullptr);
  forge(valid, cell, 8, MessageKind::kResponse, nullptr);
  forge(valid, cell, 9, MessageKind::kRequest, nullptr);
  forge(valid, cell, 9, MessageKind::kResponse, [](std::byte* m) { m[0] = std::byte{1}; });
  forge(valid, cell, 9, MessageKind::kResponse, [](std::byte* m) { m[1] = std::byte{0x40}; });
  forge(valid, cell, 9, MessageKind::kResponse, [](std::byte* m) { m[2] = std::byte{99}; });

  ASSERT_TRUE(pair.Until([&] { return call->ended(); }, attacker.get()));
  ASSERT_TRUE(call->status.ok()) << call->status;
  EXPECT_EQ(pair.Text(*call), "honest");
  pair.client().Finish(call, false);
  EXPECT_TRUE(pair.AllFree());
}

// A response that comes twice is taken once.
TEST_P(ForgedResponseTest, ADuplicateFreesNothingTwice) {
  SessionPair pair(GetParam(), {});
  std::unique_ptr<Attacker> attacker = pair.AttackClient();
  Call* call = pair.StartEcho("once", 64);
  pair.client().Flush();
  ASSERT_TRUE(pair.UntilEnded(call));
  ResponseHeader again;
  again.payload_bytes = 4;
  again.sequence = call->sequence;
  again.epoch = kEpoch;
  std::array<std::byte, 32> message;
  Pack(again).CopyTo(message.data());
  const uint32_t cell = call->response.first;
  attacker->Write(pair.geometry().OffsetOf(cell), message,
                  Immediate{MessageKind::kResponse, 9, static_cast<uint16_t>(cell)}.Encode());
  ASSERT_TRUE(pair.Until([&] { return TotalDrops(pair.client().dropped()) == 1; }, attacker.get()));
  EXPECT_EQ(pair.client().outstanding(), 0u);
  pair.client().Finish(call, false);
  EXPECT_TRUE(pair.AllFree());
  pair.CheckEcho("after");
}

}  // namespace
}  // namespace invoker
