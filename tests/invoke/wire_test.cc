#include "src/invoke/wire/wire.h"

#include <array>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace invoker {
namespace {

using Bytes = std::array<std::byte, kHeaderBytes>;

template <typename... T>
Bytes MakeBytes(T... values) {
  static_assert(sizeof...(T) == kHeaderBytes, "a header has 32 bytes");
  return Bytes{static_cast<std::byte>(values)...};
}

// Every field has bytes of its own, so that one in the wrong place or order shows.
RequestHeader SomeRequest() {
  RequestHeader header;
  header.kind = MessageKind::kRequest;
  header.flags = kMoreFollows;
  header.function_id = 0x0203;
  header.payload_bytes = 0x04050607;
  header.sequence = 0x08090a0b0c0d0e0f;
  header.epoch = 0x10111213;
  header.response_cell = 0x1415;
  header.response_capacity = 0x18191a1b;
  header.deadline_us = 0x1c1d1e1f;
  return header;
}

ResponseHeader SomeResponse() {
  ResponseHeader header;
  header.flags = kMoreFollows;
  header.status = StatusCode::kResponseTooLarge;
  header.payload_bytes = 0x04050607;
  header.sequence = 0x08090a0b0c0d0e0f;
  header.epoch = 0x10111213;
  header.detail = 0x18191a1b;
  return header;
}

HeaderSnapshot Encoded(const RequestHeader& header) {
  Bytes bytes;
  Pack(header).CopyTo(bytes.data());
  return HeaderSnapshot::Take(bytes.data());
}

HeaderSnapshot Encoded(const ResponseHeader& header) {
  Bytes bytes;
  Pack(header).CopyTo(bytes.data());
  return HeaderSnapshot::Take(bytes.data());
}

Bytes InMemory(const HeaderSnapshot& snapshot) {
  Bytes bytes;
  snapshot.CopyTo(bytes.data());
  return bytes;
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

void ExpectEqual(const ResponseHeader& a, const ResponseHeader& b) {
  EXPECT_EQ(a.flags, b.flags);
  EXPECT_EQ(a.status, b.status);
  EXPECT_EQ(a.payload_bytes, b.payload_bytes);
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.detail, b.detail);
}

TEST(ImmediateTest, PacksKindSessionAndCellIntoTheirBits) {
  static_assert(Immediate{MessageKind::kRequest, 0x1234, 3}.Encode() == 0x048d0003u, "");
  static_assert(Immediate{MessageKind::kResponse, 0, 0}.Encode() == 0x40000000u, "");
  static_assert(Immediate{MessageKind::kProbe, 0xffff, kMaxCells - 1}.Encode() == 0xbfffffffu, "");
  static_assert(Immediate{MessageKind::kRequest, 1, 0}.Encode() == 0x00004000u, "");
}

TEST(ImmediateTest, DecodesWhatItEncodes) {
  for (MessageKind kind : {MessageKind::kRequest, MessageKind::kResponse, MessageKind::kProbe}) {
    for (uint32_t session : {0u, 1u, 0x1234u, 0x8000u, 0xffffu}) {
      for (uint32_t cell : {0u, 1u, 63u, 0x2000u, kMaxCells - 1}) {
        const Immediate sent{kind, static_cast<uint16_t>(session), static_cast<uint16_t>(cell)};
        const std::optional<Immediate> got = Immediate::Decode(sent.Encode());
        ASSERT_TRUE(got.has_value());
        EXPECT_EQ(got->kind, kind);
        EXPECT_EQ(got->session, session);
        EXPECT_EQ(got->cell, cell);
      }
    }
  }
}

TEST(ImmediateTest, RefusesTheReservedKind) {
  EXPECT_FALSE(Immediate::Decode(0xc0000000u).has_value());
  EXPECT_FALSE(Immediate::Decode(0xffffffffu).has_value());
}

TEST(ImmediateTest, CellOutOfRangeLeavesTheSessionAlone) {
  const Immediate sent{MessageKind::kRequest, 8, static_cast<uint16_t>(kMaxCells + 5)};
  EXPECT_EQ(Immediate::Decode(sent.Encode())->session, 8);
}

TEST(RequestHeaderTest, LiesInMemoryAsSpecified) {
  const Bytes expected = MakeBytes(1, 1, 3, 2, 7, 6, 5, 4,                    //
                                   0xf, 0xe, 0xd, 0xc, 0xb, 0xa, 9, 8,        //
                                   0x13, 0x12, 0x11, 0x10, 0x15, 0x14, 0, 0,  //
                                   0x1b, 0x1a, 0x19, 0x18, 0x1f, 0x1e, 0x1d, 0x1c);
  EXPECT_EQ(InMemory(Encoded(SomeRequest())), expected);
}

TEST(ResponseHeaderTest, LiesInMemoryAsSpecified) {
  const Bytes expected = MakeBytes(2, 1, 3, 0, 7, 6, 5, 4,              //
                                   0xf, 0xe, 0xd, 0xc, 0xb, 0xa, 9, 8,  //
                                   0x13, 0x12, 0x11, 0x10, 0, 0, 0, 0,  //
                                   0x1b, 0x1a, 0x19, 0x18, 0, 0, 0, 0);
  EXPECT_EQ(InMemory(Encoded(SomeResponse())), expected);
}

TEST(RequestHeaderTest, EncodingOverwritesExactly32Bytes) {
  std::array<std::byte, kHeaderBytes + 2> around;
  around.fill(std::byte{0xa5});
  Pack(RequestHeader{}).CopyTo(around.data() + 1);
  EXPECT_EQ(around.front(), std::byte{0xa5});
  EXPECT_EQ(around.back(), std::byte{0xa5});
  for (size_t i = 2; i <= kHeaderBytes; ++i) EXPECT_EQ(around[i], std::byte{0}) << i;
}

TEST(ResponseHeaderTest, EncodingOverwritesExactly32Bytes) {
  std::array<std::byte, kHeaderBytes + 2> around;
  around.fill(std::byte{0xa5});
  Pack(ResponseHeader{}).CopyTo(around.data() + 1);
  EXPECT_EQ(around.front(), std::byte{0xa5});
  EXPECT_EQ(around.back(), std::byte{0xa5});
  for (size_t i = 2; i <= kHeaderBytes; ++i) EXPECT_EQ(around[i], std::byte{0}) << i;
}

TEST(RequestHeaderTest, DecodesWhatItEncodes) {
  RequestHeader largest = SomeRequest();
  largest.function_id = std::numeric_limits<uint16_t>::max();
  largest.payload_bytes = std::numeric_limits<uint32_t>::max();
  largest.sequence = std::numeric_limits<uint64_t>::max();
  largest.epoch = std::numeric_limits<uint32_t>::max();
  largest.response_cell = std::numeric_limits<uint16_t>::max();
  largest.response_capacity = std::numeric_limits<uint32_t>::max();
  largest.deadline_us = std::numeric_limits<uint32_t>::max();
  RequestHeader probe = SomeRequest();
  probe.kind = MessageKind::kProbe;
  for (const RequestHeader& sent : {SomeRequest(), largest, probe, RequestHeader{}}) {
    RequestHeader got = SomeRequest();
    ASSERT_EQ(DecodeRequest(Encoded(sent), &got), WireError::kNone);
    ExpectEqual(got, sent);
  }
}

TEST(ResponseHeaderTest, DecodesEveryStatus) {
  for (uint16_t code = 0; code < kStatusCodes; ++code) {
    ResponseHeader sent = SomeResponse();
    sent.status = static_cast<StatusCode>(code);
    ResponseHeader got;
    ASSERT_EQ(DecodeResponse(Encoded(sent), &got), WireError::kNone);
    ExpectEqual(got, sent);
  }
}

TEST(RequestHeaderTest, AcceptsOnlyTheKindsSentToAWorker) {
  for (int kind = 0; kind < 256; ++kind) {
    HeaderSnapshot snapshot = Encoded(SomeRequest());
    snapshot.data()[0] = static_cast<std::byte>(kind);
    RequestHeader got;
    const bool good = kind == 1 || kind == 3;
    EXPECT_EQ(DecodeRequest(snapshot, &got), good ? WireError::kNone : WireError::kBadKind) << kind;
  }
}

TEST(ResponseHeaderTest, AcceptsOnlyTheKindSentToAClient) {
  for (int kind = 0; kind < 256; ++kind) {
    HeaderSnapshot snapshot = Encoded(SomeResponse());
    snapshot.data()[0] = static_cast<std::byte>(kind);
    ResponseHeader got;
    EXPECT_EQ(DecodeResponse(snapshot, &got), kind == 2 ? WireError::kNone : WireError::kBadKind)
        << kind;
  }
}

TEST(HeaderTest, ZeroedMemoryIsNoHeader) {
  const Bytes zeros{};
  RequestHeader request;
  ResponseHeader response;
  EXPECT_EQ(DecodeRequest(HeaderSnapshot::Take(zeros.data()), &request), WireError::kBadKind);
  EXPECT_EQ(DecodeResponse(HeaderSnapshot::Take(zeros.data()), &response), WireError::kBadKind);
}

TEST(HeaderTest, EachUnknownFlagIsRefused) {
  for (int bit = 1; bit < 8; ++bit) {
    HeaderSnapshot request = Encoded(SomeRequest());
    HeaderSnapshot response = Encoded(SomeResponse());
    request.data()[1] |= static_cast<std::byte>(1 << bit);
    response.data()[1] |= static_cast<std::byte>(1 << bit);
    RequestHeader got_request;
    ResponseHeader got_response;
    const bool known = (1 << bit & (kBulk | kCancelled | kStore)) != 0;
    const WireError of_request = known ? WireError::kNone : WireError::kUnknownFlags;
    EXPECT_EQ(DecodeRequest(request, &got_request), of_request) << bit;
    EXPECT_EQ(DecodeResponse(response, &got_response), WireError::kUnknownFlags) << bit;
  }
}

TEST(BulkDescriptorTest, DecodesWhatWasEncoded) {
  BulkDescriptor both;
  both.input_window = 0xffff;
  both.output_window = 0x0102;
  both.input_offset = std::numeric_limits<uint64_t>::max();
  both.input_length = 0x0102030405060708;
  both.output_offset = 0x1112131415161718;
  both.output_capacity = std::numeric_limits<uint64_t>::max() - 1;
  BulkDescriptor input_only = both;
  input_only.output_window = 0;
  input_only.output_offset = input_only.output_capacity = 0;
  for (const BulkDescriptor& sent : {both, input_only, BulkDescriptor{}}) {
    std::array<std::byte, kBulkDescriptorBytes> bytes;
    EncodeBulkDescriptor(sent, bytes.data());
    BulkDescriptor got;
    ASSERT_TRUE(DecodeBulkDescriptor(bytes.data(), &got));
    EXPECT_EQ(got.input_window, sent.input_window);
    EXPECT_EQ(got.output_window, sent.output_window);
    EXPECT_EQ(got.input_offset, sent.input_offset);
    EXPECT_EQ(got.input_length, sent.input_length);
    EXPECT_EQ(got.output_offset, sent.output_offset);
    EXPECT_EQ(got.output_capacity, sent.output_capacity);
  }
}

TEST(BulkDescriptorTest, RefusesReservedBitsAndPlacesInNoWindow) {
  for (size_t at = 4; at < kBulkDescriptorBytes; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::array<std::byte, kBulkDescriptorBytes> bytes = {};
      bytes[at] = static_cast<std::byte>(1 << bit);
      BulkDescriptor got;
      EXPECT_FALSE(DecodeBulkDescriptor(bytes.data(), &got)) << at << " " << bit;
    }
  }
}

