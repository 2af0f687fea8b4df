// Sleeping and being woken, on every fabric of this machine. That a sleep was ended by an event,
// and not by its time limit, is seen at the call that blocks: ppoll or fi_cq_sread.

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/transport/faults.h"
#include "tests/transport/in_libfabric.h"
#include "tests/transport/node.h"

namespace {

enum class Ended { kDidNotSleep, kByEvent, kByTimeLimit };

// How this thread's last sleep ended.
thread_local Ended last_sleep = Ended::kDidNotSleep;

// How long it was to last at most.
thread_local int64_t last_limit_ns = 0;

// Sleeps that must be ended by an event get a limit that no healthy run reaches.
thread_local bool must_be_woken = false;
constexpr timespec kGiveUp = {60, 0};

int RecordingPpoll(pollfd* descriptors, nfds_t count, const timespec* timeout,
                   const sigset_t* mask) {
  timespec left = {};
  if (timeout != nullptr) last_limit_ns = timeout->tv_sec * 1'000'000'000 + timeout->tv_nsec;
  if (timeout != nullptr) left = must_be_woken ? kGiveUp : *timeout;
  const long result =
      syscall(SYS_ppoll, descriptors, count, timeout == nullptr ? nullptr : &left, mask, _NSIG / 8);
  last_sleep = result == 0 ? Ended::kByTimeLimit : Ended::kByEvent;
  return static_cast<int>(result);
}

}  // namespace

// In place of the C library's, with the name that fortified code calls as well.
extern "C" int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout,
                     const sigset_t* mask) {
  return RecordingPpoll(descriptors, count, timeout, mask);
}
extern "C" int __ppoll_chk(pollfd* descriptors, nfds_t count, const timespec* timeout,
                           const sigset_t* mask, size_t) {
  return RecordingPpoll(descriptors, count, timeout, mask);
}

namespace invoker::transport {
namespace {

// Takes note of how a queue's fi_cq_sread ends. A signal looks like the time limit to its caller,
// and is told from it by the limit that no healthy run reaches.
class SreadRecorder {
 public:
  explicit SreadRecorder(fid_cq* queue) : queue_(&queue->ops, this) {
    queue_.ours().sread = &Sread;
  }

 private:
  using Queue = ReplacedOps<fi_ops_cq, SreadRecorder>;

  static ssize_t Sread(fid_cq* cq, void* buffer, size_t count, const void* condition, int timeout) {
    const bool was_woken = must_be_woken;
    const int limit = was_woken ? static_cast<int>(kGiveUp.tv_sec * 1000) : timeout;
    const int64_t give_up = MonotonicNs() + int64_t{kGiveUp.tv_sec} * 1'000'000'000;
    const ssize_t result =
        Queue::From(cq->ops).queue_.provider().sread(cq, buffer, count, condition, limit);
    const bool by_event = result > 0 || (was_woken && MonotonicNs() < give_up);
    // The one that the provider calls for itself is not a sleep.
    last_sleep = by_event ? Ended::kByEvent : Ended::kByTimeLimit;
    return result;
  }

  Queue queue_;
};

// A node whose sleeps are recorded.
struct Sleeper {
  explicit Sleeper(const std::string& provider) : node(Node::Open(provider, 4096)) {
    if (node == nullptr) return;
    if (node->reactor().wait_method() == WaitMethod::kSread) {
      recorder = std::make_unique<SreadRecorder>(node->reactor().completion_queue().get());
    }
  }

  // About to sleep.
  void Arm() {
    for (int i = 0; i < 100 && !node->reactor().Arm(); ++i) {
      node->reactor().Disarm();
      node->reactor().Poll();
    }
  }

  // Fails if nothing but a limit ended it.
  void SleepUntilWoken() {
    must_be_woken = true;
    node->reactor().Sleep(absl::InfiniteDuration());
    must_be_woken = false;
    EXPECT_EQ(last_sleep, Ended::kByEvent);
    node->reactor().Disarm();
  }

