#include "src/transport/reactor/message_receiver.h"

#include <cstring>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "src/transport/base/ring_message.h"

namespace invoker::transport {
namespace {

constexpr uint64_t kWindowKey = 7;
constexpr uint64_t kCountersKey = 8;
constexpr uint32_t kToken = 0x01020304;

class MessageReceiverTest : public testing::Test {
 protected:
  MessageReceiverTest()
      : window_(
            *receiver_.regions().Insert(kWindowKey, bytes_, sizeof(bytes_), RegionRole::kWindow)),
        counters_listing_(*receiver_.regions().Insert(kCountersKey,
                                                      reinterpret_cast<std::byte*>(numbers_),
                                                      sizeof(numbers_), RegionRole::kCounters)) {}

  std::optional<uint32_t> Take(const std::vector<std::byte>& message) {
    return receiver_.TakeMessage(message, &counters_);
  }

  static std::vector<std::byte> Message(const RingHeader& header, size_t body) {
    std::vector<std::byte> message(kRingHeaderBytes + body, std::byte{0x55});
    EncodeRingHeader(header, message.data());
    return message;
  }
  static std::vector<std::byte> Add(uint64_t key, uint64_t offset, uint64_t value) {
    std::vector<std::byte> message(kAddMessageBytes);
    EncodeAdd(key, offset, value, message.data());
    return message;
  }
  static std::vector<std::byte> Check(uint64_t nonce) {
    std::vector<std::byte> message(kRingHeaderBytes);
    EncodeCheck(nonce, message.data());
    return message;
  }

  // Counted as stray, and without any effect.
  void ExpectDropped(const std::vector<std::byte>& message) {
    const uint64_t strays = counters_.stray_messages;
    EXPECT_EQ(Take(message), std::nullopt);
    EXPECT_EQ(counters_.stray_messages, strays + 1);
    for (const std::byte byte : bytes_) EXPECT_EQ(byte, std::byte{0});
    for (const uint64_t number : numbers_) EXPECT_EQ(number, 0u);
  }

  std::byte bytes_[64] = {};
  uint64_t numbers_[2] = {};
  ReactorCounters counters_;
  MessageReceiver receiver_;
  // Go before the table.
  RegionListing window_;
  RegionListing counters_listing_;
};

TEST_F(MessageReceiverTest, FourBytesAreAToken) {
  std::vector<std::byte> message(kTokenBytes);
  memcpy(message.data(), &kToken, sizeof(kToken));
  EXPECT_EQ(Take(message), kToken);
  EXPECT_EQ(counters_.stray_messages, 0u);
}

TEST_F(MessageReceiverTest, EagerMessageIsPutInPlaceBeforeItsToken) {
  EXPECT_EQ(Take(Message({RingMessageType::kEager, kToken, kWindowKey, 60}, 4)), kToken);
  EXPECT_EQ(bytes_[59], std::byte{0});
  for (int i = 60; i < 64; ++i) EXPECT_EQ(bytes_[i], std::byte{0x55});
  EXPECT_EQ(counters_.eager_messages, 1u);
}

TEST_F(MessageReceiverTest, AdditionTakesEffectAndTellsNobody) {
  EXPECT_EQ(Take(Add(kCountersKey, 8, 5)), std::nullopt);
  EXPECT_EQ(Take(Add(kCountersKey, 8, ~uint64_t{0})), std::nullopt);
  EXPECT_EQ(numbers_[0], 0u);
  EXPECT_EQ(numbers_[1], 4u) << "it wraps";
  EXPECT_EQ(counters_.additions, 2u);
}

TEST_F(MessageReceiverTest, DropsMessagesOutsideTheirRegion) {
  ExpectDropped(Message({RingMessageType::kEager, kToken, kWindowKey, 61}, 4));
  ExpectDropped(Message({RingMessageType::kEager, kToken, kWindowKey, ~uint64_t{0}}, 4));
  ExpectDropped(Message({RingMessageType::kEager, kToken, 99, 0}, 4));
  ExpectDropped(Add(kCountersKey, 16, 1));
  ExpectDropped(Add(kCountersKey, 4, 1));
}

TEST_F(MessageReceiverTest, DropsMessagesToARegionOfAnotherRole) {
  ExpectDropped(Message({RingMessageType::kEager, kToken, kCountersKey, 0}, 4));
  ExpectDropped(Add(kWindowKey, 0, 1));
}

TEST_F(MessageReceiverTest, DropsWhateverIsNoMessage) {
  ExpectDropped({});
  ExpectDropped(std::vector<std::byte>(kTokenBytes + 1));
  ExpectDropped(std::vector<std::byte>(kRingHeaderBytes));
}

TEST_F(MessageReceiverTest, OnlyTheAwaitedCheckCountsAndOnlyOnce) {
  ExpectDropped(Check(5));
  receiver_.ExpectCheck(5);
  EXPECT_TRUE(receiver_.awaits_check());
  ExpectDropped(Check(6));
  EXPECT_TRUE(receiver_.awaits_check());
  EXPECT_EQ(Take(Check(5)), std::nullopt);
  EXPECT_FALSE(receiver_.awaits_check());
  EXPECT_EQ(counters_.checks, 1u);
  ExpectDropped(Check(5));
  ExpectDropped(Check(0));
}

}  // namespace
}  // namespace invoker::transport
