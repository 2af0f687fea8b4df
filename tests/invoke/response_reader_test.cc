#include "src/invoke/session/response_reader.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

constexpr uint64_t kWindow = 64 * 1024;
constexpr uint32_t kEpoch = 7;
constexpr uint32_t kCell = 3;

// The test writes into the response window, as a worker would.
class ResponseReaderTest : public testing::Test {
 protected:
  ResponseReaderTest() : reactor_(OpenReactor("shm")), geometry_(*WindowGeometry::Make(kWindow)) {
    auto window = reactor_->Register(*transport::HostBuffer::Allocate(kWindow),
                                     transport::RegionUse::kRemoteTarget);
    EXPECT_TRUE(window.ok()) << window.status();
    window_ = window->data();
    reader_ = std::make_unique<ResponseReader>(reactor_.get(), *std::move(window), geometry_,
                                               /*session=*/9);
    reader_->Attach(geometry_, kEpoch, /*authenticators=*/nullptr);
    calls_ = std::make_unique<CallTable>(geometry_.cells(),
                                         /*first_sequence=*/20);
  }

  Call* Begin(uint32_t cell) {
    Call* call = calls_->Begin({cell, 2});
    call->response_capacity = 8;
    return call;
  }
  ResponseHeader AnswerTo(const Call& call, const std::string& payload) {
    ResponseHeader header;
    header.sequence = call.sequence;
    header.epoch = kEpoch;
    header.payload_bytes = static_cast<uint32_t>(payload.size());
    return header;
  }
  void Place(uint32_t cell, const ResponseHeader& header, const std::string& payload) {
    std::byte* const message = window_ + geometry_.OffsetOf(cell);
    Pack(header).CopyTo(message);
    memcpy(message + kHeaderBytes, payload.data(), payload.size());
  }
  // The same of a message whose call waits at `place`.
  void PlaceRelocated(uint32_t cell, const ResponseHeader& header, const std::string& payload,
                      uint32_t place) {
    Place(cell, header, payload);
    Relocation::Mark(Pack(header), place).CopyTo(window_ + geometry_.OffsetOf(cell));
  }
  // The payloads of the valid messages of one write.
  std::vector<std::string> Read(uint32_t cell) {
    std::vector<std::string> payloads;
    reader_->Read<false>(
        cell, calls_.get(), [&](Call*, const ResponseHeader& header, const std::byte* payload) {
          payloads.emplace_back(reinterpret_cast<const char*>(payload), header.payload_bytes);
        });
    return payloads;
  }

  std::unique_ptr<transport::Reactor> reactor_;
  WindowGeometry geometry_;
  std::byte* window_ = nullptr;
  std::unique_ptr<ResponseReader> reader_;
  std::unique_ptr<CallTable> calls_;
};

TEST_F(ResponseReaderTest, AValidResponseIsTakenOnce) {
  const Call* call = Begin(kCell);
  Place(kCell, AnswerTo(*call, "result"), "result");
  EXPECT_EQ(Read(kCell), std::vector<std::string>{"result"});
  EXPECT_EQ(Read(kCell), std::vector<std::string>{});
  EXPECT_EQ(reader_->answers(), 1u);
  EXPECT_EQ(reader_->dropped().no_such_call, 1u);
}

TEST_F(ResponseReaderTest, AResponseIsReadWhereItsCallWaitsForIt) {
  const Call* call = Begin(kCell);
  Place(kCell + 2, AnswerTo(*call, "x"), "x");
  EXPECT_TRUE(Read(kCell + 2).empty());
  EXPECT_EQ(reader_->dropped().no_such_call, 1u);
}

TEST_F(ResponseReaderTest, WhatIsNotThisCallsResponseIsDroppedByReason) {
  const Call* call = Begin(kCell);
  ResponseHeader header = AnswerTo(*call, "result");
  ++header.epoch;
  Place(kCell, header, "result");
  EXPECT_TRUE(Read(kCell).empty());
  EXPECT_EQ(reader_->dropped().wrong_epoch, 1u);

  header = AnswerTo(*call, "result");
  --header.sequence;
  Place(kCell, header, "result");
  EXPECT_TRUE(Read(kCell).empty());
  EXPECT_EQ(reader_->dropped().wrong_sequence, 1u);

  Place(kCell, AnswerTo(*call, "too long for it"), "too long for it");
  EXPECT_TRUE(Read(kCell).empty());
  EXPECT_EQ(reader_->dropped().too_long, 1u);

  memset(window_ + geometry_.OffsetOf(kCell), 0xff, kHeaderBytes);
  EXPECT_TRUE(Read(kCell).empty());
  EXPECT_EQ(reader_->dropped().not_a_header, 1u);

  EXPECT_TRUE(Read(kMaxCells - 1).empty());
  EXPECT_EQ(reader_->dropped().outside_window, 1u);

  // None of them has cost the call its response.
  Place(kCell, AnswerTo(*call, "result"), "result");
  EXPECT_EQ(Read(kCell), std::vector<std::string>{"result"});
}