  std::unique_ptr<Node> node;
  std::unique_ptr<SreadRecorder> recorder;  // goes first
};

// One completed write, so that whatever the fabric connects is connected.
void Connect(Node* from, Node* to, const RemoteWindow& window) {
  const Way way = {"", "", Notification::kWriteImm, SendOrder::kAfterDelivery};
  const size_t before = to->tokens.size();
  ASSERT_TRUE(from->Write(way, window, 0, 64, 1));
  ASSERT_TRUE(PollUntil(
      {from, to}, [&] { return to->tokens.size() == before + 1 && from->outstanding() == 0; }));
}

constexpr Way kWriteImm = {"", "", Notification::kWriteImm, SendOrder::kAfterDelivery};

class ReactorWait : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    sleeper_ = std::make_unique<Sleeper>(GetParam());
    ASSERT_NE(sleeper_->node, nullptr);
    last_sleep = Ended::kDidNotSleep;
  }

  Node& idle() { return *sleeper_->node; }

  std::unique_ptr<Sleeper> sleeper_;
};

TEST_P(ReactorWait, FabricIsWaitedForAsItsRowSays) {
  EXPECT_EQ(idle().reactor().wait_method(), FindRow(GetParam()).wait);
  EXPECT_EQ(idle().reactor().completion_queue().file_descriptor() >= 0,
            idle().reactor().wait_method() == WaitMethod::kFd);
}

TEST_P(ReactorWait, HotReactorHasNoWaitObjectWhereThatSlowsPolling) {
  ReactorOptions options;
  options.use = ReactorUse::kHot;
  const auto hot = Node::Open(GetParam(), 64, options);
  ASSERT_NE(hot, nullptr);
  const ProfileRow& row = FindRow(GetParam());
  EXPECT_EQ(hot->reactor().wait_method(), row.wait_slows_polling ? WaitMethod::kBackoff : row.wait);
}

TEST_P(ReactorWait, IdleReactorReallySleeps) {
  sleeper_->Arm();
  idle().reactor().Sleep(absl::Milliseconds(1));
  // The queue is asked once, when it is opened, whether it can be signalled.
  if (idle().reactor().wait_method() == WaitMethod::kSread) {
    idle().reactor().Sleep(absl::Milliseconds(1));
  }
  idle().reactor().Disarm();
  EXPECT_EQ(last_sleep, Ended::kByTimeLimit);
}

TEST_P(ReactorWait, TaskEndsASleepThatWasAboutToBegin) {
  for (int i = 0; i < 3; ++i) {
    sleeper_->Arm();
    bool ran = false;
    std::thread([&] { idle().reactor().Submit([&] { ran = true; }); }).join();
    sleeper_->SleepUntilWoken();
    idle().reactor().Poll();
    EXPECT_TRUE(ran);
  }
}

TEST_P(ReactorWait, TaskThatIsAlreadyThereKeepsTheReactorAwake) {
  idle().reactor().Submit([] {});
  EXPECT_FALSE(idle().reactor().Arm());
  idle().reactor().Disarm();
  idle().reactor().Wait(absl::InfiniteDuration());
  EXPECT_EQ(last_sleep, Ended::kDidNotSleep);
}

TEST_P(ReactorWait, WakeIsUsedUpByTheSleepItEnded) {
  sleeper_->Arm();
  idle().reactor().Submit([] {});
  idle().reactor().Sleep(absl::InfiniteDuration());
  idle().reactor().Disarm();
  idle().reactor().Poll();
  sleeper_->Arm();
  idle().reactor().Sleep(absl::Milliseconds(1));
  idle().reactor().Disarm();
  EXPECT_EQ(last_sleep, Ended::kByTimeLimit);
}

// The driver sleeps and polls in a thread of its own while others submit.
TEST_P(ReactorWait, EveryTaskOfManyThreadsRunsOnTheDriverInTheOrderOfItsThread) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 500;
  std::vector<int> next(kThreads, 0);
  int ran = 0;
  bool in_order = true;
  std::atomic<bool> done{false};
  std::thread driver([&] {
    while (ran < kThreads * kTasks) {
      idle().reactor().Wait(absl::InfiniteDuration());
      idle().reactor().Poll();
    }
    done = true;
  });
  const std::thread::id driver_id = driver.get_id();
  std::vector<std::thread> others;
  for (int thread = 0; thread < kThreads; ++thread) {
    others.emplace_back([&, thread] {
      for (int task = 0; task < kTasks; ++task) {
        idle().reactor().Submit([&, thread, task] {
          in_order &= next[thread]++ == task && std::this_thread::get_id() == driver_id;
          ++ran;
        });
      }
    });
  }
  for (std::thread& thread : others) thread.join();
  driver.join();
  EXPECT_TRUE(done);
  EXPECT_TRUE(in_order);
}

