// What a client's session counts of each function.

#include "src/invoke/session/call_meters.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>

namespace invoker {
namespace {

using bootstrap::FunctionCounts;

class CallMetersTest : public testing::Test {
 protected:
  Call Begin(uint16_t function, absl::Span<const std::byte> input, uint8_t flags = 0,
             MessageKind kind = MessageKind::kRequest) {
    CallRequest request;
    request.kind = kind;
    request.function_id = function;
    request.flags = flags;
    request.input = input;
    Call call;
    call.flags = flags;
    meters_.Begin(request, &call);
    return call;
  }
  void End(Call call, absl::Span<const std::byte> payload) {
    call.payload_bytes = static_cast<uint32_t>(payload.size());
    meters_.End(call, payload.data());
  }
  std::map<uint16_t, FunctionCounts> Read() const {
    std::map<uint16_t, FunctionCounts> all;
    meters_.ForEach([&all](uint16_t id, const FunctionCounts& counts) { all[id] = counts; });
    return all;
  }

  CallMeters meters_;
  const std::array<std::byte, 100> bytes_ = {};
};

TEST_F(CallMetersTest, EachFunctionHasItsCallsAndBytes) {
  End(Begin(3, bytes_), absl::MakeConstSpan(bytes_).first(7));
  End(Begin(3, bytes_), {});
  End(Begin(70, {}), bytes_);
  std::map<uint16_t, FunctionCounts> counts = Read();
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_EQ(counts[3].calls, 2u);
  EXPECT_EQ(counts[3].bytes_in, 200u);
  EXPECT_EQ(counts[3].bytes_out, 7u);
  EXPECT_EQ(counts[3].failures, 0u);
  EXPECT_EQ(counts[70].calls, 1u);
  EXPECT_EQ(counts[70].bytes_out, 100u);
}

TEST_F(CallMetersTest, OneThatFailsIsCountedOnce) {
  meters_.Fail(Begin(0, bytes_));
  End(Begin(0, bytes_), {});
  std::map<uint16_t, FunctionCounts> counts = Read();
  EXPECT_EQ(counts[0].calls, 2u);
  EXPECT_EQ(counts[0].failures, 1u);
}

TEST_F(CallMetersTest, TheFirstCallAndOneInThirtyOneIsTimed) {
  for (uint32_t i = 0; i < 2 * CallMeters::kTimedOneIn + 1; ++i) End(Begin(1, bytes_), {});
  EXPECT_EQ(Read()[1].time.total(), 3u);
}

TEST_F(CallMetersTest, FunctionsThatAreCalledInTurnsAreAllTimed) {
  for (uint32_t i = 0; i < 4 * CallMeters::kTimedOneIn; ++i) {
    End(Begin(static_cast<uint16_t>(i % 4), bytes_), {});
  }
  for (const auto& [id, counts] : Read()) EXPECT_EQ(counts.time.total(), 1u) << id;
}

TEST_F(CallMetersTest, ProbesAndTheStoreAreNoCalls) {
  End(Begin(0, bytes_, 0, MessageKind::kProbe), bytes_);
  End(Begin(0, bytes_, kStore), bytes_);
  EXPECT_TRUE(Read().empty());
}

TEST_F(CallMetersTest, MemoryOfTheCallersCountsInFull) {
  BulkDescriptor descriptor;
  descriptor.input_window = 1;
  descriptor.input_length = 1 << 30;
  descriptor.output_window = 2;
  descriptor.output_capacity = 1 << 20;
  std::array<std::byte, kBulkDescriptorBytes> payload;
  EncodeBulkDescriptor(descriptor, payload.data());
  const uint64_t written = 1 << 19;
  std::array<std::byte, kBulkResultBytes> result;
  memcpy(result.data(), &written, sizeof(written));
  End(Begin(5, payload, kBulk), result);
  EXPECT_EQ(Read()[5].bytes_in, uint64_t{1} << 30);
  EXPECT_EQ(Read()[5].bytes_out, uint64_t{1} << 19);

  // A worker that says that it has written more than it may.
  memset(result.data(), 0xff, result.size());
  End(Begin(5, payload, kBulk), result);
  EXPECT_EQ(Read()[5].bytes_out, (uint64_t{1} << 19) + (uint64_t{1} << 20));
}

TEST_F(CallMetersTest, AResponseOfEightBytesIsNoLengthWithoutAnOutputWindow) {
  BulkDescriptor descriptor;
  descriptor.input_window = 1;
  descriptor.input_length = 50;
  std::array<std::byte, kBulkDescriptorBytes> payload;
  EncodeBulkDescriptor(descriptor, payload.data());
  End(Begin(5, payload, kBulk), absl::MakeConstSpan(bytes_).first(kBulkResultBytes));
  EXPECT_EQ(Read()[5].bytes_in, 50u);
  EXPECT_EQ(Read()[5].bytes_out, uint64_t{kBulkResultBytes});
}

}  // namespace
}  // namespace invoker