TEST_F(ResponseReaderTest, AMessageBehindADroppedOneIsRead) {
  const Call* first = Begin(kCell);
  const uint32_t next = kCell + geometry_.CellsFor(kHeaderBytes + 1);
  const Call* second = Begin(next);
  ResponseHeader wrong = AnswerTo(*first, "a");
  wrong.flags = kMoreFollows;
  ++wrong.epoch;
  Place(kCell, wrong, "a");
  Place(next, AnswerTo(*second, "b"), "b");
  EXPECT_EQ(Read(kCell), std::vector<std::string>{"b"});
}

TEST_F(ResponseReaderTest, RelocatedResponsesAreReadWhereTheirCallsWait) {
  const Call* const first = Begin(kCell);
  const Call* const second = Begin(40);
  const Call* const third = Begin(30);
  ResponseHeader header = AnswerTo(*first, "a");
  header.flags = kMoreFollows;
  Place(kCell, header, "a");
  header = AnswerTo(*second, "b");
  header.flags = kMoreFollows;
  PlaceRelocated(kCell + 1, header, "b", 40);
  PlaceRelocated(kCell + 2, AnswerTo(*third, "c"), "c", 30);
  EXPECT_EQ(Read(kCell), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(*reader_->Payload(second->response), std::byte{'b'});
  EXPECT_EQ(*reader_->Payload(third->response), std::byte{'c'});
  EXPECT_EQ(reader_->answers(), 3u);
}

TEST_F(ResponseReaderTest, ARelocatedResponseThatIsNoneIsDroppedByReason) {
  const uint32_t place = 40;
  const Call* const call = Begin(place);
  Place(place, AnswerTo(*call, "result"), "result");
  const auto relocated = [&](const ResponseHeader& header, uint32_t to) {
    ResponseHeader first = AnswerTo(*Begin(kCell), "");
    first.flags = kMoreFollows;
    Place(kCell, first, "");
    PlaceRelocated(kCell + 1, header, "wrong", to);
    EXPECT_EQ(Read(kCell).size(), 1u);
  };
  const ResponseHeader right = AnswerTo(*call, "wrong");
  ResponseHeader header = right;
  ++header.epoch;
  relocated(header, place);
  EXPECT_EQ(reader_->dropped().wrong_epoch, 1u);
  // An old one, whose doorbell has come again.
  header = right;
  --header.sequence;
  relocated(header, place);
  EXPECT_EQ(reader_->dropped().wrong_sequence, 1u);
  header = right;
  header.payload_bytes = 9;
  relocated(header, place);
  EXPECT_EQ(reader_->dropped().too_long, 1u);
  relocated(right, place + 1);
  EXPECT_EQ(reader_->dropped().no_such_call, 1u);
  relocated(right, geometry_.cells());
  header.payload_bytes = UINT32_MAX;
  relocated(header, place);
  EXPECT_EQ(reader_->dropped().too_long, 2u);
  EXPECT_EQ(reader_->dropped().outside_window, 1u);
  relocated(right, kMaxCells << 2);  // in what is reserved
  EXPECT_EQ(reader_->dropped().not_a_header, 1u);
  // Nothing lies before it in its write.
  PlaceRelocated(kCell, right, "wrong", place);
  EXPECT_TRUE(Read(kCell).empty());
  EXPECT_EQ(reader_->dropped().not_a_header, 2u);
  // The call's own response is untouched.
  EXPECT_EQ(Read(place), std::vector<std::string>{"result"});
}

TEST_F(ResponseReaderTest, ChainsEndAtTheEndOfTheWindow) {
  const Call* call = Begin(kCell);
  ResponseHeader endless = AnswerTo(*call, "");
  endless.flags = kMoreFollows;
  for (uint32_t cell = kCell; geometry_.Fits(cell, kHeaderBytes);
       cell += geometry_.CellsFor(kHeaderBytes)) {
    Place(cell, endless, "");
  }
  EXPECT_EQ(Read(kCell).size(), 1u);
  EXPECT_EQ(reader_->dropped().outside_window, 1u);
}

}  // namespace
}  // namespace invoker
