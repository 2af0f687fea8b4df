// Notified writes between two reactors of one process, over every provider and notification that
// runs anywhere.

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "src/transport/reactor/reactor.h"
#include "tests/transport/node.h"

namespace invoker::transport {
namespace {

constexpr size_t kWindow = 1 << 20;

class ReactorWrite : public testing::TestWithParam<Way> {};

// Different for every message and every position in it.
std::byte StampAt(uint32_t message, size_t position) {
  return static_cast<std::byte>((message * 2654435761u + position * 40503u) >> 7);
}

void Stamp(std::byte* memory, size_t length, uint32_t message) {
  for (size_t i = 0; i < length; ++i) memory[i] = StampAt(message, i);
}

// The first position that has not the message's stamp; `length` if there is none.
size_t FirstDifference(const std::byte* memory, size_t length, uint32_t message) {
  for (size_t i = 0; i < length; ++i) {
    if (memory[i] != StampAt(message, i)) return i;
  }
  return length;
}

TEST_P(ReactorWrite, LandsWhereItShouldAndNowhereElse) {
  auto sender = Node::Open(GetParam().provider, kWindow);
  auto target = Node::Open(GetParam().provider, kWindow);
  const RemoteWindow window = sender->WindowTo(*target);
  struct Place {
    uint64_t offset, length;
  };
  std::vector<Place> places = {
      {0, 1},       {kWindow - 1, 1}, {0, kWindow}, {0, 0},
      {kWindow, 0}, {1, 4095},        {4095, 2},    {kWindow / 2, kWindow / 2}};
  for (uint64_t length :
       {1, 3, 8, 63, 64, 65, 192, 256, 4096, 4097, 8192, 8193, 16384, 16385, 65536, 262145}) {
    places.push_back({777, length});
    places.push_back({kWindow - length, length});
  }
  uint32_t message = 0;
  for (const Place& place : places) {
    ++message;
    memset(target->window.data(), 0x5a, kWindow);
    Stamp(sender->source.data() + place.offset, place.length, message);
    target->tokens.clear();
    ASSERT_TRUE(sender->Write(GetParam(), window, place.offset, place.length, message));
    ASSERT_TRUE(PollUntil({sender.get(), target.get()}, [&] { return !target->tokens.empty(); }))
        << place.length << " bytes at " << place.offset;
    EXPECT_EQ(target->tokens, std::vector<uint32_t>{message});
    EXPECT_EQ(FirstDifference(target->window.data() + place.offset, place.length, message),
              place.length);
    const auto untouched = [](std::byte byte) { return byte == std::byte{0x5a}; };
    const std::byte* begin = target->window.data();
    EXPECT_TRUE(std::all_of(begin, begin + place.offset, untouched));
    EXPECT_TRUE(std::all_of(begin + place.offset + place.length, begin + kWindow, untouched));
  }
  EXPECT_TRUE(PollUntil({sender.get(), target.get()}, [&] { return sender->outstanding() == 0; }));
  EXPECT_TRUE(sender->failures.empty());
  EXPECT_EQ(sender->reactor().counters().stray_completions, 0u);
  EXPECT_EQ(target->reactor().counters().stray_messages, 0u);
}

// The heart of a notification. Many messages are under way at once; whenever a token arrives, its
// whole payload must already be there.
TEST_P(ReactorWrite, TokenNeverArrivesBeforeItsData) {
  constexpr uint32_t kMessages = 6000;
  constexpr size_t kSlots = 16;
  constexpr size_t kSlotBytes = kWindow / kSlots;
  auto sender = Node::Open(GetParam().provider, kWindow);
  auto target = Node::Open(GetParam().provider, kWindow);
  const RemoteWindow window = sender->WindowTo(*target);
  const auto length_of = [](uint32_t message) -> size_t {
    constexpr size_t kLengths[] = {8, 64, 300, 1024, 4096, 8200, 20000, 1};
    return message % 97 == 0 ? kSlotBytes : kLengths[message % 8] + message % 5;
  };
  std::vector<bool> free(kSlots, true);
  std::vector<bool> arrived(kMessages, false);
  uint32_t delivered = 0;
  uint32_t early = 0;
  target->on_token = [&](uint32_t message) {
    ASSERT_LT(message, kMessages);
    ASSERT_FALSE(arrived[message]) << "message " << message << " was announced twice";
    arrived[message] = true;
    const size_t length = length_of(message);
    const std::byte* slot = target->window.data() + message % kSlots * kSlotBytes;
    if (FirstDifference(slot, length, message) != length) ++early;
    free[message % kSlots] = true;
    ++delivered;
  };
  uint32_t next = 0;
  ASSERT_TRUE(PollUntil({sender.get(), target.get()}, [&] {
    while (next < kMessages && free[next % kSlots]) {
      const size_t offset = next % kSlots * kSlotBytes;
      Stamp(sender->source.data() + offset, length_of(next), next);
      if (!sender->Write(GetParam(), window, offset, length_of(next), next)) break;
      free[next % kSlots] = false;
      ++next;
    }
    return delivered == kMessages;
  }));
  EXPECT_EQ(early, 0u);
  EXPECT_TRUE(sender->failures.empty());
}

TEST_P(ReactorWrite, WhatIsOverWhenItHasBeenInjectedTakesNoSlot) {
  auto sender = Node::Open(GetParam().provider, 65536);
  auto target = Node::Open(GetParam().provider, 65536);
  ASSERT_TRUE(sender != nullptr && target != nullptr);
  const RemoteWindow window = sender->WindowTo(*target);
  const Profile& profile = sender->reactor().profile();
  const bool over =
      GetParam().notification == Notification::kWriteImm && profile.injected_is_placed;
  const auto write = [&](uint64_t bytes, uint32_t token) {
    target->tokens.clear();
    return sender->Write(GetParam(), window, 0, bytes, token);
  };
  const auto arrived = [&] {
    return PollUntil({sender.get(), target.get()},
                     [&] { return target->tokens.size() == 1 && sender->outstanding() == 0; });
  };
  // A provider may refuse the first, and that takes a slot.
  ASSERT_TRUE(write(8, 1));
  ASSERT_TRUE(arrived());
  ASSERT_TRUE(write(8, 2));
  EXPECT_EQ(sender->outstanding() == 0, over);
  ASSERT_TRUE(arrived());
  // More than may be injected.
  ASSERT_TRUE(write(65536, 3));
  EXPECT_EQ(sender->outstanding(), 1u);
  ASSERT_TRUE(arrived());
  EXPECT_TRUE(sender->failures.empty());
}

TEST_P(ReactorWrite, TokenKeepsAllOfIts32Bits) {
  auto sender = Node::Open(GetParam().provider, 64);
  auto target = Node::Open(GetParam().provider, 64);
  const RemoteWindow window = sender->WindowTo(*target);
  std::vector<uint32_t> tokens = {0, 0xffffffffu, 0x80000000u, 0x7fffffffu, 0xdeadbeefu};
  for (int bit = 0; bit < 32; ++bit) tokens.push_back(uint32_t{1} << bit);
  for (uint32_t token : tokens) {
    ASSERT_TRUE(sender->Write(GetParam(), window, 0, 8, token));
    target->tokens.clear();
    ASSERT_TRUE(PollUntil({sender.get(), target.get()}, [&] { return !target->tokens.empty(); }));
    EXPECT_EQ(target->tokens.front(), token);
  }
}

TEST_P(ReactorWrite, ManyPeersTalkToOneAndOneToMany) {
  constexpr uint32_t kPeers = 6;
  constexpr uint32_t kRounds = 50;
  auto hub = Node::Open(GetParam().provider, kWindow);
  std::vector<std::unique_ptr<Node>> spokes;
  std::vector<RemoteWindow> to_spoke;
  std::vector<RemoteWindow> to_hub;
  for (uint32_t i = 0; i < kPeers; ++i) {
    spokes.push_back(Node::Open(GetParam().provider, kWindow));
    to_spoke.push_back(hub->WindowTo(*spokes[i]));
    to_hub.push_back(spokes[i]->WindowTo(*hub));
  }
  // Each spoke has its own part of the hub's window and answers there.
  constexpr size_t kPart = 4096;
  for (uint32_t i = 0; i < kPeers; ++i) {
    spokes[i]->on_token = [&, i](uint32_t token) {
      memcpy(spokes[i]->source.data() + i * kPart, spokes[i]->window.data() + i * kPart, kPart);
      EXPECT_TRUE(spokes[i]->Write(GetParam(), to_hub[i], i * kPart, kPart, token));
    };
  }
  for (uint32_t round = 0; round < kRounds; ++round) {
    hub->tokens.clear();
    for (uint32_t i = 0; i < kPeers; ++i) {
      Stamp(hub->source.data() + i * kPart, kPart, round * kPeers + i);
      ASSERT_TRUE(hub->Write(GetParam(), to_spoke[i], i * kPart, kPart, i));
    }
    ASSERT_TRUE(PollUntil({hub.get()}, [&] {
      for (auto& spoke : spokes) spoke->reactor().Poll();
      return hub->tokens.size() == kPeers;
    }));
    EXPECT_EQ(std::set<uint32_t>(hub->tokens.begin(), hub->tokens.end()).size(), kPeers);
    for (uint32_t i = 0; i < kPeers; ++i) {
      EXPECT_EQ(FirstDifference(hub->window.data() + i * kPart, kPart, round * kPeers + i), kPart);
    }
  }
}

TEST_P(ReactorWrite, PeerThatWasRemovedCanBeInsertedAgain) {
  auto sender = Node::Open(GetParam().provider, 4096);
  auto target = Node::Open(GetParam().provider, 4096);
  for (uint32_t round = 0; round < 5; ++round) {
    const Peer* peer = nullptr;
    const RemoteWindow window = sender->WindowTo(*target, target->window, &peer);
    EXPECT_EQ(sender->reactor().peers().live(), 1u);
    Stamp(sender->source.data(), 4096, round);
    target->tokens.clear();
    ASSERT_TRUE(sender->Write(GetParam(), window, 0, 4096, round));
    ASSERT_TRUE(PollUntil({sender.get(), target.get()},
                          [&] { return target->tokens.size() == 1 && sender->outstanding() == 0; }))
        << "round " << round;
    EXPECT_EQ(FirstDifference(target->window.data(), 4096, round), 4096u);
    sender->reactor().peers().Release(peer);
    EXPECT_EQ(sender->reactor().peers().live(), 0u);
    // What the peer sent may still be queued in the provider, so the entry stays for a while.
    EXPECT_EQ(sender->reactor().peers().quarantined(), 1u);
    ASSERT_TRUE(PollUntil({sender.get(), target.get()},
                          [&] { return sender->reactor().peers().quarantined() == 0; }));
  }
}

// What is still written into a window that has been given up ends as any other write does, and
// hurts nobody: neither the connection, nor the target's other memory.
TEST_P(ReactorWrite, WindowCanBeRetiredWhileWritesAreUnderWay) {
  constexpr size_t kBytes = 64 * 1024;
  constexpr uint32_t kWrites = 32;
  auto sender = Node::Open(GetParam().provider, kBytes);
  auto target = Node::Open(GetParam().provider, kBytes);
  memset(sender->source.data(), 0xff, kBytes);
  const RemoteWindow live = sender->WindowTo(*target);
  for (uint32_t round = 0; round < 8; ++round) {
    MemoryRegion region = target->NewRegion(kBytes, RegionUse::kRemoteTarget);
    const Peer* peer = nullptr;
    const RemoteWindow window = sender->WindowTo(*target, region, &peer);
    target->tokens.clear();
    for (uint32_t i = 0; i < kWrites; ++i) {
      ASSERT_TRUE(sender->Write(GetParam(), window, 0, round % 2 == 0 ? 100 : kBytes, i));
      if (i % 8 == 0) sender->reactor().Poll();
    }
    for (uint32_t i = 0; i < round; ++i) target->reactor().Poll();
    target->reactor().Retire(std::move(region));
    ASSERT_TRUE(PollUntil({sender.get(), target.get()}, [&] {
      return sender->outstanding() == 0 && target->tokens.size() == kWrites;
    }));
    sender->reactor().peers().Release(peer);
  }
  EXPECT_TRUE(sender->failures.empty());
  const std::byte* memory = target->window.data();
  EXPECT_TRUE(
      std::all_of(memory, memory + kBytes, [](std::byte byte) { return byte == std::byte{0}; }));
  ASSERT_TRUE(sender->Write(GetParam(), live, 0, kBytes, 77));
  EXPECT_TRUE(PollUntil({sender.get(), target.get()}, [&] { return target->tokens.back() == 77; }));
}

// A peer that writes where it has no window spoils at most what it has itself with the target.
TEST_P(ReactorWrite, WriteWithAWrongKeyDoesNotDisturbOtherPeers) {
  auto rogue = Node::Open(GetParam().provider, 4096);
  auto honest = Node::Open(GetParam().provider, 4096);
  auto target = Node::Open(GetParam().provider, 4096);
  memset(rogue->source.data(), 0xff, 4096);
  RemoteWindow wrong = rogue->WindowTo(*target);
  wrong.key ^= 0x5555;
  const RemoteWindow window = honest->WindowTo(*target);
  for (uint32_t i = 0; i < 20; ++i) {
    rogue->Write(GetParam(), wrong, 0, 4096, 1000 + i);
    ASSERT_TRUE(honest->Write(GetParam(), window, 0, 64, i));
    // The rogue's may come, too: it may ring for what was not written.
    const auto arrived = [&] {
      return std::find(target->tokens.begin(), target->tokens.end(), i) != target->tokens.end();
    };
    ASSERT_TRUE(PollUntil({rogue.get(), honest.get(), target.get()}, arrived));
  }
  EXPECT_TRUE(honest->failures.empty());
  EXPECT_TRUE(target->reactor().health().ok()) << target->reactor().health();
  const std::byte* memory = target->window.data();
  EXPECT_TRUE(
      std::all_of(memory, memory + 4096, [](std::byte byte) { return byte == std::byte{0}; }));
}

INSTANTIATE_TEST_SUITE_P(Every, ReactorWrite, testing::ValuesIn(AllWays()), NameOfWay);

}  // namespace
}  // namespace invoker::transport