TEST(HeaderTest, EachReservedBitIsRefused) {
  for (size_t at : {22, 23}) {
    for (int bit = 0; bit < 8; ++bit) {
      HeaderSnapshot snapshot = Encoded(SomeRequest());
      snapshot.data()[at] = static_cast<std::byte>(1 << bit);
      RequestHeader got;
      EXPECT_EQ(DecodeRequest(snapshot, &got), WireError::kNonzeroReserved) << at << " " << bit;
    }
  }
  for (size_t at : {20, 21, 22, 23, 28, 29, 30, 31}) {
    for (int bit = 0; bit < 8; ++bit) {
      HeaderSnapshot snapshot = Encoded(SomeResponse());
      snapshot.data()[at] = static_cast<std::byte>(1 << bit);
      ResponseHeader got;
      EXPECT_EQ(DecodeResponse(snapshot, &got), WireError::kNonzeroReserved) << at << " " << bit;
    }
  }
}

TEST(ResponseHeaderTest, RefusesAnUndefinedStatus) {
  for (int status : {static_cast<int>(kStatusCodes), 0x100, 0xffff}) {
    ResponseHeader sent;
    sent.status = static_cast<StatusCode>(status);
    ResponseHeader got;
    EXPECT_EQ(DecodeResponse(Encoded(sent), &got), WireError::kUnknownStatus) << status;
  }
}

