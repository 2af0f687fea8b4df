// Holds docs/reference/wire_format.md to the code: its worked example, byte for byte and both ways,
// and its tables.

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "src/invoke/wire/message_authenticator.h"
#include "src/invoke/wire/wire.h"
#include "src/transport/base/ring_message.h"

namespace invoker {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint16_t kRequestSession = 0x1234;
constexpr uint16_t kResponseSession = 0x0007;
constexpr uint32_t kRequestCell = 3;

class WireDocTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ifstream file("docs/reference/wire_format.md");  // a test starts in its runfiles
    ASSERT_TRUE(file.is_open());
    text_.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    ASSERT_NO_FATAL_FAILURE(ReadBlocks());
  }

  Bytes Block(const std::string& name) const {
    const auto block = blocks_.find(name);
    EXPECT_NE(block, blocks_.end()) << "docs/reference/wire_format.md has no hex block " << name;
    return block == blocks_.end() ? Bytes() : block->second;
  }

  std::string text_;
  std::map<std::string, Bytes> blocks_;

 private:
  // A block is lines of hex bytes, each with a comment after '#', in a fence ```hex name=NAME.
  void ReadBlocks() {
    Bytes* block = nullptr;
    for (absl::string_view line : absl::StrSplit(text_, '\n')) {
      if (absl::ConsumePrefix(&line, "```hex name=")) {
        const auto [at, inserted] = blocks_.emplace(std::string(line), Bytes());
        ASSERT_TRUE(inserted) << "two blocks are named " << line;
        block = &at->second;
      } else if (absl::StartsWith(line, "```")) {
        block = nullptr;
      } else if (block != nullptr) {
        const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits('#', 1));
        for (absl::string_view hex : absl::StrSplit(parts[0], ' ', absl::SkipEmpty())) {
          uint32_t value = 0;
          ASSERT_TRUE(hex.size() == 2 && absl::SimpleHexAtoi(hex, &value)) << line;
          block->push_back(static_cast<std::byte>(value));
        }
      }
    }
  }
};

RequestHeader HelloHeader() {
  RequestHeader header;
  header.function_id = 2;
  header.payload_bytes = 5;
  header.sequence = 42;
  header.epoch = 9;
  header.response_cell = 5;
  header.response_capacity = 32;
  header.deadline_us = 1000000;
  return header;
}

RequestHeader WorldHeader() {
  RequestHeader header = HelloHeader();
  header.payload_bytes = 6;
  header.sequence = 43;
  header.response_cell = 6;
  header.deadline_us = 0;
  return header;
}

void Append(absl::string_view payload, Bytes* to) {
  for (char c : payload) to->push_back(static_cast<std::byte>(c));
}

Bytes Encoded(const RequestHeader& header, absl::string_view payload) {
  Bytes bytes(kHeaderBytes);
  Pack(header).CopyTo(bytes.data());
  Append(payload, &bytes);
  return bytes;
}

Bytes Encoded(const ResponseHeader& header, absl::string_view payload) {
  Bytes bytes(kHeaderBytes);
  Pack(header).CopyTo(bytes.data());
  Append(payload, &bytes);
  return bytes;
}

Bytes LittleEndian(uint32_t token) {
  Bytes bytes;
  for (int shift = 0; shift < 32; shift += 8)
    bytes.push_back(static_cast<std::byte>(token >> shift));
  return bytes;
}

uint32_t FromLittleEndian(const Bytes& bytes) {
  uint32_t token = 0;
  for (size_t i = 0; i < bytes.size(); ++i) token |= static_cast<uint32_t>(bytes[i]) << (8 * i);
  return token;
}

std::string Payload(const Bytes& window, size_t message, uint32_t bytes) {
  const char* begin = reinterpret_cast<const char*>(window.data()) + message + kHeaderBytes;
  return std::string(begin, bytes);
}

void ExpectEqual(const RequestHeader& a, const RequestHeader& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.flags, b.flags);
  EXPECT_EQ(a.function_id, b.function_id);
  EXPECT_EQ(a.payload_bytes, b.payload_bytes);
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.response_cell, b.response_cell);
  EXPECT_EQ(a.response_capacity, b.response_capacity);
  EXPECT_EQ(a.deadline_us, b.deadline_us);
}

TEST_F(WireDocTest, HasTheBlocksCheckedHereAndNoOthers) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : blocks_) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"bulk_descriptor", "coalesced_pair", "eager_header",
                                             "repeat_immediate", "request", "request_immediate",
                                             "request_tag", "response", "response_immediate"}));
}

