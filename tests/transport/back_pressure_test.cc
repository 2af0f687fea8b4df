// A peer that does not poll: what is posted to it waits within fixed bounds, and nothing is lost.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/transport/node.h"

namespace invoker::transport {
namespace {

constexpr size_t kBytes = 64 * 1024;

class BackPressure : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    ReactorOptions options;
    options.operations = 128;
    options.retry_limit = absl::Minutes(10);
    sender_ = Node::Open(GetParam().provider, kBytes, options);
    target_ = Node::Open(GetParam().provider, kBytes);
    ASSERT_TRUE(sender_ != nullptr && target_ != nullptr);
    window_ = sender_->WindowTo(*target_);
  }

  // Posts while the target does nothing, until the slots are used up and stay so, then lets the
  // target go on.
  void PostUntilFullThenDrain(uint64_t length) {
    uint32_t posted = 0;
    int full = 0;
    while (full < 2000 && posted < 20000) {
      if (sender_->Write(GetParam(), window_, 0, length, posted)) {
        ++posted;
        full = 0;
      } else {
        ++full;
        EXPECT_EQ(sender_->outstanding(), sender_->reactor().operations().capacity());
      }
      sender_->reactor().Poll();
    }
    EXPECT_EQ(full, 2000) << "nothing held the sender back";
    ASSERT_TRUE(
        PollUntil({sender_.get(), target_.get()},
                  [&] { return target_->tokens.size() >= posted && sender_->outstanding() == 0; }))
        << target_->tokens.size() << " of " << posted << " arrived";
    std::vector<uint32_t> sorted = target_->tokens;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(sorted.size(), posted);
    for (uint32_t i = 0; i < posted; ++i) ASSERT_EQ(sorted[i], i);
    EXPECT_TRUE(sender_->failures.empty());
    EXPECT_TRUE(target_->reactor().health().ok());
    if (PostsLater()) {
      EXPECT_GT(sender_->posted_later, 0u);
    }
    target_->tokens.clear();
  }

  // Whether the fabric has refused something, or messages take two steps.
  bool PostsLater() const {
    return sender_->reactor().counters().posts_refused > 0 ||
           (GetParam().notification == Notification::kSendAfterWrite && !GetParam().eager &&
            GetParam().order == SendOrder::kAfterDelivery);
  }

  std::unique_ptr<Node> sender_;
  std::unique_ptr<Node> target_;
  RemoteWindow window_;
};

TEST_P(BackPressure, NothingIsLostToAPeerThatIsNotYetConnected) { PostUntilFullThenDrain(1024); }

TEST_P(BackPressure, NothingIsLostToAConnectedPeerThatStopsPolling) {
  ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 0));
  ASSERT_TRUE(PollUntil({sender_.get(), target_.get()}, [&] {
    return target_->tokens.size() == 1 && sender_->outstanding() == 0;
  }));
  target_->tokens.clear();
  PostUntilFullThenDrain(kBytes);
}

// Over connections only: endpoints on one process's shared memory map each other's queues without
// counting, so libfabric itself does not survive one of them going before the other.
class Departure : public BackPressure {};

TEST_P(Departure, ReactorsCanGoAwayWithEverythingUnderWay) {
  ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 0));
  ASSERT_TRUE(PollUntil({sender_.get(), target_.get()}, [&] { return !target_->tokens.empty(); }));
  while (sender_->Write(GetParam(), window_, 0, kBytes, 1)) {
  }
  sender_->reactor().Poll();
  sender_->reactor().Retire(std::move(sender_->source));
  sender_.reset();
  for (int i = 0; i < 100; ++i) target_->reactor().Poll();
}

TEST_P(Departure, PeerThatHasGoneEndsInFailuresOrSilenceButNeverInACrash) {
  ASSERT_TRUE(sender_->Write(GetParam(), window_, 0, 8, 0));
  ASSERT_TRUE(PollUntil({sender_.get(), target_.get()}, [&] { return !target_->tokens.empty(); }));
  target_.reset();
  for (uint32_t i = 0; i < 64; ++i) {
    sender_->Write(GetParam(), window_, 0, 64, i);
    sender_->reactor().Poll();
  }
  for (int i = 0; i < 5000; ++i) sender_->reactor().Poll();
  EXPECT_TRUE(sender_->reactor().health().ok());
  EXPECT_LE(sender_->failures.size(), 64u);
}

std::vector<Way> WaysBetweenHosts() {
  std::vector<Way> ways = AllWays();
  const auto same_host = [](const Way& way) { return FindRow(way.provider).same_host_only; };
  ways.erase(std::remove_if(ways.begin(), ways.end(), same_host), ways.end());
  return ways;
}

// A provider takes so many operations at a time. Once those to peers that have gone, and that it
// keeps, are as many, it refuses everybody.
TEST(FullProvider, IsGivenUpWhenAllThatItHoldsIsToPeersThatHaveGone) {
  // A message without an immediate goes on every libfabric.
  const Way way = {"", "tcp;ofi_rxm", Notification::kSendAfterWrite, SendOrder::kPipelined};
  ReactorOptions options;
  options.retry_limit = absl::Minutes(10);
  options.quarantine_after = absl::Milliseconds(20);
  const auto sender = Node::Open(way.provider, kBytes, options);
  const auto peer = Node::Open(way.provider, kBytes);
  ASSERT_TRUE(sender != nullptr && peer != nullptr);
  const RemoteWindow window = sender->WindowTo(*peer);
  ASSERT_TRUE(sender->Write(way, window, 0, 8, 0));
  ASSERT_TRUE(PollUntil({sender.get(), peer.get()},
                        [&] { return !peer->tokens.empty() && sender->outstanding() == 0; }));
  // The peer stops here, with its connection up. Each round is a session of its that ends.
  size_t quarantined = 0;
  do {
    while (sender->Write(way, window, 0, kBytes, 1)) {
    }
    sender->reactor().RetireAllOf(sender.get());
    quarantined = sender->reactor().operations().quarantined();
    ASSERT_TRUE(PollUntil({sender.get()}, [&] { return sender->outstanding() == 0; }));
  } while (sender->reactor().operations().quarantined() > quarantined);
  EXPECT_GT(quarantined, 0u);
  // Somebody else's.
  const auto other = Node::Open(way.provider, kBytes);
  ASSERT_NE(other, nullptr);
  ASSERT_TRUE(sender->Write(way, sender->WindowTo(*other), 0, kBytes, 2));
  EXPECT_TRUE(PollUntil({sender.get(), other.get()}, [&] {
    return !sender->reactor().health().ok() || !other->tokens.empty();
  }));
  EXPECT_FALSE(sender->reactor().health().ok());
  EXPECT_TRUE(other->tokens.empty());
}

INSTANTIATE_TEST_SUITE_P(Every, Departure, testing::ValuesIn(WaysBetweenHosts()), NameOfWay);
INSTANTIATE_TEST_SUITE_P(Every, BackPressure, testing::ValuesIn(AllWays()), NameOfWay);

}  // namespace
}  // namespace invoker::transport
