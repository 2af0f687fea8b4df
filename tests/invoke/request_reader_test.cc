#include "src/invoke/executor/session/request_reader.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

constexpr uint64_t kWindow = 64 * 1024;
constexpr uint32_t kEpoch = 7;
constexpr uint64_t kFirst = 100;

// A test writes to the window as a client would.
class RequestReaderTest : public testing::Test {
 protected:
  explicit RequestReaderTest(DataAuth auth = DataAuth::kOff)
      : reactor_(OpenReactor("shm")), geometry_(*WindowGeometry::Make(kWindow)) {
    transport::HostBuffer window = *transport::HostBuffer::Allocate(kWindow);
    window_ = window.data();
    if (auth != DataAuth::kOff) {
      geometry_ = geometry_.WithTags();
      keys_ = *DrawDataKeys();
      authenticators_ = std::make_unique<SessionAuthenticators>(
          auth, keys_, *transport::HostBuffer::Allocate(2 * kWindow));
    }
    auto region = reactor_->Register(std::move(window), transport::RegionUse::kRemoteTarget);
    EXPECT_TRUE(region.ok()) << region.status();
    reader_ = std::make_unique<RequestReader>(*std::move(region), geometry_, kEpoch, kFirst,
                                              authenticators_.get());
  }

  RequestHeader Header(uint64_t sequence) const {
    RequestHeader header;
    header.sequence = sequence;
    header.epoch = kEpoch;
    header.payload_bytes = 5;
    header.response_capacity = 64;
    return header;
  }
  std::byte* Put(uint32_t cell, const RequestHeader& header) {
    std::byte* const message = window_ + geometry_.OffsetOf(cell);
    Pack(header).CopyTo(message);
    memcpy(message + kHeaderBytes, "hello", 5);
    return message;
  }
  RequestReader::Drop Read(uint32_t cell, MessageKind kind = MessageKind::kRequest) {
    return reader_->Read(kind, cell, &request_);
  }

  std::unique_ptr<transport::Reactor> reactor_;
  WindowGeometry geometry_;
  DataKeys keys_;
  std::unique_ptr<SessionAuthenticators> authenticators_;
  std::byte* window_ = nullptr;
  std::unique_ptr<RequestReader> reader_;
  RequestReader::Request request_;
};

TEST_F(RequestReaderTest, AValidRequestIsReadWhereItIs) {
  const std::byte* const message = Put(3, Header(kFirst));
  ASSERT_EQ(Read(3), nullptr);
  EXPECT_EQ(request_.header.sequence, kFirst);
  EXPECT_EQ(request_.payload, message + kHeaderBytes);
  EXPECT_EQ(request_.flags, message + kFlagsOffset);
  EXPECT_FALSE(request_.more);
  EXPECT_TRUE(reader_->Seen(kFirst));
  EXPECT_FALSE(reader_->Seen(kFirst + 1));
}

TEST_F(RequestReaderTest, EveryFaultHasItsReason) {
  const uint32_t behind = geometry_.cells();
  EXPECT_EQ(Read(behind), &DropCounters::outside_window);
  EXPECT_EQ(Read(0), &DropCounters::not_a_header);
  Put(0, Header(kFirst));
  EXPECT_EQ(Read(0, MessageKind::kProbe), &DropCounters::kind_mismatch);
  RequestHeader header = Header(kFirst);
  header.payload_bytes = geometry_.MaxPayload();
  Put(1, header);
  EXPECT_EQ(Read(1), &DropCounters::outside_window);
  header = Header(kFirst);
  header.epoch = kEpoch + 1;
  Put(0, header);
  EXPECT_EQ(Read(0), &DropCounters::wrong_epoch);
  header = Header(kFirst);
  header.response_cell = static_cast<uint16_t>(geometry_.cells() - 1);
  header.response_capacity = geometry_.cell_bytes();
  Put(0, header);
  EXPECT_EQ(Read(0), &DropCounters::bad_response_run);
  Put(0, Header(kFirst - 1));
  EXPECT_EQ(Read(0), &DropCounters::replayed);
  Put(0, Header(kFirst + 2 * SequenceWindow::kMaxAdvance));
  EXPECT_EQ(Read(0), &DropCounters::stale_sequence);
  // No fault has used the sequence up.
  Put(0, Header(kFirst));
  EXPECT_EQ(Read(0), nullptr);
  EXPECT_EQ(Read(0), &DropCounters::replayed);
}

