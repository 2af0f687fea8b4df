#include "src/invoke/wire/message_authenticator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace invoker {
namespace {

constexpr uint32_t kPayload = 100;

class MessageAuthenticatorTest : public testing::TestWithParam<DataAuth> {
 protected:
  MessageAuthenticatorTest() : authenticator_(GetParam(), keys_.request) {
    RequestHeader header;
    header.function_id = 7;
    header.payload_bytes = kPayload;
    header.sequence = 42;
    header.epoch = 9;
    header.response_cell = 3;
    header.response_capacity = 64;
    Pack(header).CopyTo(message_.data());
    memset(message_.data() + kHeaderBytes, 'p', kPayload);
    authenticator_.Close(message_.data(), kPayload);
  }

  const std::byte* Open(const MessageAuthenticator& authenticator) {
    return authenticator.Open(HeaderSnapshot::Take(message_.data()), message_.data() + kHeaderBytes,
                              kPayload, copy_.data());
  }
  bool full() const { return GetParam() == DataAuth::kFull; }

  DataKeys keys_ = *DrawDataKeys();
  MessageAuthenticator authenticator_;
  std::array<std::byte, kHeaderBytes + kPayload + kTagBytes> message_;
  std::array<std::byte, kHeaderBytes + kPayload> copy_ = {};
};

INSTANTIATE_TEST_SUITE_P(Auths, MessageAuthenticatorTest,
                         testing::Values(DataAuth::kHeader, DataAuth::kFull),
                         [](const auto& info) { return std::string(DataAuthName(info.param)); });

TEST_P(MessageAuthenticatorTest, AnUntouchedMessageOpens) {
  const std::byte* payload = Open(authenticator_);
  ASSERT_NE(payload, nullptr);
  // What is used in full is what was checked, and not what a peer can write to.
  EXPECT_EQ(payload, full() ? copy_.data() + kHeaderBytes : message_.data() + kHeaderBytes);
  EXPECT_TRUE(std::all_of(payload, payload + kPayload,
                          [](std::byte byte) { return byte == std::byte{'p'}; }));
}

TEST_P(MessageAuthenticatorTest, EveryBitOfTheHeaderIsUnderTheTagButTwo) {
  for (uint32_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
    const std::byte flip{static_cast<uint8_t>(1u << (bit % 8))};
    message_[bit / 8] ^= flip;
    const bool uncovered =
        bit / 8 == 1 && (flip & std::byte{kUnauthenticatedFlags}) != std::byte{0};
    EXPECT_EQ(Open(authenticator_) != nullptr, uncovered) << bit;
    message_[bit / 8] ^= flip;
  }
}

TEST_P(MessageAuthenticatorTest, EveryBitOfTheTagCounts) {
  for (uint32_t bit = 0; bit < 8 * kTagBytes; ++bit) {
    std::byte& byte = message_[kHeaderBytes + kPayload + bit / 8];
    byte ^= std::byte{static_cast<uint8_t>(1u << (bit % 8))};
    EXPECT_EQ(Open(authenticator_), nullptr) << bit;
    byte ^= std::byte{static_cast<uint8_t>(1u << (bit % 8))};
  }
}

TEST_P(MessageAuthenticatorTest, ThePayloadIsUnderTheTagInFullOnly) {
  for (uint32_t at = 0; at < kPayload; ++at) {
    message_[kHeaderBytes + at] ^= std::byte{0x10};
    EXPECT_EQ(Open(authenticator_) != nullptr, !full()) << at;
    message_[kHeaderBytes + at] ^= std::byte{0x10};
  }
}

TEST_P(MessageAuthenticatorTest, TheOtherDirectionsKeyDoesNotOpenIt) {
  const MessageAuthenticator other(GetParam(), keys_.response);
  EXPECT_EQ(Open(other), nullptr);
}

TEST_P(MessageAuthenticatorTest, ACopyIsNotWrittenToBesideTheMessage) {
  std::vector<std::byte> copy(copy_.size() + 16, std::byte{0xaa});
  ASSERT_NE(authenticator_.Open(HeaderSnapshot::Take(message_.data()),
                                message_.data() + kHeaderBytes, kPayload, copy.data()),
            nullptr);
  for (size_t at = copy_.size(); at < copy.size(); ++at) EXPECT_EQ(copy[at], std::byte{0xaa});
}

// The vector of the algorithm's authors, so that another implementation of this format agrees:
// key 00..0f, input 00..3e.
TEST(MessageAuthenticator, IsSipHash24) {
  DataKey key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(i);
  constexpr size_t kInput = 63;
  std::array<std::byte, kInput + kTagBytes> message;
  for (size_t i = 0; i < kInput; ++i) message[i] = static_cast<std::byte>(i);
  MessageAuthenticator(DataAuth::kFull, key).Close(message.data(), kInput - kHeaderBytes);
  constexpr std::array<uint8_t, kTagBytes> kExpected = {0x72, 0x45, 0x06, 0xeb,
                                                        0x4c, 0x32, 0x8a, 0x95};
  EXPECT_EQ(memcmp(message.data() + kInput, kExpected.data(), kTagBytes), 0);
}

TEST(DataKeys, AreDifferentEachTime) {
  std::set<DataKey> seen;
  for (int i = 0; i < 100; ++i) {
    const absl::StatusOr<DataKeys> keys = DrawDataKeys();
    ASSERT_TRUE(keys.ok()) << keys.status();
    seen.insert(keys->request);
    seen.insert(keys->response);
  }
  EXPECT_EQ(seen.size(), 200u);
}

TEST(DataKeys, AreWiped) {
  DataKeys keys = *DrawDataKeys();
  Wipe(&keys);
  EXPECT_EQ(keys.request, DataKey());
  EXPECT_EQ(keys.response, DataKey());
}

TEST(DataAuth, HasNames) {
  for (const DataAuth auth : {DataAuth::kOff, DataAuth::kHeader, DataAuth::kFull}) {
    EXPECT_EQ(ParseDataAuth(DataAuthName(auth)), auth);
  }
  EXPECT_EQ(ParseDataAuth("Full"), std::nullopt);
  EXPECT_EQ(ParseDataAuth(""), std::nullopt);
}

}  // namespace
}  // namespace invoker