TEST(HeaderTest, RefusedHeaderLeavesTheResultAlone) {
  const Bytes zeros{};
  RequestHeader request = SomeRequest();
  ResponseHeader response = SomeResponse();
  EXPECT_NE(DecodeRequest(HeaderSnapshot::Take(zeros.data()), &request), WireError::kNone);
  EXPECT_NE(DecodeResponse(HeaderSnapshot::Take(zeros.data()), &response), WireError::kNone);
  ExpectEqual(request, SomeRequest());
  ExpectEqual(response, SomeResponse());
}

TEST(HeaderTest, SnapshotDoesNotFollowTheWindow) {
  Bytes window;
  Pack(SomeRequest()).CopyTo(window.data());
  const HeaderSnapshot snapshot = HeaderSnapshot::Take(window.data());
  window.fill(std::byte{0xff});
  RequestHeader got;
  ASSERT_EQ(DecodeRequest(snapshot, &got), WireError::kNone);
  ExpectEqual(got, SomeRequest());
}

TEST(WindowGeometryTest, SmallWindowsHaveCellsOfACacheLine) {
  const auto smallest = WindowGeometry::Make(4096);
  ASSERT_TRUE(smallest.ok());
  EXPECT_EQ(smallest->cell_bytes(), 64u);
  EXPECT_EQ(smallest->cells(), 64u);
  const auto last_of_64 = WindowGeometry::Make(1 << 20);
  ASSERT_TRUE(last_of_64.ok());
  EXPECT_EQ(last_of_64->cell_bytes(), 64u);
  EXPECT_EQ(last_of_64->cells(), kMaxCells);
}

