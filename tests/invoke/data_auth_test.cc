// Sessions whose messages have tags: calls work as in any, and a peer that knows everything but the
// keys of the tags can forge none.

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

constexpr uint32_t kEpoch = 7;
// Where the attacker writes: far from where the client's own small calls are placed.
constexpr uint32_t kCell = 900;

struct Case {
  Way way;
  DataAuth auth;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Way& way : kWays) {
    for (const DataAuth auth : {DataAuth::kOff, DataAuth::kHeader, DataAuth::kFull}) {
      cases.push_back({way, auth});
    }
  }
  return cases;
}

class DataAuthTest : public testing::TestWithParam<Case> {
 protected:
  static SessionPair::Options Options() {
    SessionPair::Options options;
    options.data_auth = GetParam().auth;
    return options;
  }
  DataAuthTest() : pair_(GetParam().way, Options()) {}

  bool tagged() const { return GetParam().auth != DataAuth::kOff; }

  // All that an attacker can know of the next request, and the bytes that it would be.
  std::vector<std::byte> NextRequest(uint64_t sequence, absl::string_view text) const {
    RequestHeader header;
    header.function_id = kEcho;
    header.payload_bytes = static_cast<uint32_t>(text.size());
    header.sequence = sequence;
    header.epoch = kEpoch;
    header.response_cell = kCell;
    header.response_capacity = 16;
    std::vector<std::byte> message(kHeaderBytes + text.size() + kTagBytes);
    Pack(header).CopyTo(message.data());
    memcpy(message.data() + kHeaderBytes, text.data(), text.size());
    return message;
  }

  void Send(absl::Span<const std::byte> message, uint32_t cell) {
    const uint64_t tokens = pair_.tokens;
    attacker_->Write(
        pair_.geometry().OffsetOf(cell), message,
        Immediate{MessageKind::kRequest, pair_.number(), static_cast<uint16_t>(cell)}.Encode());
    ASSERT_TRUE(pair_.Until([&] { return pair_.tokens > tokens; }, attacker_.get()));
  }

  const DropCounters& dropped() { return pair_.executor().counters().dropped; }

  SessionPair pair_;
  std::unique_ptr<Attacker> attacker_;
};

INSTANTIATE_TEST_SUITE_P(Ways, DataAuthTest, testing::ValuesIn(Cases()), [](const auto& info) {
  return absl::StrCat(info.param.way.name, "_", DataAuthName(info.param.auth));
});

TEST_P(DataAuthTest, CallsOfEverySizeComeBackWhole) {
  const uint32_t most = pair_.geometry().MaxPayload();
  EXPECT_EQ(most, 64 * 1024 - (tagged() ? 40 : 32));
  for (const size_t size : {0, 1, 24, 25, 31, 32, 33, 63, 64, 1000, 4096, 20000}) {
    std::string text(size, 'x');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7);
    pair_.CheckEcho(text);
  }
  pair_.CheckEcho(std::string(most, 'm'));
  EXPECT_TRUE(pair_.AllFree());
  EXPECT_EQ(TotalDrops(dropped()), 0u);
  EXPECT_EQ(TotalDrops(pair_.client().dropped()), 0u);
}

TEST_P(DataAuthTest, MessagesThatTravelTogetherAreEachOpened) {
  using Start = std::function<Call*(const std::string&)>;
  const Start echo = [this](const std::string& text) { return pair_.StartEcho(text, 6); };
  // With much room for each response they are far apart, and are relocated if there are no tags.
  const Start probe = [this](const std::string& text) { return pair_.StartProbe(text, 600); };
  const Start short_probe = [this](const std::string& text) { return pair_.StartProbe(text, 6); };
  for (const Start& start : {echo, probe, short_probe}) {
    std::vector<Call*> calls;
    for (int i = 0; i < 20; ++i) calls.push_back(start(absl::StrCat("text", i)));
    pair_.client().Flush();
    for (size_t i = 0; i < calls.size(); ++i) {
      ASSERT_TRUE(pair_.UntilEnded(calls[i]));
      ASSERT_TRUE(calls[i]->status.ok()) << calls[i]->status;
      EXPECT_EQ(pair_.Text(*calls[i]), absl::StrCat("text", i));
      pair_.client().Finish(calls[i], false);
    }
  }
  EXPECT_LT(pair_.client().requests().writes(), pair_.client().requests().messages());
  EXPECT_LT(pair_.executor().responses().writes(), pair_.executor().responses().messages());
  EXPECT_TRUE(pair_.AllFree());
  EXPECT_EQ(TotalDrops(dropped()), 0u);
}