TEST_F(WireDocTest, EncodersWriteTheExample) {
  EXPECT_EQ(Encoded(HelloHeader(), "hello"), Block("request"));
  ResponseHeader response;
  response.payload_bytes = 5;
  response.sequence = 42;
  response.epoch = 9;
  EXPECT_EQ(Encoded(response, "hello"), Block("response"));

  const WindowGeometry geometry = *WindowGeometry::Make(4096);
  RequestHeader first = HelloHeader();
  first.flags = kMoreFollows;
  Bytes pair = Encoded(first, "hello");
  pair.resize(geometry.OffsetOf(geometry.CellsFor(pair.size())));
  const Bytes second = Encoded(WorldHeader(), "world!");
  pair.insert(pair.end(), second.begin(), second.end());
  EXPECT_EQ(pair, Block("coalesced_pair"));
  EXPECT_TRUE(absl::StrContains(text_, "102\nbytes at offset 192"));
  EXPECT_EQ(pair.size(), 102u);
}

TEST_F(WireDocTest, ImmediatesAreThoseOfTheExample) {
  const Immediate request{MessageKind::kRequest, kRequestSession, kRequestCell};
  const Immediate response{MessageKind::kResponse, kResponseSession, 5};
  EXPECT_EQ(LittleEndian(request.Encode()), Block("request_immediate"));
  EXPECT_EQ(LittleEndian(response.Encode()), Block("response_immediate"));
  for (const Immediate& immediate : {request, response}) {
    const std::string number = absl::StrCat("0x", absl::Hex(immediate.Encode(), absl::kZeroPad8));
    EXPECT_TRUE(absl::StrContains(text_, number)) << number;
  }
  const auto decoded = Immediate::Decode(FromLittleEndian(Block("response_immediate")));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->kind, MessageKind::kResponse);
  EXPECT_EQ(decoded->session, kResponseSession);
  EXPECT_EQ(decoded->cell, 5);
}

TEST_F(WireDocTest, TheRepeatIsAsTheExampleSays) {
  const uint64_t token = uint64_t{HeaderRepeat::Of(43, 9).Encode()} << 32 |
                         FromLittleEndian(Block("request_immediate"));
  Bytes bytes(sizeof(token));
  memcpy(bytes.data(), &token, sizeof(token));
  EXPECT_EQ(bytes, Block("repeat_immediate"));
  EXPECT_TRUE(absl::StrContains(text_, absl::StrCat("0x", absl::Hex(token))));
  const auto repeat = HeaderRepeat::Decode(static_cast<uint32_t>(token >> 32));
  ASSERT_TRUE(repeat.has_value());
  EXPECT_EQ(repeat->sequence, 43);
  EXPECT_TRUE(repeat->IsOfEpoch(9));
}

// Follows the immediate and the flags through a window, as a worker does.
TEST_F(WireDocTest, WorkerFindsBothMessagesOfThePair) {
  const WindowGeometry geometry = *WindowGeometry::Make(4096);
  const Bytes pair = Block("coalesced_pair");
  const auto immediate = Immediate::Decode(FromLittleEndian(Block("request_immediate")));
  ASSERT_TRUE(immediate.has_value());
  EXPECT_EQ(immediate->kind, MessageKind::kRequest);
  EXPECT_EQ(immediate->session, kRequestSession);
  EXPECT_EQ(immediate->cell, kRequestCell);
  ASSERT_TRUE(geometry.Fits(kRequestCell, pair.size()));
  EXPECT_EQ(geometry.OffsetOf(kRequestCell), 192u);
  Bytes window(geometry.window_bytes());
  std::copy(pair.begin(), pair.end(), window.begin() + geometry.OffsetOf(kRequestCell));

  uint32_t cell = immediate->cell;
  std::vector<RequestHeader> headers;
  std::vector<std::string> payloads;
  do {
    ASSERT_TRUE(geometry.Fits(cell, kHeaderBytes));
    const size_t offset = geometry.OffsetOf(cell);
    RequestHeader header;
    ASSERT_EQ(DecodeRequest(HeaderSnapshot::Take(window.data() + offset), &header),
              WireError::kNone);
    const uint64_t bytes = uint64_t{kHeaderBytes} + header.payload_bytes;
    ASSERT_TRUE(geometry.Fits(cell, bytes));
    headers.push_back(header);
    payloads.push_back(Payload(window, offset, header.payload_bytes));
    cell += geometry.CellsFor(bytes);
  } while ((headers.back().flags & kMoreFollows) != 0);

  EXPECT_EQ(payloads, (std::vector<std::string>{"hello", "world!"}));
  EXPECT_EQ(cell, 5u);
  RequestHeader first = HelloHeader();
  first.flags = kMoreFollows;
  ASSERT_EQ(headers.size(), 2u);
  ExpectEqual(headers[0], first);
  ExpectEqual(headers[1], WorldHeader());
}

