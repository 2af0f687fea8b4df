// What is given up while it is under way hurts neither the one that gives it up nor the other.

#include <algorithm>
#include <cstring>
#include <utility>

#include "gtest/gtest.h"
#include "tests/conformance/peer_process.h"
#include "tests/conformance/tested_fabric.h"

namespace invoker::conformance {
namespace {

using transport::MemoryRegion;
using transport::Node;
using transport::Peer;
using transport::PollUntil;
using transport::RegionUse;
using transport::RemoteWindow;

constexpr size_t kBytes = 64 * 1024;

class Cancel : public WaysSuite {};

TEST_P(Cancel, AnOwnerThatGoesAwayHearsNothingMore) {
  const auto target = OpenNode(kBytes);
  const auto sender = OpenNode(kBytes);
  ASSERT_TRUE(sender != nullptr && target != nullptr);
  const RemoteWindow window = sender->WindowTo(*target);
  for (uint32_t round = 0; round < 5; ++round) {
    for (uint32_t i = 0; i < 32; ++i) {
      ASSERT_TRUE(sender->Write(GetParam(), window, 0, i % 2 == 0 ? 64 : kBytes, i));
    }
    sender->reactor().RetireAllOf(sender.get());
    ASSERT_TRUE(PollUntil({sender.get(), target.get()}, [&] { return sender->outstanding() == 0; }))
        << "round " << round;
  }
  EXPECT_TRUE(sender->failures.empty());
  // The other way round still works, and so does this one.
  target->tokens.clear();
  ASSERT_TRUE(sender->Write(GetParam(), window, 0, kBytes, 0xabcd));
  // Those of the rounds may come after it where nothing orders writes.
  EXPECT_TRUE(PollUntil({sender.get(), target.get()}, [&] {
    return std::count(target->tokens.begin(), target->tokens.end(), 0xabcd) == 1;
  })) << ::testing::PrintToString(target->tokens);
}

TEST_P(Cancel, AWindowCanBeRetiredWhileWritesToItAreUnderWay) {
  constexpr uint32_t kWrites = 32;
  const auto target = OpenNode(kBytes);
  const auto sender = OpenNode(kBytes);
  ASSERT_TRUE(sender != nullptr && target != nullptr);
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
    ASSERT_TRUE(
        PollUntil({sender.get(), target.get()},
                  [&] { return sender->outstanding() == 0 && target->tokens.size() == kWrites; }))
        << "round " << round;
    sender->reactor().peers().Release(peer);
  }
  EXPECT_TRUE(sender->failures.empty()) << sender->failures[0].status;
  const std::byte* memory = target->window.data();
  EXPECT_TRUE(
      std::all_of(memory, memory + kBytes, [](std::byte byte) { return byte == std::byte{}; }));
  target->tokens.clear();
  ASSERT_TRUE(sender->Write(GetParam(), live, 0, kBytes, 77));
  EXPECT_TRUE(PollUntil({sender.get(), target.get()}, [&] { return !target->tokens.empty(); }));
}

// With everything under way in both directions, as when a process ends in the middle.
TEST_P(Cancel, AReactorCanGoAwayInTheMiddleOfEverything) {
  auto node = OpenNode(kPeerBytes);
  ASSERT_NE(node, nullptr);
  auto peer = PeerProcess::Start(node.get(), GetParam());
  ASSERT_NE(peer, nullptr);
  ASSERT_TRUE(peer->RoundTrip(1));
  for (uint32_t i = 0; i < 16; ++i) {
    ASSERT_TRUE(node->Write(GetParam(), peer->window(), 0, i % 2 == 0 ? 64 : kPeerBytes, i));
    node->reactor().Poll();
  }
  node->reactor().RetireAllOf(node.get());
  peer.reset();
  for (int i = 0; i < 1000; ++i) node->reactor().Poll();
  node->reactor().Retire(std::move(node->source));
  node->reactor().Retire(std::move(node->window));
  node.reset();
}

INSTANTIATE_TEST_SUITE_P(Every, Cancel, testing::ValuesIn(EveryWay()), transport::NameOfWay);

class CancelReceives : public FabricSuite {};

TEST_F(CancelReceives, PostedReceivesEndWithTheirEndpoint) {
  for (int round = 0; round < 5; ++round) {
    const auto node = OpenNode(4096);
    ASSERT_NE(node, nullptr);
    EXPECT_GT(node->reactor().profile().receive_buffers, 0u);
    for (int i = 0; i < 10; ++i) node->reactor().Poll();
    EXPECT_EQ(node->reactor().counters().stray_messages, 0u);
  }
}

}  // namespace
}  // namespace invoker::conformance
