// Messages that leave their headers out, because the receiver's window has them: what arrives, and
// what is dropped. And pieces, with which they go together.

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

// The most bytes that shm injects at once.
constexpr uint32_t kInject = 4096;
constexpr uint64_t kPiecesUpTo = 16384;
constexpr uint16_t kClientNumber = 9;

SessionPair::Options Roomy() {
  SessionPair::Options options;
  options.window_bytes = 1 << 20;
  return options;
}

bool MayRepeat(SessionPair& pair) { return pair.client().requests().repeats_headers(); }

// Both ends send payloads of up to so many bytes in pieces.
void SendPieces(SessionPair* pair, uint64_t bytes) {
  pair->client().set_pieces_up_to(bytes);
  ClientSession::Request request;
  request.kind = MessageKind::kProbe;
  request.function_id = AnswersInPieces(bytes);
  Call* const call = pair->client().Start(request);
  ASSERT_NE(call, nullptr);
  ASSERT_TRUE(pair->UntilEnded(call));
  EXPECT_TRUE(call->status.ok()) << call->status;
  pair->client().Finish(call, false);
}

std::string Text(size_t bytes, int seed) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + (i * 7 + seed) % 26);
  return text;
}

class HeaderRepeatTest : public testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(Ways, HeaderRepeatTest, testing::ValuesIn(kWays), NameOfWay);

TEST_P(HeaderRepeatTest, EqualCallsArriveAndLeaveTheirHeadersOutWhereThatHelps) {
  SessionPair pair(GetParam(), Roomy());
  for (int i = 0; i < 200; ++i) pair.CheckEcho(Text(kInject, i));
  const uint64_t repeats = pair.client().requests().repeats();
  EXPECT_EQ(repeats, pair.executor().responses().repeats());
  EXPECT_EQ(repeats, MayRepeat(pair) ? 199u : 0u);
  EXPECT_EQ(TotalDrops(pair.client().dropped()) + TotalDrops(pair.executor().counters().dropped),
            0u);
}

