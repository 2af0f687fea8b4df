// Sleeping and being woken. That a sleep was ended by an event, and not by its time limit, is seen
// at the system call itself.

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/transport/node.h"

namespace {

// What this thread's last ppoll returned: the number of descriptors with an event, 0 for a
// time-out.
thread_local int last_ppoll = -1;

int RecordingPpoll(pollfd* descriptors, nfds_t count, const timespec* timeout,
                   const sigset_t* mask) {
  timespec left = {};
  if (timeout != nullptr) left = *timeout;
  last_ppoll = static_cast<int>(syscall(SYS_ppoll, descriptors, count,
                                        timeout == nullptr ? nullptr : &left, mask, _NSIG / 8));
  return last_ppoll;
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

class ReactorWait : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    idle_ = Node::Open(GetParam().provider, 4096);
    ASSERT_NE(idle_, nullptr);
    last_ppoll = -1;
  }

  // An idle reactor that is about to sleep.
  void ArmIdle() {
    for (int i = 0; i < 100 && !idle_->reactor().Arm(); ++i) {
      idle_->reactor().Disarm();
      idle_->reactor().Poll();
    }
  }

  std::unique_ptr<Node> idle_;
};

TEST_P(ReactorWait, IdleReactorReallySleeps) {
  ArmIdle();
  idle_->reactor().Sleep(absl::Milliseconds(1));
  idle_->reactor().Disarm();
  EXPECT_EQ(last_ppoll, 0);
}

TEST_P(ReactorWait, TaskEndsASleepThatWasAboutToBegin) {
  ArmIdle();
  bool ran = false;
  std::thread([&] { idle_->reactor().Submit([&] { ran = true; }); }).join();
  idle_->reactor().Sleep(absl::InfiniteDuration());
  EXPECT_EQ(last_ppoll, 1);
  idle_->reactor().Disarm();
  idle_->reactor().Poll();
  EXPECT_TRUE(ran);
}

TEST_P(ReactorWait, TaskThatIsAlreadyThereKeepsTheReactorAwake) {
  idle_->reactor().Submit([] {});
  EXPECT_FALSE(idle_->reactor().Arm());
  idle_->reactor().Disarm();
  idle_->reactor().Wait(absl::InfiniteDuration());
  EXPECT_EQ(last_ppoll, -1) << "it slept";
}

TEST_P(ReactorWait, WakeIsUsedUpByTheSleepItEnded) {
  ArmIdle();
  idle_->reactor().Submit([] {});
  idle_->reactor().Sleep(absl::InfiniteDuration());
  idle_->reactor().Disarm();
  idle_->reactor().Poll();
  ArmIdle();
  idle_->reactor().Sleep(absl::Milliseconds(1));
  idle_->reactor().Disarm();
  EXPECT_EQ(last_ppoll, 0);
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
      idle_->reactor().Wait(absl::InfiniteDuration());
      idle_->reactor().Poll();
    }
    done = true;
  });
  const std::thread::id driver_id = driver.get_id();
  std::vector<std::thread> others;
  for (int thread = 0; thread < kThreads; ++thread) {
    others.emplace_back([&, thread] {
      for (int task = 0; task < kTasks; ++task) {
        idle_->reactor().Submit([&, thread, task] {
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
  idle_->reactor().Submit([&] { idle_->reactor().Submit([&] { second_ran_in = turn; }); });
  for (turn = 1; turn <= 3; ++turn) idle_->reactor().Poll();
  EXPECT_EQ(second_ran_in, 2);
}

TEST_P(ReactorWait, TicksGoOnWhileNothingHappens) {
  const uint64_t before = idle_->ticks;
  ASSERT_TRUE(PollUntil({idle_.get()}, [&] { return idle_->ticks >= before + 3; }));
  while (idle_->ticks < before + 6) idle_->reactor().Wait(absl::InfiniteDuration());
}

TEST_P(ReactorWait, IncomingWriteEndsTheSleep) {
  auto sender = Node::Open(GetParam().provider, 4096);
  const RemoteWindow window = sender->WindowTo(*idle_);
  ASSERT_TRUE(sender->Write(GetParam(), window, 0, 64, 1));
  ASSERT_TRUE(PollUntil({sender.get(), idle_.get()},
                        [&] { return idle_->tokens.size() == 1 && sender->outstanding() == 0; }));
  const bool has_descriptor = idle_->reactor().completion_queue().file_descriptor() >= 0;
  EXPECT_EQ(has_descriptor, idle_->reactor().profile().wait == WaitMethod::kFd);
  for (uint32_t token = 2; token <= 20; ++token) {
    ArmIdle();
    ASSERT_TRUE(sender->Write(GetParam(), window, 0, 64, token));
    // On its way, as far as the sender can drive it alone.
    for (int i = 0; i < 1000; ++i) sender->reactor().Poll();
    idle_->reactor().Sleep(absl::InfiniteDuration());
    idle_->reactor().Disarm();
    EXPECT_TRUE(!has_descriptor || last_ppoll >= 1) << "only the time limit ended the sleep";
    ASSERT_TRUE(
        PollUntil({sender.get(), idle_.get()}, [&] { return idle_->tokens.back() == token; }));
    ASSERT_TRUE(PollUntil({sender.get(), idle_.get()}, [&] { return sender->outstanding() == 0; }));
  }
}

INSTANTIATE_TEST_SUITE_P(Every, ReactorWait, testing::ValuesIn(AllWays()), NameOfWay);

}  // namespace
}  // namespace invoker::transport