TEST(WindowGeometryTest, EveryValidSizeIsWholeCellsThatAnImmediateCanName) {
  for (uint64_t bytes = kMinWindowBytes; bytes <= kMaxWindowBytes; bytes *= 2) {
    const auto geometry = WindowGeometry::Make(bytes);
    ASSERT_TRUE(geometry.ok()) << geometry.status();
    EXPECT_EQ(geometry->window_bytes(), bytes);
    EXPECT_EQ(geometry->cell_bytes(), bytes / kMaxCells > 64 ? bytes / kMaxCells : 64);
    EXPECT_LE(geometry->cells(), kMaxCells);
    EXPECT_EQ(uint64_t{geometry->cells()} * geometry->cell_bytes(), bytes);
    EXPECT_EQ(geometry->OffsetOf(geometry->cells()), bytes);
    EXPECT_EQ(geometry->MaxPayload(), bytes - 32);
    EXPECT_EQ(geometry->CellsFor(uint64_t{kHeaderBytes} + geometry->MaxPayload()),
              geometry->cells());
  }
}

TEST(WindowGeometryTest, RefusesOtherSizesAndSaysWhichArePossible) {
  for (uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, uint64_t{2048}, uint64_t{4095}, uint64_t{4097}, uint64_t{12288},
        kMaxWindowBytes + 1, kMaxWindowBytes * 2, uint64_t{1} << 63, ~uint64_t{0}}) {
    const auto geometry = WindowGeometry::Make(bytes);
    ASSERT_EQ(geometry.status().code(), absl::StatusCode::kInvalidArgument) << bytes;
    for (const std::string& part : {std::to_string(bytes), std::string("4096"),
                                    std::string("1073741824"), std::string("power of two")}) {
      EXPECT_TRUE(absl::StrContains(geometry.status().message(), part)) << geometry.status();
    }
  }
}

