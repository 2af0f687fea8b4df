// A notified write puts exactly its bytes exactly where it should, at every boundary.

#include <algorithm>
#include <cstring>
#include <set>

#include "gtest/gtest.h"
#include "tests/conformance/tested_fabric.h"

namespace invoker::conformance {
namespace {

using transport::MemoryRegion;
using transport::Node;
using transport::Peer;
using transport::PollUntil;
using transport::RegionUse;
using transport::RemoteWindow;

constexpr size_t kWindow = 1 << 20;

class Writes : public WaysSuite {
 protected:
  void Open(size_t bytes) {
    target_ = OpenNode(bytes);
    sender_ = OpenNode(bytes);
    ASSERT_TRUE(sender_ != nullptr && target_ != nullptr);
    window_ = sender_->WindowTo(*target_);
  }

  bool PollUntilTokens(size_t count) {
    return PollUntil({sender_.get(), target_.get()},
                     [&] { return target_->tokens.size() >= count || !sender_->failures.empty(); });
  }

  // One message, and what it did to the target's memory.
  void WriteAndCheck(uint64_t offset, uint64_t length) {
    SCOPED_TRACE(testing::Message() << length << " bytes at " << offset);
    // Enough on either side to see a write that is off by a cache line or a page.
    const uint64_t before = std::min<uint64_t>(offset, 8192);
    const uint64_t after = std::min<uint64_t>(kWindow - offset - length, 8192);
    std::byte* at = target_->window.data() + offset;
    memset(at - before, 0x5a, before + length + after);
    ++message_;
    Stamp(sender_->source.data() + offset, length, message_);
    target_->tokens.clear();
    ASSERT_TRUE(sender_->Write(GetParam(), window_, offset, length, message_));
    ASSERT_TRUE(PollUntilTokens(1));
    ASSERT_TRUE(sender_->failures.empty()) << sender_->failures[0].status;
    EXPECT_EQ(target_->tokens, std::vector<uint32_t>{message_});
    EXPECT_EQ(FirstDifference(at, length, message_), length);
    const auto untouched = [](std::byte byte) { return byte == std::byte{0x5a}; };
    EXPECT_TRUE(std::all_of(at - before, at, untouched)) << "bytes before the target are touched";
    EXPECT_TRUE(std::all_of(at + length, at + length + after, untouched))
        << "bytes behind the target are touched";
  }