TEST_P(HeaderRepeatTest, OnlyTheLengthsThatItHelpsGoWithout) {
  SessionPair pair(GetParam(), Roomy());
  const auto left_out = [&](size_t bytes) {
    const uint64_t before = pair.client().requests().repeats();
    for (int i = 0; i < 3; ++i) pair.CheckEcho(Text(bytes, i));
    return pair.client().requests().repeats() - before;
  };
  const uint64_t twice = MayRepeat(pair) ? 2 : 0;
  EXPECT_EQ(left_out(64), 0u);
  EXPECT_EQ(left_out(kInject - kHeaderBytes), 0u) << "it is injected whole";
  EXPECT_EQ(left_out(kInject - kHeaderBytes + 1), twice);
  EXPECT_EQ(left_out(kInject), twice);
  EXPECT_EQ(left_out(kInject + 1), 0u) << "it goes in one write";
  SendPieces(&pair, kPiecesUpTo);
  EXPECT_EQ(left_out(kInject + 1), twice);
  EXPECT_EQ(left_out(kPiecesUpTo), twice);
  EXPECT_EQ(left_out(kPiecesUpTo + 1), 0u);
  EXPECT_EQ(left_out(100'000), 0u);
}

TEST_P(HeaderRepeatTest, WhatDiffersInItsHeaderTakesItAlong) {
  SessionPair pair(GetParam(), Roomy());
  SendPieces(&pair, kPiecesUpTo);
  const int64_t hour_ns = transport::MonotonicNs() + int64_t{3'600'000'000'000};
  for (int i = 0; i < 300; ++i) {
    // Each goes to the same cells, with another header than the last one had.
    const std::string text = Text(std::array{4096, 64, 8192, 4095}[i % 4], i);
    const uint16_t function = i % 5 == 4 ? kFail : kEcho;
    Call* const call = pair.StartEcho(text, 9000 + i % 2, function, i % 3 == 0 ? hour_ns + i : 0);
    ASSERT_NE(call, nullptr);
    ASSERT_TRUE(pair.UntilEnded(call));
    if (function == kEcho) {
      ASSERT_TRUE(call->status.ok()) << call->status;
      ASSERT_EQ(pair.Text(*call), text);
    } else {
      ASSERT_EQ(GetCallFate(call->status), CallFate::kExecuted) << call->status;
    }
    pair.client().Finish(call, false);
  }
  EXPECT_EQ(TotalDrops(pair.client().dropped()) + TotalDrops(pair.executor().counters().dropped),
            0u);
}

// Straight from the caller's memory, where it goes without its header and nothing else waits.
TEST_P(HeaderRepeatTest, OneThatIsAloneLeavesAtOnceIfItMay) {
  SessionPair pair(GetParam(), Roomy());
  pair.CheckEcho(Text(kInject, 0));
  for (int i = 1; i < 50; ++i) {
    const bool others_wait = i % 3 == 0;
    const std::string text = Text(kInject, i);
    ClientSession::Request request;
    request.function_id = kEcho;
    request.input = {reinterpret_cast<const std::byte*>(text.data()), text.size()};
    request.response_capacity = kInject;
    Call* const first = others_wait ? pair.StartEcho("first", 64) : nullptr;
    Call* const call = pair.client().Start(request, /*alone=*/true);
    ASSERT_NE(call, nullptr);
    // After others it lies in other cells, whose header is not its own at first.
    const bool waits = others_wait || !MayRepeat(pair);
    EXPECT_EQ(pair.client().requests().pending(), waits) << i;
    ASSERT_TRUE(pair.UntilEnded(call));
    ASSERT_TRUE(call->status.ok()) << call->status;
    ASSERT_EQ(pair.Text(*call), text);
    pair.client().Finish(call, false);
    if (others_wait) {
      ASSERT_TRUE(pair.UntilEnded(first));
      EXPECT_EQ(pair.Text(*first), "first");
      pair.client().Finish(first, false);
      pair.CheckEcho(text);
    }
  }
  EXPECT_EQ(TotalDrops(pair.client().dropped()) + TotalDrops(pair.executor().counters().dropped),
            0u);
  EXPECT_TRUE(pair.AllFree());
}

// Runs of several messages have headers, and lie where single ones lay.
TEST_P(HeaderRepeatTest, PipelinedCallsGetTheirOwnAnswers) {
  SessionPair pair(GetParam(), Roomy());
  SendPieces(&pair, kPiecesUpTo);
  for (int round = 0; round < 60; ++round) {
    struct One {
      Call* call;
      std::string text;
    };
    std::vector<One> calls;
    for (int i = 0; i <= round % 7; ++i) {
      const std::string text = Text(round % 2 == 0 ? kInject : kInject + 100 * i, round + i);
      calls.push_back({pair.StartEcho(text, 8192), text});
      ASSERT_NE(calls.back().call, nullptr);
      // Some leave alone, and some together.
      if ((round + i) % 3 == 0) pair.client().Flush();
    }
    for (const One& one : calls) {
      ASSERT_TRUE(pair.UntilEnded(one.call));
      ASSERT_TRUE(one.call->status.ok()) << one.call->status;
      ASSERT_EQ(pair.Text(*one.call), one.text);
    }
    for (const One& one : calls) pair.client().Finish(one.call, false);
  }
  EXPECT_EQ(pair.client().requests().repeats() > 0, MayRepeat(pair));
  EXPECT_EQ(pair.executor().responses().repeats() > 0, MayRepeat(pair));
  EXPECT_TRUE(pair.AllFree());
}

TEST_P(HeaderRepeatTest, ACancelledRequestThatHasNotLeftTakesItsHeaderAlong) {
  SessionPair pair(GetParam(), Roomy());
  for (int i = 0; i < 50; ++i) {
    pair.CheckEcho(Text(kInject, i));
    const uint64_t calls = pair.functions.calls;
    Call* const call = pair.StartEcho(Text(kInject, i + 1), kInject);
    pair.client().EndEarly(call, absl::StatusCode::kCancelled, "cancelled by the test");
    EXPECT_EQ(GetCallFate(call->status), CallFate::kNotSent);
    pair.client().Finish(call, false);
    ASSERT_TRUE(pair.Until([&] { return pair.AllFree(); }));
    EXPECT_EQ(pair.functions.calls, calls);
  }
  EXPECT_EQ(TotalDrops(pair.executor().counters().dropped), 0u);
}

TEST_P(HeaderRepeatTest, ACancelledRequestThatHasLeftRunsOnceAtMost) {
  SessionPair pair(GetParam(), Roomy());
  SendPieces(&pair, kPiecesUpTo);
  for (int i = 0; i < 100; ++i) {
    const size_t bytes = i % 2 == 0 ? kInject : 2 * kInject;
    pair.CheckEcho(Text(bytes, i));
    const uint64_t before = pair.functions.calls + pair.executor().counters().refused;
    Call* const call = pair.StartEcho(Text(bytes, i + 1), static_cast<uint32_t>(bytes));
    pair.client().Flush();
    if (i % 3 == 0) pair.PollExecutor();
    pair.client().EndEarly(call, absl::StatusCode::kCancelled, "cancelled by the test");
    pair.client().Finish(call, false);
    ASSERT_TRUE(pair.Until([&] { return pair.AllFree(); }));
    EXPECT_EQ(pair.functions.calls + pair.executor().counters().refused, before + 1);
  }
  EXPECT_EQ(TotalDrops(pair.executor().counters().dropped), 0u);
}

TEST_P(HeaderRepeatTest, SequencesThatWrapAreRestored) {
  SessionPair::Options options = Roomy();
  options.first_sequence = ~uint64_t{0} - 20;
  SessionPair pair(GetParam(), options);
  for (int i = 0; i < 100; ++i) pair.CheckEcho(Text(kInject, i));
  EXPECT_EQ(pair.client().requests().repeats(), MayRepeat(pair) ? 99u : 0u);
}

TEST_P(HeaderRepeatTest, MessagesWithTagsNeverGoWithout) {
  SessionPair::Options options = Roomy();
  options.data_auth = DataAuth::kHeader;
  SessionPair pair(GetParam(), options);
  SendPieces(&pair, kPiecesUpTo);
  for (int i = 0; i < 20; ++i) pair.CheckEcho(Text(kInject, i));
  for (int i = 0; i < 20; ++i) pair.CheckEcho(Text(2 * kInject, i));
  EXPECT_EQ(pair.client().requests().repeats() + pair.executor().responses().repeats(), 0u);
  EXPECT_FALSE(pair.executor().RestoreSequence(0, HeaderRepeat::Of(99, 7).Encode()));
}

// A ping asks for nothing, and an executor does no more than its fabric can.
TEST_P(HeaderRepeatTest, AProbeSaysHowTheExecutorAnswers) {
  SessionPair pair(GetParam(), Roomy());
  const auto limit = [&] { return pair.executor().responses().window().pieces_up_to; };
  EXPECT_EQ(limit(), 0u);
  const bool may = pair.client().may_send_pieces();
  SendPieces(&pair, kPiecesUpTo);
  EXPECT_EQ(limit(), may ? kPiecesUpTo + kHeaderBytes : 0);
  Call* const ping = pair.StartProbe("a ping");
  ASSERT_TRUE(pair.UntilEnded(ping));
  EXPECT_EQ(pair.Text(*ping), "a ping");
  EXPECT_GT(pair.client().Detail(*ping), 0u) << "a processor";
  pair.client().Finish(ping, false);
  EXPECT_EQ(limit(), may ? kPiecesUpTo + kHeaderBytes : 0);
  SendPieces(&pair, 60'000'000);
  EXPECT_EQ(limit(), may ? 16 * kInject + kHeaderBytes : 0);
  SendPieces(&pair, 0);
  EXPECT_EQ(limit(), 0u);
}

// Somebody who can ring, and perhaps write, forges upper halves.
class ForgedRepeatTest : public testing::Test {
 protected:
  static constexpr Way kWay = {"ShmWriteImm", "shm", Notification::kWriteImm};
  static constexpr uint32_t kEpoch = 7;

  void SetUp() override {
    pair_.CheckEcho(Text(kInject, 1));
    pair_.CheckEcho(Text(kInject, 2));
    ASSERT_EQ(pair_.functions.calls, 2u);
  }

  // To the executor: for the header that has served so far, at cell 0.
  void RingExecutor(uint32_t upper, uint16_t cell = 0) {
    const Immediate immediate = {MessageKind::kRequest, pair_.number(), cell};
    pair_.OnToken(uint64_t{upper} << 32 | immediate.Encode());
  }
  void RingClient(uint32_t upper, uint16_t cell) {
    const Immediate immediate = {MessageKind::kResponse, kClientNumber, cell};
    pair_.client().OnToken(uint64_t{upper} << 32 | immediate.Encode());
  }

  // Exactly this has been counted, nothing has run, and the session goes on.
  void ExpectDropped(uint64_t DropCounters::*reason) {
    const DropCounters& dropped = pair_.executor().counters().dropped;
    EXPECT_EQ(dropped.*reason, 1u);
    EXPECT_EQ(TotalDrops(dropped), 1u) << DescribeDrops(dropped);
    EXPECT_EQ(pair_.functions.calls, 2u);
    pair_.CheckEcho(Text(kInject, 3));
    EXPECT_EQ(pair_.functions.calls, 3u);
  }

  SessionPair pair_{kWay, Roomy()};
};

TEST_F(ForgedRepeatTest, OfAnotherEpoch) {
  RingExecutor(HeaderRepeat::Of(3, kEpoch + 1).Encode());
  ExpectDropped(&DropCounters::wrong_epoch);
}

TEST_F(ForgedRepeatTest, OfAHeaderThatWasNeverWritten) {
  RingExecutor(HeaderRepeat::Of(3, kEpoch).Encode(), 1000);
  ExpectDropped(&DropCounters::not_a_header);
}

TEST_F(ForgedRepeatTest, OfACellOutsideOfTheWindow) {
  SessionPair::Options options;
  options.window_bytes = 4096;
  SessionPair small(kWay, options);
  EXPECT_FALSE(small.executor().RestoreSequence(64, HeaderRepeat::Of(3, kEpoch).Encode()));
  EXPECT_EQ(small.executor().counters().dropped.outside_window, 1u);
}

TEST_F(ForgedRepeatTest, OfARequestThatHasRun) {
  RingExecutor(HeaderRepeat::Of(2, kEpoch).Encode());
  ExpectDropped(&DropCounters::replayed);
}

TEST_F(ForgedRepeatTest, OfASequenceOutOfReach) {
  RingExecutor(HeaderRepeat::Of(2 + 30000, kEpoch).Encode());
  // It may be new; then it is a forger's who has seen a message, as any with the right header.
  EXPECT_EQ(pair_.functions.calls + TotalDrops(pair_.executor().counters().dropped), 3u);
  RingExecutor(HeaderRepeat::Of(40000, kEpoch).Encode());
  EXPECT_EQ(pair_.executor().failure(), absl::OkStatus());
}

TEST_F(ForgedRepeatTest, OfAHeaderThatSaysThatMoreFollows) {
  Call* const first = pair_.StartEcho(Text(100, 1), 100);
  Call* const second = pair_.StartEcho(Text(100, 2), 100);
  ASSERT_TRUE(pair_.UntilEnded(first));
  ASSERT_TRUE(pair_.UntilEnded(second));
  const uint16_t cell = static_cast<uint16_t>(first->request.first);
  pair_.client().Finish(first, false);
  pair_.client().Finish(second, false);
  EXPECT_FALSE(pair_.executor().RestoreSequence(cell, HeaderRepeat::Of(5, kEpoch).Encode()));
  EXPECT_EQ(pair_.executor().counters().dropped.not_a_header, 1u);
  EXPECT_EQ(pair_.functions.calls, 4u);
}

TEST_F(ForgedRepeatTest, UpperHalvesOfNoForm) {
  uint64_t dropped = 0;
  for (const uint32_t upper : {1u, 0x3fffffffu, 0x40000000u, 0x7fffffffu, 0xc0000000u, ~0u}) {
    RingExecutor(upper);
    EXPECT_EQ(pair_.executor().counters().dropped.not_a_header, ++dropped);
    RingClient(upper, 0);
    EXPECT_EQ(pair_.client().dropped().not_a_header, dropped);
  }
  EXPECT_EQ(pair_.functions.calls, 2u);
}

TEST_F(ForgedRepeatTest, AtTheClientOnlyTheCallsOwnIsTaken) {
  Call* const call = pair_.StartEcho(Text(kInject, 3), kInject);
  const auto cell = static_cast<uint16_t>(call->response.first);
  const ResponseDropCounters& dropped = pair_.client().dropped();
  RingClient(HeaderRepeat::Of(call->sequence, kEpoch + 1).Encode(), cell);
  EXPECT_EQ(dropped.wrong_epoch, 1u);
  RingClient(HeaderRepeat::Of(call->sequence - 1, kEpoch).Encode(), cell);
  EXPECT_EQ(dropped.wrong_sequence, 1u);
  // In the midst of the last response there is no header, or else no call that waits for it.
  RingClient(HeaderRepeat::Of(call->sequence, kEpoch).Encode(), cell + 1);
  EXPECT_EQ(dropped.no_such_call + dropped.not_a_header, 1u);
  RingClient(HeaderRepeat::Of(call->sequence, kEpoch).Encode(), 16383);
  EXPECT_FALSE(call->ended());
  ASSERT_TRUE(pair_.UntilEnded(call));
  ASSERT_TRUE(call->status.ok()) << call->status;
  EXPECT_EQ(pair_.Text(*call), Text(kInject, 3));
  pair_.client().Finish(call, false);
  RingClient(HeaderRepeat::Of(3, kEpoch).Encode(), cell);
  EXPECT_EQ(pair_.client().answers(), 3u);
  EXPECT_TRUE(pair_.AllFree());
}

}  // namespace
}  // namespace invoker