TEST(WindowGeometryTest, CellsForRoundsUpAndNeverCutsASize) {
  const WindowGeometry geometry = *WindowGeometry::Make(4096);
  EXPECT_EQ(geometry.CellsFor(0), 0u);
  EXPECT_EQ(geometry.CellsFor(32), 1u);
  EXPECT_EQ(geometry.CellsFor(64), 1u);
  EXPECT_EQ(geometry.CellsFor(65), 2u);
  EXPECT_EQ(geometry.CellsFor(4096), 64u);
  EXPECT_EQ(geometry.CellsFor(4097), 65u);
  EXPECT_EQ(geometry.CellsFor((uint64_t{1} << 38) + 64), 65u);
  EXPECT_EQ(geometry.CellsFor(~uint64_t{0}), 65u);
}

TEST(WindowGeometryTest, FitsExactlyWhatEndsInTheWindow) {
  for (uint64_t bytes : {kMinWindowBytes, uint64_t{1} << 20, uint64_t{1} << 21, kMaxWindowBytes}) {
    const WindowGeometry geometry = *WindowGeometry::Make(bytes);
    const uint32_t cell = geometry.cell_bytes();
    const uint32_t last = geometry.cells() - 1;
    EXPECT_TRUE(geometry.Fits(0, bytes));
    EXPECT_FALSE(geometry.Fits(0, bytes + 1));
    EXPECT_TRUE(geometry.Fits(1, bytes - cell));
    EXPECT_FALSE(geometry.Fits(1, bytes - cell + 1));
    EXPECT_TRUE(geometry.Fits(last, kHeaderBytes));
    EXPECT_TRUE(geometry.Fits(last, cell));
    EXPECT_FALSE(geometry.Fits(last, cell + 1));
    EXPECT_FALSE(geometry.Fits(geometry.cells(), kHeaderBytes));
  }
}

TEST(WindowGeometryTest, FitsDoesNotOverflow) {
  const WindowGeometry geometry = *WindowGeometry::Make(kMaxWindowBytes);
  const uint32_t largest = std::numeric_limits<uint32_t>::max();
  EXPECT_FALSE(geometry.Fits(0, uint64_t{kHeaderBytes} + largest));
  EXPECT_FALSE(geometry.Fits(1, ~uint64_t{0}));
  EXPECT_FALSE(geometry.Fits(1, ~uint64_t{0} - geometry.cell_bytes() + 1));
  EXPECT_FALSE(geometry.Fits(largest, kHeaderBytes));
  // A cell whose offset is 2^32: it would be 0 in 32 bits.
  EXPECT_FALSE(geometry.Fits(1u << 16, kHeaderBytes));
}

TEST(StatusCodeTest, EachHasItsOwnNameAndAllButTwoTheirOwnStatus) {
  std::set<std::string> names;
  std::set<absl::StatusCode> codes;
  for (uint16_t code = 0; code < kStatusCodes; ++code) {
    names.emplace(StatusCodeName(static_cast<StatusCode>(code)));
    codes.insert(ToStatus(static_cast<StatusCode>(code), 0, "").code());
  }
  EXPECT_EQ(names.size(), kStatusCodes);
  EXPECT_EQ(names.count("undefined"), 0u);
  // Two are RESOURCE_EXHAUSTED: one has run, the other not, which the call's fate says.
  EXPECT_EQ(codes.size(), kStatusCodes - 1);
}

TEST(StatusCodeTest, OkIsOkWhateverElseTheResponseSays) {
  EXPECT_TRUE(ToStatus(StatusCode::kOk, 7, "leftover").ok());
}

TEST(StatusCodeTest, ErrorsCarryTheWorkersMessage) {
  for (uint16_t code = 1; code < kStatusCodes; ++code) {
    const absl::Status status = ToStatus(static_cast<StatusCode>(code), 0, "the worker's words");
    EXPECT_TRUE(absl::EndsWith(status.message(), ": the worker's words")) << status;
    const absl::Status silent = ToStatus(static_cast<StatusCode>(code), 0, "");
    EXPECT_FALSE(absl::EndsWith(silent.message(), ": ")) << silent;
  }
}

