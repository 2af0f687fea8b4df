// What a fabric refuses for now is posted later; what nobody takes ends.

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/peer_process.h"
#include "tests/conformance/tested_fabric.h"

namespace invoker::conformance {
namespace {

using transport::Node;
using transport::PollUntil;
using transport::RemoteWindow;

constexpr size_t kBytes = 64 * 1024;
constexpr uint32_t kMost = 20000;
constexpr size_t kOperations = 64;

// Turns in which a full pool did not move: nothing but the target can let it go on.
constexpr int kStuck = 2000;

class BackPressure : public WaysSuite {
 protected:
  void Open(absl::Duration retry_limit) {
    transport::ReactorOptions options;
    options.operations = kOperations;
    options.retry_limit = retry_limit;
    options.quarantine_after = absl::ZeroDuration();
    sender_ = OpenNode(kBytes, options);
    ASSERT_NE(sender_, nullptr);
    capacity_ = sender_->reactor().operations().capacity();
  }

  // Posts until the slots are used up and stay so. How many were posted.
  uint32_t PostUntilStuck(const RemoteWindow& window, uint64_t length) {
    uint32_t posted = 0;
    for (int full = 0; full < kStuck && posted < Scaled(kMost);) {
      if (sender_->Write(GetParam(), window, 0, length, posted)) {
        ++posted;
        full = 0;
      } else {
        ++full;
        EXPECT_EQ(sender_->outstanding(), sender_->reactor().operations().capacity());
      }
      sender_->reactor().Poll();
    }
    return posted;
  }

  // Floods a target that does not poll, then lets it go on: everything arrives once.
  void FloodThenDrain(Node* target, const RemoteWindow& window, uint64_t length) {
    const uint32_t posted = PostUntilStuck(window, length);
    ASSERT_TRUE(
        PollUntil({sender_.get(), target},
                  [&] { return target->tokens.size() >= posted && sender_->outstanding() == 0; }))
        << target->tokens.size() << " of " << posted << " arrived";
    std::sort(target->tokens.begin(), target->tokens.end());
    ASSERT_EQ(target->tokens.size(), posted);
    for (uint32_t i = 0; i < posted; ++i) ASSERT_EQ(target->tokens[i], i);
    EXPECT_TRUE(sender_->failures.empty()) << sender_->failures[0].status;
    EXPECT_TRUE(target->reactor().health().ok()) << target->reactor().health();
  }

  // The first write to a peer, again whenever it is given up: to connect may take longer than the
  // retry limit.
  void Reach(const PeerProcess& peer) {
    sender_->tokens.clear();
    bool under_way = false;
    ASSERT_TRUE(PollUntil({sender_.get()}, [&] {
      if (!sender_->failures.empty()) under_way = false;
      sender_->failures.clear();
      if (!under_way) under_way = sender_->Write(GetParam(), peer.window(), 0, 8, 0);
      return !sender_->tokens.empty();
    }));
  }

  // `count` writes while a peer stands still, and as many once it is dead; polls until no refused
  // post is left; gives the operations up, as a session that ends does.
  void WriteToADyingPeer(uint32_t count) {
    const auto dead = PeerProcess::Start(sender_.get(), GetParam());
    ASSERT_NE(dead, nullptr);
    ASSERT_NO_FATAL_FAILURE(Reach(*dead));
    dead->StandStill();
    for (uint32_t i = 0; i < 2 * count; ++i) {
      if (i == count) dead->Kill();
      sender_->Write(GetParam(), dead->window(), 0, kPeerBytes, i);
      sender_->reactor().Poll();
    }
    // Refused posts are tried again in slow turns, so a count that stays is a queue that is empty.
    uint64_t refused = 0;
    int same = 0;
    EXPECT_TRUE(PollUntil({sender_.get()}, [&] {
      const uint64_t now = sender_->reactor().counters().posts_refused;
      same = now == refused ? same + 1 : 0;
      refused = now;
      return same > 5000;
    }));
    EXPECT_TRUE(sender_->reactor().health().ok()) << sender_->reactor().health();
    sender_->reactor().RetireAllOf(sender_.get());
    sender_->failures.clear();
  }

  std::unique_ptr<Node> sender_;
  size_t capacity_ = 0;
};

TEST_P(BackPressure, NothingIsLostToAPeerThatIsNotYetConnected) {
  ASSERT_NO_FATAL_FAILURE(Open(absl::Minutes(10)));
  const auto target = OpenNode(kBytes);
  ASSERT_NE(target, nullptr);
  FloodThenDrain(target.get(), sender_->WindowTo(*target), 256);
}

TEST_P(BackPressure, NothingIsLostToAPeerThatStopsPolling) {
  ASSERT_NO_FATAL_FAILURE(Open(absl::Minutes(10)));
  const auto target = OpenNode(kBytes);
  ASSERT_NE(target, nullptr);
  const RemoteWindow window = sender_->WindowTo(*target);
  ASSERT_TRUE(sender_->Write(GetParam(), window, 0, 8, 0));
  ASSERT_TRUE(PollUntil({sender_.get(), target.get()},
                        [&] { return target->tokens.size() == 1 && sender_->outstanding() == 0; }));
  target->tokens.clear();
  FloodThenDrain(target.get(), window, kBytes);
}

// What the fabric has taken for a dead peer may stay its own affair; what it refuses ends by the
// retry limit, and the reactor serves on.
TEST_P(BackPressure, AProcessThatDiedHoldsUpNothingForLongerThanTheRetryLimit) {
  ASSERT_NO_FATAL_FAILURE(Open(absl::Milliseconds(200)));
  ASSERT_NO_FATAL_FAILURE(WriteToADyingPeer(kOperations / 4));
  const auto next = PeerProcess::Start(sender_.get(), GetParam());
  ASSERT_NE(next, nullptr);
  ASSERT_NO_FATAL_FAILURE(Reach(*next));
  EXPECT_TRUE(next->RoundTrip(2, kPeerBytes));
}

// By the provider, or by writing them off.
TEST_P(BackPressure, OperationsToProcessesThatDiedCostNoCapacity) {
  ASSERT_NO_FATAL_FAILURE(Open(absl::Milliseconds(200)));
  for (int round = 0; round < 2; ++round) {
    ASSERT_NO_FATAL_FAILURE(WriteToADyingPeer(kOperations));
    EXPECT_TRUE(PollUntil({sender_.get()}, [&] { return sender_->outstanding() == 0; }));
    EXPECT_EQ(sender_->reactor().operations().capacity(), capacity_);
    EXPECT_TRUE(
        PollUntil({sender_.get()}, [&] { return sender_->reactor().peers().quarantined() == 0; }));
  }
  const auto next = PeerProcess::Start(sender_.get(), GetParam());
  ASSERT_NE(next, nullptr);
  ASSERT_NO_FATAL_FAILURE(Reach(*next));
  EXPECT_TRUE(next->RoundTrip(2, kPeerBytes));
}

INSTANTIATE_TEST_SUITE_P(Every, BackPressure, testing::ValuesIn(EveryWay()), transport::NameOfWay);

}  // namespace
}  // namespace invoker::conformance