TEST_F(WireDocTest, ClientReadsTheResponse) {
  const Bytes bytes = Block("response");
  ASSERT_GE(bytes.size(), kHeaderBytes);
  ResponseHeader header;
  ASSERT_EQ(DecodeResponse(HeaderSnapshot::Take(bytes.data()), &header), WireError::kNone);
  EXPECT_EQ(header.flags, 0);
  EXPECT_EQ(header.status, StatusCode::kOk);
  EXPECT_EQ(header.sequence, 42u);
  EXPECT_EQ(header.epoch, 9u);
  EXPECT_EQ(header.detail, 0u);
  ASSERT_EQ(header.payload_bytes, bytes.size() - kHeaderBytes);
  EXPECT_EQ(Payload(bytes, 0, header.payload_bytes), "hello");
}

TEST_F(WireDocTest, TheTagIsAsTheExampleSays) {
  DataKey key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(i);
  Bytes message = Block("request");
  message.resize(message.size() + kTagBytes);
  MessageAuthenticator(DataAuth::kFull, key).Close(message.data(), 5);
  EXPECT_EQ(Bytes(message.end() - kTagBytes, message.end()), Block("request_tag"));
  EXPECT_TRUE(absl::StrContains(text_, absl::StrCat(message.size(), " in all")));
}

TEST_F(WireDocTest, EagerHeaderIsAsTheExampleSays) {
  Bytes bytes(transport::kRingHeaderBytes);
  const uint32_t immediate = FromLittleEndian(Block("request_immediate"));
  transport::EncodeRingHeader(
      {transport::RingMessageType::kEager, immediate, 0x0123456789abcdef, 192}, bytes.data());
  EXPECT_EQ(bytes, Block("eager_header"));
  transport::RingHeader header;
  ASSERT_TRUE(transport::DecodeRingHeader(Block("eager_header"), &header));
  EXPECT_EQ(header.token, immediate);
  EXPECT_EQ(header.key, 0x0123456789abcdefu);
  EXPECT_EQ(header.offset, 192u);
}

TEST_F(WireDocTest, BulkDescriptorIsAsTheExampleSays) {
  BulkDescriptor descriptor;
  descriptor.input_window = 1;
  descriptor.output_window = 2;
  descriptor.input_length = uint64_t{1} << 30;
  descriptor.output_offset = descriptor.output_capacity = uint64_t{1} << 29;
  Bytes bytes(kBulkDescriptorBytes);
  EncodeBulkDescriptor(descriptor, bytes.data());
  EXPECT_EQ(bytes, Block("bulk_descriptor"));
  BulkDescriptor read;
  ASSERT_TRUE(DecodeBulkDescriptor(Block("bulk_descriptor").data(), &read));
  EXPECT_EQ(read.input_window, 1);
  EXPECT_EQ(read.output_window, 2);
  EXPECT_EQ(read.input_length, descriptor.input_length);
  EXPECT_EQ(read.output_offset, descriptor.output_offset);
}

TEST_F(WireDocTest, TableNamesEveryStatusCodeAndNoOthers) {
  for (uint16_t code = 0; code < kStatusCodes; ++code) {
    const std::string row =
        absl::StrCat("\n| ", code, " | ", StatusCodeName(static_cast<StatusCode>(code)), " | ");
    EXPECT_TRUE(absl::StrContains(text_, row)) << row;
  }
  const size_t table = text_.find("| status code | name |");
  ASSERT_NE(table, std::string::npos);
  const std::string rows = text_.substr(table, text_.find("\n\n", table) - table);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 1 + kStatusCodes);
}

TEST_F(WireDocTest, LimitsAreThoseOfTheCode) {
  const std::string window =
      absl::StrCat("a power of two, ", kMinWindowBytes, " bytes to 1 GiB (2^30)");
  EXPECT_TRUE(absl::StrContains(text_, window)) << window;
  EXPECT_EQ(kMaxWindowBytes, uint64_t{1} << 30);
  const std::string cell =
      absl::StrCat(kMinCellBytes, " bytes, or window / ", kMaxCells, " if that is more");
  EXPECT_TRUE(absl::StrContains(text_, cell)) << cell;
}

}  // namespace
}  // namespace invoker