TEST_P(ReactorWait, TaskMayPutTasksThatRunInALaterTurn) {
  int turn = 0;
  int second_ran_in = 0;
  idle().reactor().Submit([&] { idle().reactor().Submit([&] { second_ran_in = turn; }); });
  for (turn = 1; turn <= 3; ++turn) idle().reactor().Poll();
  EXPECT_EQ(second_ran_in, 2);
}

TEST_P(ReactorWait, TicksGoOnWhileNothingHappens) {
  const uint64_t before = idle().ticks;
  ASSERT_TRUE(PollUntil({&idle()}, [&] { return idle().ticks >= before + 3; }));
  while (idle().ticks < before + 6) {
    idle().reactor().Wait(absl::InfiniteDuration());
    idle().reactor().Poll();
  }
}

// About a wait without a wait object: how long the sleeps are to last, not how long they do.
TEST_P(ReactorWait, BackOffGrowsWithTheWaitUntilAMessageComes) {
  constexpr int64_t kFirstNs = 50'000;
  constexpr int64_t kLastNs = 1'000'000;
  ReactorOptions options;
  options.use = ReactorUse::kHot;
  const auto hot = Node::Open(GetParam(), 4096, options);
  ASSERT_NE(hot, nullptr);
  if (hot->reactor().wait_method() != WaitMethod::kBackoff) GTEST_SKIP() << "it has a wait object";
  const RemoteWindow window = idle().WindowTo(*hot);
  for (int wait = 0; wait < 3; ++wait) {
    ASSERT_NO_FATAL_FAILURE(Connect(&idle(), hot.get(), window));
    const int64_t since_ns = MonotonicNs();
    int64_t before_ns = kFirstNs;
    while (before_ns < kLastNs) {
      ASSERT_TRUE(hot->reactor().Arm());
      const int64_t waited_ns = MonotonicNs() - since_ns;
      hot->reactor().Sleep(absl::InfiniteDuration());
      hot->reactor().Disarm();
      ASSERT_EQ(hot->reactor().Poll(), 0);
      EXPECT_GE(last_limit_ns, before_ns);
      EXPECT_LE(last_limit_ns, std::clamp(waited_ns / 16, kFirstNs, kLastNs));
      before_ns = last_limit_ns;
    }
  }
}

TEST_P(ReactorWait, IncomingWriteEndsTheSleep) {
  auto sender = Node::Open(GetParam(), 4096);
  ASSERT_NE(sender, nullptr);
  const RemoteWindow window = sender->WindowTo(idle());
  ASSERT_NO_FATAL_FAILURE(Connect(sender.get(), &idle(), window));
  const bool is_event = idle().reactor().wait_method() != WaitMethod::kBackoff;
  for (uint32_t token = 2; token <= 20; ++token) {
    sleeper_->Arm();
    ASSERT_TRUE(sender->Write(kWriteImm, window, 0, 64, token));
    // On its way, as far as the sender can drive it alone.
    for (int i = 0; i < 1000; ++i) sender->reactor().Poll();
    if (is_event) {
      sleeper_->SleepUntilWoken();
    } else {
      idle().reactor().Sleep(absl::InfiniteDuration());
      idle().reactor().Disarm();
    }
    ASSERT_TRUE(PollUntil({sender.get(), &idle()}, [&] { return idle().tokens.back() == token; }));
    ASSERT_TRUE(PollUntil({sender.get(), &idle()}, [&] { return sender->outstanding() == 0; }));
  }
  EXPECT_EQ(idle().tokens.size(), 20u) << "each exactly once";
}

