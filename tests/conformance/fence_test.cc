// Once a session is fenced, what its peer wrote before may still arrive, but never in memory that
// has been given out anew, and never at another peer.

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

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

constexpr size_t kBytes = 32 * 1024;
constexpr size_t kMessage = 1024;
constexpr std::byte kUntouched{0xEE};
// Longer than an emulated fabric keeps a write to itself.
constexpr int kTurns = 500;
// What a session leaves is seen in the next one, and an entry is used again by the one after that.
constexpr uint32_t kLeastRounds = 3;

class Fence : public WaysSuite {
 protected:
  // What one side of a session has: memory to write from, to be written into, and the way there.
  struct Half {
    std::unique_ptr<Node> node;
    const Peer* peer = nullptr;
    RemoteWindow to;
  };

  // A session's memory and address entry, as it gets them when it opens.
  void Join(Half* from, Half* to) {
    from->to = from->node->WindowTo(*to->node, to->node->window, &from->peer);
  }

  static void Renew(Half* half) {
    half->node->source = half->node->NewRegion(kBytes, RegionUse::kSource);
    half->node->window = half->node->NewRegion(kBytes, RegionUse::kRemoteTarget);
    std::fill_n(half->node->window.data(), kBytes, kUntouched);
  }

  // Does what a session does that ends with everything under way.
  static void EndHalf(Half* half) {
    transport::Reactor& reactor = half->node->reactor();
    reactor.RetireAllOf(half->node.get());
    reactor.Retire(std::move(half->node->source));
    reactor.Retire(std::move(half->node->window));
    reactor.peers().Release(half->peer);
  }

  // How many messages have been posted.
  size_t PostAll(Half* half, uint32_t round) {
    size_t posted = 0;
    for (size_t at = 0; at + kMessage <= kBytes; at += kMessage) {
      Stamp(half->node->source.data() + at, kMessage, round);
      if (!half->node->Write(GetParam(), half->to, at, kMessage, static_cast<uint32_t>(at))) break;
      ++posted;
    }
    return posted;
  }

  static size_t Touched(const Half& half) {
    const std::byte* const begin = half.node->window.data();
    return static_cast<size_t>(
        std::count_if(begin, begin + kBytes, [](std::byte byte) { return byte != kUntouched; }));
  }
};

TEST_P(Fence, NoLateWriteLandsInMemoryThatIsGivenOutAnew) {
  std::mt19937_64 random(17);
  Half a, b;
  a.node = OpenNode(kBytes);
  b.node = OpenNode(kBytes);
  ASSERT_TRUE(a.node != nullptr && b.node != nullptr);
  const auto turn = [&] {
    a.node->reactor().Poll();
    b.node->reactor().Poll();
  };
  size_t under_way = 0;  // at the ends of sessions
  const uint32_t rounds = Scaled(20, kLeastRounds);
  for (uint32_t round = 1; round <= rounds; ++round) {
    Renew(&a);
    Renew(&b);
    Join(&a, &b);
    Join(&b, &a);
    // What the last session left has all the time it wants.
    ASSERT_TRUE(PollUntil({a.node.get(), b.node.get()},
                          [&] { return a.node->outstanding() == 0 && b.node->outstanding() == 0; }))
        << "round " << round;
    for (int i = 0; i < kTurns; ++i) turn();
    EXPECT_EQ(Touched(a), 0u) << "round " << round;
    EXPECT_EQ(Touched(b), 0u) << "round " << round;
    // The new session works, in both directions.
    a.node->tokens.clear();
    b.node->tokens.clear();
    for (Half* half : {&a, &b}) {
      Stamp(half->node->source.data(), kMessage, round);
      ASSERT_TRUE(PollUntil({a.node.get(), b.node.get()}, [&] {
        return half->node->Write(GetParam(), half->to, 0, kMessage, 1u << 20);
      }));
    }
    const auto has_arrived = [](const Half& half) {
      return std::count(half.node->tokens.begin(), half.node->tokens.end(), 1u << 20) == 1;
    };
    ASSERT_TRUE(PollUntil({a.node.get(), b.node.get()},
                          [&] {
                            return has_arrived(a) && has_arrived(b) && a.node->outstanding() == 0 &&
                                   b.node->outstanding() == 0;
                          }))
        << "round " << round;
    for (const Half* half : {&a, &b}) {
      EXPECT_EQ(FirstDifference(half->node->window.data(), kMessage, round), kMessage);
      EXPECT_LE(Touched(*half), kMessage);
    }
    // Ends in the middle of much, in any state that some turns lead to; at first, in none.
    a.node->tokens.clear();
    b.node->tokens.clear();
    under_way += PostAll(&a, round) + PostAll(&b, round);
    for (uint64_t i = round == 1 ? 0 : random() % 20; i > 0; --i) turn();
    under_way -= a.node->tokens.size() + b.node->tokens.size();
    EndHalf(&a);
    EndHalf(&b);
  }
  EXPECT_GT(under_way, 0u) << "nothing was late, so that nothing has been shown";
  ASSERT_TRUE(PollUntil({a.node.get(), b.node.get()},
                        [&] { return a.node->outstanding() == 0 && b.node->outstanding() == 0; }));
}

// The provider may give a removed peer's entry to the next one.
TEST_P(Fence, AnEntryThatHasBeenUsedLeadsToItsNewPeerOnly) {
  Half a;
  a.node = OpenNode(kBytes);
  ASSERT_NE(a.node, nullptr);
  Renew(&a);
  const uint32_t rounds = Scaled(4, kLeastRounds);
  for (uint32_t round = 1; round <= rounds; ++round) {
    Half b;
    b.node = OpenNode(kBytes);
    ASSERT_NE(b.node, nullptr);
    Renew(&b);
    Join(&a, &b);
    Join(&b, &a);
    Stamp(a.node->source.data(), kMessage, round);
    a.node->tokens.clear();
    // One begins and the other answers, as in a session.
    ASSERT_TRUE(a.node->Write(GetParam(), a.to, 0, kMessage, round));
    ASSERT_TRUE(
        PollUntil({a.node.get(), b.node.get()}, [&] { return b.node->tokens.size() == 1; }));
    ASSERT_TRUE(b.node->Write(GetParam(), b.to, kMessage, kMessage, round));
    ASSERT_TRUE(PollUntil({a.node.get(), b.node.get()}, [&] {
      return a.node->tokens.size() == 1 && a.node->outstanding() == 0 && b.node->outstanding() == 0;
    }));
    EXPECT_EQ(FirstDifference(b.node->window.data(), kMessage, round), kMessage);
    EXPECT_EQ(b.node->tokens.front(), round);
    a.node->reactor().peers().Release(a.peer);
    b.node->reactor().peers().Release(b.peer);
    ASSERT_TRUE(PollUntil({a.node.get(), b.node.get()}, [&] {
      return a.node->reactor().peers().quarantined() == 0 &&
             b.node->reactor().peers().quarantined() == 0;
    }));
    EXPECT_EQ(a.node->reactor().peers().live(), 0u);
    EXPECT_EQ(a.node->reactor().peers().kept(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Fence, testing::ValuesIn(EveryWay()), transport::NameOfWay);

}  // namespace
}  // namespace invoker::conformance