// The attacker has the window's key, the epoch and the next sequence.
TEST_P(DataAuthTest, AForgedRequestRunsOnlyWithoutTags) {
  pair_.CheckEcho("before");
  attacker_ = pair_.AttackExecutor();
  const std::vector<std::byte> forged = NextRequest(/*sequence=*/2, "evil");
  Send(forged, kCell);
  if (!tagged()) {
    // This is what tags are for.
    EXPECT_EQ(pair_.functions.calls, 2u);
    EXPECT_EQ(TotalDrops(dropped()), 0u);
    return;
  }
  EXPECT_EQ(pair_.functions.calls, 1u);
  EXPECT_EQ(dropped().bad_tag, 1u);
  EXPECT_EQ(TotalDrops(dropped()), 1u);
  // It has not used up the sequence: the next honest call has it.
  pair_.CheckEcho("after");
  EXPECT_EQ(TotalDrops(dropped()), 1u);
}

TEST_P(DataAuthTest, AReplayIsDroppedBeforeItsTagIsLookedAt) {
  if (!tagged()) GTEST_SKIP() << "sequences of sessions without tags have tests of their own";
  Call* call = pair_.StartEcho("once", 4);
  const uint32_t cell = call->request.first;
  pair_.client().Flush();
  ASSERT_TRUE(pair_.UntilEnded(call));
  pair_.client().Finish(call, false);
  attacker_ = pair_.AttackExecutor();
  // Only the sequence is that of the request that was served.
  Send(NextRequest(/*sequence=*/1, "evil"), cell);
  EXPECT_EQ(dropped().replayed, 1u);
  EXPECT_EQ(TotalDrops(dropped()), 1u);
  EXPECT_EQ(pair_.functions.calls, 1u);
}

// The executor has not answered yet.
TEST_P(DataAuthTest, AForgedResponseIsTakenOnlyWithoutTags) {
  pair_.CheckEcho("before");
  attacker_ = pair_.AttackClient();
  Call* call = pair_.StartEcho("honest", 64);
  pair_.client().Flush();
  ResponseHeader header;
  header.payload_bytes = 4;
  header.sequence = call->sequence;
  header.epoch = kEpoch;
  std::vector<std::byte> message(kHeaderBytes + 4 + kTagBytes);
  Pack(header).CopyTo(message.data());
  memcpy(message.data() + kHeaderBytes, "evil", 4);
  const uint32_t cell = call->response.first;
  attacker_->Write(pair_.geometry().OffsetOf(cell), message,
                   Immediate{MessageKind::kResponse, 9, static_cast<uint16_t>(cell)}.Encode());
  const int64_t give_up = transport::MonotonicNs() + int64_t{60'000'000'000};
  while (!call->ended() && TotalDrops(pair_.client().dropped()) == 0) {
    attacker_->Poll();
    pair_.PollClient();
    ASSERT_LT(transport::MonotonicNs(), give_up);
  }
  if (!tagged()) {
    ASSERT_TRUE(call->ended());
    EXPECT_EQ(pair_.Text(*call), "evil");
    return;
  }
  EXPECT_FALSE(call->ended());
  EXPECT_EQ(pair_.client().dropped().bad_tag, 1u);
  ASSERT_TRUE(pair_.Until([&] { return call->ended(); }, attacker_.get()));
  ASSERT_TRUE(call->status.ok()) << call->status;
  EXPECT_EQ(pair_.Text(*call), "honest");
  pair_.client().Finish(call, false);
  EXPECT_TRUE(pair_.AllFree());
}

// A response that its caller still looks at does not change under it.
TEST_P(DataAuthTest, AResponseThatWasCheckedIsPrivateInFull) {
  Call* call = pair_.StartEcho("honest", 64);
  pair_.client().Flush();
  ASSERT_TRUE(pair_.UntilEnded(call));
  attacker_ = pair_.AttackClient();
  const uint64_t at = pair_.geometry().OffsetOf(call->response.first) + kHeaderBytes;
  const uint64_t dropped = TotalDrops(pair_.client().dropped());
  attacker_->Write(at, {reinterpret_cast<const std::byte*>("forged"), 6}, 0xffffffff);
  ASSERT_TRUE(
      pair_.Until([&] { return TotalDrops(pair_.client().dropped()) > dropped; }, attacker_.get()));
  EXPECT_EQ(pair_.Text(*call), GetParam().auth == DataAuth::kFull ? "honest" : "forged");
  pair_.client().Finish(call, false);
}

// A worker that gives less than the client wants is refused in words.
TEST(DataAuth, LessThanWhatTheClientWantsIsRefused) {
  std::unique_ptr<transport::Reactor> reactor = OpenReactor("tcp;ofi_rxm");
  ClientSession::Options options;
  options.window_bytes = 64 * 1024;
  options.data_auth = DataAuth::kFull;
  auto session = ClientSession::Create(reactor.get(), options);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->MakeRequest(Notification::kWriteImm).data_auth, DataAuth::kFull);
  bootstrap::OpenSessionReply reply;
  reply.endpoint_address = reactor->address();
  reply.request_window.length = options.window_bytes;
  reply.data_auth = DataAuth::kHeader;
  const absl::Status status = (*session)->Attach(reply);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_EQ(status.message(),
            "the client wants data_auth=full at least, and the worker gives header");
}

}  // namespace
}  // namespace invoker