  std::unique_ptr<Node> target_;
  std::unique_ptr<Node> sender_;
  RemoteWindow window_;
  uint32_t message_ = 0;
};

TEST_P(Writes, EverySizeAtABoundaryLandsWhereItShouldAndNowhereElse) {
  ASSERT_NO_FATAL_FAILURE(Open(kWindow));
  const transport::Profile& profile = sender_->reactor().profile();
  std::set<uint64_t> lengths = {0,     1,     2,     3,     4,     7,      8,      9,    63,
                                64,    65,    127,   128,   129,   4095,   4096,   4097, 16383,
                                16384, 16385, 65535, 65536, 65537, 262145, kWindow};
  for (uint64_t limit : {profile.inject_bytes, profile.eager_bytes}) {
    for (uint64_t length = limit - std::min<uint64_t>(limit, 1); length <= limit + 1; ++length) {
      if (length <= kWindow) lengths.insert(length);
    }
  }
  for (uint64_t length : lengths) {
    for (uint64_t offset : {uint64_t{0}, uint64_t{1}, uint64_t{4095}, kWindow - length}) {
      if (!window_.Contains(offset, length)) continue;
      ASSERT_NO_FATAL_FAILURE(WriteAndCheck(offset, length));
    }
  }
  EXPECT_TRUE(
      PollUntil({sender_.get(), target_.get()}, [&] { return sender_->outstanding() == 0; }));
  EXPECT_EQ(sender_->reactor().counters().stray_completions, 0u);
  EXPECT_EQ(target_->reactor().counters().stray_messages, 0u);
}

TEST_P(Writes, AWriteThatReachesOverTheWindowsEndIsRefusedBeforeItIsPosted) {
  ASSERT_NO_FATAL_FAILURE(Open(4096));
  EXPECT_TRUE(window_.Contains(4096, 0));
  EXPECT_TRUE(window_.Contains(4095, 1));
  EXPECT_FALSE(window_.Contains(4096, 1));
  EXPECT_FALSE(window_.Contains(4095, 2));
  EXPECT_FALSE(window_.Contains(1, ~uint64_t{0}));
  EXPECT_FALSE(window_.Contains(~uint64_t{0}, 1));
  EXPECT_FALSE(window_.Contains(~uint64_t{0}, ~uint64_t{0}));
}

TEST_P(Writes, SeveralWindowsOfOneTargetAreKeptApart) {
  ASSERT_NO_FATAL_FAILURE(Open(8192));
  std::vector<MemoryRegion> regions;
  std::vector<RemoteWindow> windows;
  for (uint32_t i = 0; i < 5; ++i) {
    regions.push_back(target_->NewRegion(8192, RegionUse::kRemoteTarget));
    windows.push_back(sender_->WindowTo(*target_, regions.back()));
  }
  for (uint32_t i = 0; i < 5; ++i) {
    Stamp(sender_->source.data(), 8192, i);
    ASSERT_TRUE(sender_->Write(GetParam(), windows[i], 0, 8192, i));
    ASSERT_TRUE(PollUntilTokens(i + 1));
    ASSERT_TRUE(
        PollUntil({sender_.get(), target_.get()}, [&] { return sender_->outstanding() == 0; }));
  }
  ASSERT_TRUE(sender_->failures.empty()) << sender_->failures[0].status;
  for (uint32_t i = 0; i < 5; ++i) EXPECT_EQ(FirstDifference(regions[i].data(), 8192, i), 8192u);
  const std::byte* memory = target_->window.data();
  EXPECT_TRUE(
      std::all_of(memory, memory + 8192, [](std::byte byte) { return byte == std::byte{}; }));
  // Before the reactor that they are registered with.
  regions.clear();
}

// What a peer may spoil with a key that is not its own: the window that it names, at most.
TEST_P(Writes, AWriteWithAWrongKeyHurtsNeitherOtherMemoryNorOtherPeers) {
  ASSERT_NO_FATAL_FAILURE(Open(4096));
  const auto rogue = OpenNode(4096);
  ASSERT_NE(rogue, nullptr);
  MemoryRegion bait = target_->NewRegion(4096, RegionUse::kRemoteTarget);
  RemoteWindow wrong = rogue->WindowTo(*target_, bait);
  wrong.key ^= 0x5555;
  memset(rogue->source.data(), 0xff, 4096);
  for (uint32_t i = 0; i < 10; ++i) {
    target_->tokens.clear();
    rogue->Write(GetParam(), wrong, 0, 4096, 1000 + i);
    ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 64, i));
    ASSERT_TRUE(PollUntil({rogue.get(), sender_.get(), target_.get()}, [&] {
      return std::count(target_->tokens.begin(), target_->tokens.end(), i) > 0 ||
             !sender_->failures.empty();
    }));
  }
  EXPECT_TRUE(sender_->failures.empty()) << sender_->failures[0].status;
  EXPECT_TRUE(target_->reactor().health().ok()) << target_->reactor().health();
  const std::byte* memory = target_->window.data();
  EXPECT_TRUE(
      std::all_of(memory, memory + 4096, [](std::byte byte) { return byte == std::byte{}; }));
  target_->reactor().Retire(std::move(bait));
  // Some of its writes may be under way, and are read from here.
  rogue->reactor().Retire(std::move(rogue->source));
}

INSTANTIATE_TEST_SUITE_P(Every, Writes, testing::ValuesIn(EveryWay()), transport::NameOfWay);

}  // namespace
}  // namespace invoker::conformance