TEST_F(RequestReaderTest, AMessageThatIsDroppedDoesNotHideTheNextOneOfItsWrite) {
  RequestHeader header = Header(kFirst);
  header.epoch = kEpoch + 1;
  header.flags = kMoreFollows;
  Put(0, header);
  EXPECT_EQ(Read(0), &DropCounters::wrong_epoch);
  ASSERT_TRUE(request_.more);
  const uint32_t next = reader_->CellAfter(0, request_.header);
  EXPECT_EQ(next, 1u);
  Put(next, Header(kFirst));
  EXPECT_EQ(Read(next), nullptr);
  // A message without a sound header says nothing of a next one.
  EXPECT_EQ(Read(next + 1), &DropCounters::not_a_header);
  EXPECT_FALSE(request_.more);
}

TEST_F(RequestReaderTest, ARepeatedHeaderIsCompletedOnlyWhereItMayBe) {
  EXPECT_EQ(reader_->RestoreSequence(0, 1), &DropCounters::not_a_header);
  const uint32_t repeat = HeaderRepeat::Of(kFirst + 1, kEpoch).Encode();
  EXPECT_EQ(reader_->RestoreSequence(geometry_.cells(), repeat), &DropCounters::outside_window);
  EXPECT_EQ(reader_->RestoreSequence(0, repeat), &DropCounters::not_a_header);
  Put(0, Header(kFirst));
  ASSERT_EQ(Read(0), nullptr);
  EXPECT_EQ(reader_->RestoreSequence(0, HeaderRepeat::Of(kFirst + 1, kEpoch + 1).Encode()),
            &DropCounters::wrong_epoch);
  EXPECT_EQ(reader_->RestoreSequence(0, HeaderRepeat::Of(kFirst, kEpoch).Encode()),
            &DropCounters::replayed);
  EXPECT_EQ(Read(0), &DropCounters::replayed);
  ASSERT_EQ(reader_->RestoreSequence(0, repeat), nullptr);
  ASSERT_EQ(Read(0), nullptr);
  EXPECT_EQ(request_.header.sequence, kFirst + 1);
}

class TaggedRequestReaderTest : public RequestReaderTest {
 protected:
  TaggedRequestReaderTest() : RequestReaderTest(DataAuth::kFull) {}

  std::byte* PutTagged(uint32_t cell, const RequestHeader& header) {
    std::byte* const message = Put(cell, header);
    authenticators_->requests.Close(message, header.payload_bytes);
    return message;
  }
};

TEST_F(TaggedRequestReaderTest, AMessageIsReadFromAPrivateCopyOnceItsTagIsRight) {
  std::byte* const message = PutTagged(2, Header(kFirst));
  message[kHeaderBytes] ^= std::byte{1};
  EXPECT_EQ(Read(2), &DropCounters::bad_tag);
  message[kHeaderBytes] ^= std::byte{1};
  ASSERT_EQ(Read(2), nullptr);
  memcpy(message + kHeaderBytes, "later", 5);
  EXPECT_EQ(memcmp(request_.payload, "hello", 5), 0);
  // The first copy is made again for the next message.
  const std::byte* const kept = reader_->Keep(request_.header, request_.payload, 2);
  PutTagged(2, Header(kFirst + 1));
  memcpy(message + kHeaderBytes, "other", 5);
  authenticators_->requests.Close(message, 5);
  ASSERT_EQ(Read(2), nullptr);
  EXPECT_EQ(memcmp(request_.payload, "other", 5), 0);
  EXPECT_EQ(memcmp(kept, "hello", 5), 0);
}

TEST_F(TaggedRequestReaderTest, AReplayIsAReplayWhateverItsTag) {
  std::byte* const message = PutTagged(0, Header(kFirst));
  ASSERT_EQ(Read(0), nullptr);
  message[kHeaderBytes] ^= std::byte{1};
  EXPECT_EQ(Read(0), &DropCounters::replayed);
}

}  // namespace
}  // namespace invoker