TEST_P(ReactorWait, AQueueWhoseDescriptorIsAskedFirstLosesNothing) {
  auto sender = Node::Open(GetParam(), 4096);
  ASSERT_NE(sender, nullptr);
  const RemoteWindow window = sender->WindowTo(idle());
  ASSERT_NO_FATAL_FAILURE(Connect(sender.get(), &idle(), window));
  const bool asks = idle().reactor().completion_queue().file_descriptor() >= 0;
  const ReactorCounters& counters = idle().reactor().counters();
  for (uint32_t token = 2; token <= 20; ++token) {
    // Until it has asked, and so makes no turn. Without a descriptor it makes one every time.
    bool made_turn = false;
    const auto look = [&] {
      const uint64_t turns = counters.turns;
      idle().reactor().PollIfReady();
      made_turn = counters.turns != turns;
      return !asks || !made_turn;
    };
    ASSERT_TRUE(PollUntil({}, look));
    ASSERT_EQ(made_turn, !asks);
    ASSERT_TRUE(sender->Write(kWriteImm, window, 0, 64, token));
    ASSERT_TRUE(PollUntil({sender.get()}, [&] {
      idle().reactor().PollIfReady();
      return idle().tokens.back() == token && sender->outstanding() == 0;
    }));
  }
  EXPECT_EQ(idle().tokens.size(), 20u) << "each exactly once";
}

// A client's driver does so: a thread sleeps that is not the driver, and meanwhile the driver
// posts.
TEST_P(ReactorWait, DriverMayPostWhileAnotherThreadSleeps) {
  constexpr uint32_t kRounds = 200;
  auto peer = Node::Open(GetParam(), 4096);
  ASSERT_NE(peer, nullptr);
  const RemoteWindow to_idle = peer->WindowTo(idle());
  const RemoteWindow to_peer = idle().WindowTo(*peer);
  ASSERT_NO_FATAL_FAILURE(Connect(peer.get(), &idle(), to_idle));
  ASSERT_NO_FATAL_FAILURE(Connect(&idle(), peer.get(), to_peer));
  for (uint32_t token = 2; token <= kRounds; ++token) {
    if (idle().reactor().Arm()) {
      std::thread sleeper([&] { idle().reactor().Sleep(absl::Milliseconds(5)); });
      ASSERT_TRUE(idle().Write(kWriteImm, to_peer, 0, 64, token));
      ASSERT_TRUE(peer->Write(kWriteImm, to_idle, 0, 64, token));
      for (int i = 0; i < 100; ++i) peer->reactor().Poll();
      sleeper.join();
    } else {
      ASSERT_TRUE(idle().Write(kWriteImm, to_peer, 0, 64, token));
      ASSERT_TRUE(peer->Write(kWriteImm, to_idle, 0, 64, token));
    }
    idle().reactor().Disarm();
    ASSERT_TRUE(PollUntil({peer.get(), &idle()}, [&] {
      return idle().tokens.size() == token && peer->tokens.size() == token &&
             idle().outstanding() + peer->outstanding() == 0;
    })) << token;
  }
}

std::vector<const char*> Fabrics() {
  return ThoseInLibfabric<const char*>(
      {"tcp;ofi_rxm", "shm", "sockets", "net", "tcp", "udp;ofi_rxd"});
}

std::string NameOfFabric(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  for (char& character : name) {
    if (isalnum(static_cast<unsigned char>(character)) == 0) character = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Every, ReactorWait, testing::ValuesIn(Fabrics()), NameOfFabric);

// A thread that drives the fabric of the parameter and a fabric with a descriptor.
class WaitAnyOfTwo : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    first_ = std::make_unique<Sleeper>("tcp;ofi_rxm");
    second_ = std::make_unique<Sleeper>(GetParam());
    ASSERT_NE(first_->node, nullptr);
    ASSERT_NE(second_->node, nullptr);
    reactors_ = {&first_->node->reactor(), &second_->node->reactor()};
    for (int i = 0; i < 100; ++i) PollBoth();
    last_sleep = Ended::kDidNotSleep;
  }

  void PollBoth() {
    for (Reactor* reactor : reactors_) reactor->Poll();
  }

  std::unique_ptr<Sleeper> first_;
  std::unique_ptr<Sleeper> second_;
  std::vector<Reactor*> reactors_;
};

TEST_P(WaitAnyOfTwo, SleepsWhileNothingHappens) {
  for (int i = 0; i < 100 && last_sleep == Ended::kDidNotSleep; ++i) {
    WaitAny(reactors_, absl::Milliseconds(1));
    PollBoth();
  }
  EXPECT_EQ(last_sleep, Ended::kByTimeLimit);
}

