// A reactor sleeps while nothing happens, and wakes up for whatever does.

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "tests/conformance/peer_process.h"
#include "tests/conformance/tested_fabric.h"

namespace invoker::conformance {
namespace {

using transport::Node;
using transport::PollUntil;
using transport::Way;

// Far beyond what a test lasts: a sleep that nothing ends shows.
constexpr absl::Duration kForever = absl::Hours(1);

// Lets a driver out of sleeps that nothing ends, with a task, once no healthy run would last any
// longer.
class Rescue {
 public:
  explicit Rescue(transport::Reactor* reactor)
      : thread_([this, reactor] {
          absl::Duration limit = absl::Seconds(60);
          while (!done_.WaitForNotificationWithTimeout(limit)) {
            reactor->Submit([this] { came_ = true; });
            limit = absl::Seconds(1);  // a signal may be lost
          }
        }) {}
  ~Rescue() {
    done_.Notify();
    thread_.join();
  }

  // The driver's.
  bool came() const { return came_; }

 private:
  bool came_ = false;
  absl::Notification done_;
  std::thread thread_;
};

class Waits : public WaysSuite {
 protected:
  // Writes to another process and sleeps until its answer is there, some times. Nothing but Wait
  // lets the node go on between two turns, and nobody else drives it.
  void SleepUntilEveryAnswer(Node* node) {
    const Rescue rescue(&node->reactor());
    const auto peer = PeerProcess::Start(node, GetParam());
    ASSERT_NE(peer, nullptr);
    ASSERT_TRUE(peer->RoundTrip(1));
    for (uint32_t message = 2; message < 2 + Scaled(50); ++message) {
      node->tokens.clear();
      Stamp(node->source.data(), 64, message);
      ASSERT_TRUE(node->Write(GetParam(), peer->window(), 0, 64, message));
      while (node->tokens.empty() && node->failures.empty()) {
        node->reactor().Wait(absl::InfiniteDuration());
        node->reactor().Poll();
        ASSERT_FALSE(rescue.came()) << "nothing ended the sleep before message " << message;
      }
      ASSERT_TRUE(node->failures.empty()) << node->failures[0].status;
      EXPECT_EQ(node->tokens, std::vector<uint32_t>{message});
      EXPECT_EQ(FirstDifference(node->window.data(), 64, message), 64u);
    }
    EXPECT_EQ(peer->End(), 0) << peer->log();
  }
};

TEST_P(Waits, EveryMessageOfAnotherProcessEndsTheSleep) {
  transport::ReactorOptions options;
  options.longest_sleep = kForever;
  const auto node = OpenNode(kPeerBytes, options);
  ASSERT_NE(node, nullptr);
  if (node->reactor().wait_method() == transport::WaitMethod::kBackoff) {
    GTEST_SKIP() << "a message ends no sleep without a wait object";
  }
  SleepUntilEveryAnswer(node.get());
}

TEST_P(Waits, WithoutAWaitObjectEveryMessageIsFoundBetweenSleeps) {
  const auto node = OpenNode(kPeerBytes);
  ASSERT_NE(node, nullptr);
  if (node->reactor().wait_method() != transport::WaitMethod::kBackoff) {
    GTEST_SKIP() << "the fabric has a wait object";
  }
  SleepUntilEveryAnswer(node.get());
}

// One thread drives two endpoints, and sleeps on both.
TEST_P(Waits, OneThreadIsWokenForEachOfItsReactors) {
  std::unique_ptr<Node> nodes[2];
  std::unique_ptr<PeerProcess> peers[2];
  for (int i = 0; i < 2; ++i) {
    nodes[i] = OpenNode(kPeerBytes);
    ASSERT_NE(nodes[i], nullptr);
    peers[i] = PeerProcess::Start(nodes[i].get(), GetParam());
    ASSERT_NE(peers[i], nullptr);
    ASSERT_TRUE(peers[i]->RoundTrip(1));
  }
  transport::Reactor* const both[] = {&nodes[0]->reactor(), &nodes[1]->reactor()};
  for (uint32_t message = 2; message < 2 + Scaled(30); ++message) {
    Node* const node = nodes[message % 2].get();
    node->tokens.clear();
    ASSERT_TRUE(node->Write(GetParam(), peers[message % 2]->window(), 0, 64, message));
    while (node->tokens.empty() && node->failures.empty()) {
      transport::WaitAny(both, absl::InfiniteDuration());
      for (transport::Reactor* reactor : both) reactor->Poll();
    }
    ASSERT_TRUE(node->failures.empty()) << node->failures[0].status;
    EXPECT_EQ(node->tokens, std::vector<uint32_t>{message});
  }
  for (const auto& peer : peers) EXPECT_EQ(peer->End(), 0) << peer->log();
}

INSTANTIATE_TEST_SUITE_P(Every, Waits, testing::ValuesIn(EveryWay()), transport::NameOfWay);

class IdleWaits : public FabricSuite {
 protected:
  void SetUp() override {
    FabricSuite::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    node_ = OpenNode(4096);
    ASSERT_NE(node_, nullptr);
  }

  std::unique_ptr<Node> node_;
};

// A reactor whose wait object is always ready goes round some hundred times for every tick.
TEST_F(IdleWaits, AnIdleReactorReallySleeps) {
  constexpr uint64_t kTicks = 20;
  while (node_->ticks == 0) node_->reactor().Poll();
  const uint64_t last = node_->ticks + kTicks;
  uint64_t waits = 0;
  for (; node_->ticks < last; ++waits) {
    node_->reactor().Wait(absl::InfiniteDuration());
    node_->reactor().Poll();
  }
  EXPECT_LE(waits, kTicks * 30);
}

TEST_F(IdleWaits, TasksOfOtherThreadsEndTheSleepAndRunOnTheDriver) {
  constexpr int kThreads = 3;
  constexpr int kTasks = 200;
  int ran = 0;
  bool on_driver = true;
  const std::thread::id driver = std::this_thread::get_id();
  std::vector<std::thread> others;
  for (int thread = 0; thread < kThreads; ++thread) {
    others.emplace_back([&] {
      for (int task = 0; task < kTasks; ++task) {
        node_->reactor().Submit([&] {
          on_driver &= std::this_thread::get_id() == driver;
          ++ran;
        });
      }
    });
  }
  while (ran < kThreads * kTasks) {
    node_->reactor().Wait(absl::InfiniteDuration());
    node_->reactor().Poll();
  }
  for (std::thread& thread : others) thread.join();
  EXPECT_TRUE(on_driver);
  EXPECT_EQ(ran, kThreads * kTasks);
}

TEST_F(IdleWaits, AReactorThatSleptALongTimeStillServes) {
  const Way way = PreferredWay();
  const auto sender = OpenNode(4096);
  ASSERT_NE(sender, nullptr);
  const transport::RemoteWindow window = sender->WindowTo(*node_);
  for (uint32_t message = 1; message <= 3; ++message) {
    const uint64_t later = node_->ticks + 10;
    while (node_->ticks < later) {
      node_->reactor().Wait(absl::InfiniteDuration());
      node_->reactor().Poll();
    }
    ASSERT_TRUE(sender->Write(way, window, 0, 64, message));
    ASSERT_TRUE(
        PollUntil({sender.get(), node_.get()}, [&] { return node_->tokens.size() == message; }));
  }
}

}  // namespace
}  // namespace invoker::conformance