TEST(StatusCodeTest, DetailIsSaidWhereItMeansSomething) {
  EXPECT_TRUE(absl::StrContains(ToStatus(StatusCode::kFunctionFailed, 4711, "").message(), "4711"));
  EXPECT_TRUE(
      absl::StrContains(ToStatus(StatusCode::kResponseTooLarge, 4711, "").message(), "4711"));
}

TEST(StatusCodeTest, UndefinedCodeIsAnErrorThatNamesIt) {
  const absl::Status status = ToStatus(static_cast<StatusCode>(999), 0, "");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(status.message(), "999"));
  EXPECT_EQ(StatusCodeName(static_cast<StatusCode>(999)), "undefined");
}

TEST(WireErrorTest, EachHasItsOwnName) {
  std::set<std::string> names;
  for (WireError error : {WireError::kNone, WireError::kBadKind, WireError::kUnknownFlags,
                          WireError::kNonzeroReserved, WireError::kUnknownStatus}) {
    names.emplace(WireErrorName(error));
  }
  EXPECT_EQ(names.size(), 5u);
  EXPECT_EQ(names.count("undefined"), 0u);
}

TEST(HeaderRepeatTest, EveryOneComesBackAndNothingElseIsTaken) {
  for (const uint64_t sequence : {uint64_t{0}, uint64_t{1}, uint64_t{0x1ffff}, ~uint64_t{0}}) {
    for (const uint32_t epoch : {0u, 9u, 0x3fffu, 0x4000u, ~0u}) {
      const uint32_t upper = HeaderRepeat::Of(sequence, epoch).Encode();
      const auto repeat = HeaderRepeat::Decode(upper);
      ASSERT_TRUE(repeat.has_value());
      EXPECT_EQ(repeat->sequence, static_cast<uint16_t>(sequence));
      EXPECT_TRUE(repeat->IsOfEpoch(epoch));
      EXPECT_FALSE(repeat->IsOfEpoch(epoch + 1));
    }
  }
  for (const uint32_t upper : {0u, 1u, 0x3fffffffu, 0x40000000u, 0x7fffffffu, 0xc0000000u, ~0u}) {
    EXPECT_FALSE(HeaderRepeat::Decode(upper).has_value()) << upper;
  }
}

TEST(HeaderRepeatTest, EveryFieldButTheSequenceCounts) {
  RequestHeader header;
  header.function_id = 3;
  header.payload_bytes = 4096;
  header.epoch = 9;
  const HeaderSnapshot before = Pack(header);
  header.sequence = ~uint64_t{0};
  const HeaderSnapshot after = Pack(header);
  EXPECT_TRUE(IsRepeated(after, before));
  for (uint32_t i = 0; i < kHeaderBytes; ++i) {
    HeaderSnapshot changed = after;
    changed.data()[i] ^= std::byte{1};
    const bool in_sequence = i >= kSequenceOffset && i < kSequenceOffset + sizeof(uint64_t);
    EXPECT_EQ(IsRepeated(changed, before), in_sequence) << i;
  }
}

TEST(HeaderRepeatTest, OneThatSaysThatAnotherMessageFollowsIsNotRepeated) {
  Bytes header = InMemory(Pack(RequestHeader{}));
  EXPECT_TRUE(MayBeRepeated(header.data()));
  header[kFlagsOffset] = std::byte{kMoreFollows};
  EXPECT_FALSE(MayBeRepeated(header.data()));
  EXPECT_FALSE(MayBeRepeated(Bytes{}.data()));
}

TEST(ProbeTest, ItsFunctionIdIsALengthRoundedUp) {
  EXPECT_EQ(AnswersInPieces(0), 1);
  EXPECT_EQ(AnswersInPieces(1), 2);
  EXPECT_EQ(AnswersInPieces(1024), 2);
  EXPECT_EQ(AnswersInPieces(65536), 65);
}

}  // namespace
}  // namespace invoker