TEST_P(WaitAnyOfTwo, TaskThatIsAlreadyThereKeepsTheThreadAwake) {
  for (Reactor* reactor : reactors_) {
    reactor->Submit([] {});
    WaitAny(reactors_, absl::InfiniteDuration());
    EXPECT_EQ(last_sleep, Ended::kDidNotSleep);
    PollBoth();
  }
}

TEST_P(WaitAnyOfTwo, TaskOfEitherEndsTheSleep) {
  for (int round = 0; round < 20; ++round) {
    for (Reactor* reactor : reactors_) {
      std::atomic<bool> waiting{false};
      bool ran = false;
      std::thread other([&] {
        while (!waiting) std::this_thread::yield();
        reactor->Submit([&] { ran = true; });
      });
      must_be_woken = true;
      waiting = true;
      while (!ran) {
        WaitAny(reactors_, absl::InfiniteDuration());
        PollBoth();
        EXPECT_NE(last_sleep, Ended::kByTimeLimit);
      }
      must_be_woken = false;
      other.join();
    }
  }
}

TEST_P(WaitAnyOfTwo, IncomingWriteToOneWithADescriptorEndsTheSleep) {
  for (Sleeper* target : {first_.get(), second_.get()}) {
    if (target->node->reactor().wait_method() != WaitMethod::kFd) continue;
    auto sender = Node::Open(target->node->reactor().profile().provider, 4096);
    ASSERT_NE(sender, nullptr);
    const RemoteWindow window = sender->WindowTo(*target->node);
    ASSERT_NO_FATAL_FAILURE(Connect(sender.get(), target->node.get(), window));
    for (uint32_t token = 2; token <= 10; ++token) {
      ASSERT_TRUE(sender->Write(kWriteImm, window, 0, 64, token));
      for (int i = 0; i < 1000; ++i) sender->reactor().Poll();
      must_be_woken = true;
      while (target->node->tokens.back() != token) {
        WaitAny(reactors_, absl::InfiniteDuration());
        PollBoth();
        ASSERT_NE(last_sleep, Ended::kByTimeLimit);
      }
      must_be_woken = false;
      ASSERT_TRUE(PollUntil({sender.get(), target->node.get()},
                            [&] { return sender->outstanding() == 0; }));
    }
  }
}

// The sleep has no event to end it, but the back-off's limit.
TEST_P(WaitAnyOfTwo, IncomingWriteToOneWithoutADescriptorIsFoundAfterTheBackOff) {
  if (second_->node->reactor().wait_method() == WaitMethod::kFd) GTEST_SKIP();
  auto sender = Node::Open(GetParam(), 4096);
  ASSERT_NE(sender, nullptr);
  const RemoteWindow window = sender->WindowTo(*second_->node);
  ASSERT_NO_FATAL_FAILURE(Connect(sender.get(), second_->node.get(), window));
  for (uint32_t token = 2; token <= 10; ++token) {
    ASSERT_TRUE(sender->Write(kWriteImm, window, 0, 64, token));
    while (second_->node->tokens.back() != token) {
      sender->reactor().Poll();
      WaitAny(reactors_, absl::InfiniteDuration());
      PollBoth();
    }
  }
}

TEST(WaitAny, OneReactorWaitsInItsOwnWay) {
  Sleeper sleeper("udp;ofi_rxd");
  ASSERT_NE(sleeper.node, nullptr);
  Reactor* const reactors[] = {&sleeper.node->reactor()};
  std::thread other([&] { reactors[0]->Submit([] {}); });
  other.join();
  WaitAny(reactors, absl::InfiniteDuration());
  EXPECT_EQ(last_sleep, Ended::kDidNotSleep);
  reactors[0]->Poll();
  for (int i = 0; i < 3; ++i) WaitAny(reactors, absl::Milliseconds(1));
  EXPECT_EQ(last_sleep, Ended::kByTimeLimit);
}

INSTANTIATE_TEST_SUITE_P(With, WaitAnyOfTwo, testing::ValuesIn(Fabrics()), NameOfFabric);

}  // namespace
}  // namespace invoker::transport
