#include "src/transport/reactor/sleep_flag.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "src/transport/base/shared_files.h"
#include "tests/transport/node.h"

namespace invoker::transport {
namespace {

std::string NewAddress() { return absl::StrCat("any://", NewSharedFileName()); }

int BytesIn(const SleepFlag& flag) {
  int bytes = -1;
  EXPECT_EQ(ioctl(flag.file_descriptor(), FIONREAD, &bytes), 0);
  return bytes;
}

bool HasFiles(const std::string& address) {
  const std::string path = SharedFilePath(address);
  const bool word = access(absl::StrCat(path, "-asleep").c_str(), F_OK) == 0;
  const bool wake = access(absl::StrCat(path, "-wake").c_str(), F_OK) == 0;
  EXPECT_EQ(word, wake);
  return word;
}

TEST(SleepFlag, LetsAPeerWakeOnceAndOnlyWhereItIsUp) {
  const std::string address = NewAddress();
  const std::unique_ptr<SleepFlag> flag = SleepFlag::Open(address);
  ASSERT_NE(flag, nullptr);
  const std::unique_ptr<PeerWaker> waker = PeerWaker::Open(address);
  ASSERT_NE(waker, nullptr);
  waker->WakeIfAsleep();
  EXPECT_EQ(BytesIn(*flag), 0);
  for (int i = 0; i < 3; ++i) {
    flag->Raise(/*now_ns=*/1000);
    EXPECT_FALSE(flag->AfterSleep(2000));
    waker->WakeIfAsleep();
    waker->WakeIfAsleep();
    EXPECT_EQ(BytesIn(*flag), 1);
    EXPECT_TRUE(flag->AfterSleep(3000));
    EXPECT_EQ(BytesIn(*flag), 0);
    EXPECT_FALSE(flag->AfterSleep(4000));
  }
}

TEST(SleepFlag, IsSettledBehindASleepThatEndsAWhileAfterItWentUp) {
  const std::unique_ptr<SleepFlag> flag = SleepFlag::Open(NewAddress());
  ASSERT_NE(flag, nullptr);
  EXPECT_FALSE(flag->AfterSleep(1'000'000'000));
  EXPECT_FALSE(flag->settled());
  flag->Raise(1000);
  flag->Raise(2000);  // goes on
  EXPECT_FALSE(flag->AfterSleep(999 + SleepFlag::kSettleNs));
  EXPECT_FALSE(flag->settled());
  EXPECT_FALSE(flag->AfterSleep(1000 + SleepFlag::kSettleNs));
  EXPECT_TRUE(flag->settled());
}

TEST(SleepFlag, AByteThatComesLateEndsOneSleep) {
  const std::string address = NewAddress();
  const std::unique_ptr<SleepFlag> flag = SleepFlag::Open(address);
  ASSERT_NE(flag, nullptr);
  const std::unique_ptr<PeerWaker> waker = PeerWaker::Open(address);
  ASSERT_NE(waker, nullptr);
  // The word was down, and the sleep had ended, before the byte came.
  const int fifo = open(absl::StrCat(SharedFilePath(address), "-wake").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fifo, 0);
  for (const bool raised : {false, true}) {
    if (raised) flag->Raise(1000);
    ASSERT_EQ(write(fifo, "", 1), 1);
    EXPECT_FALSE(flag->AfterSleep(2000));
    EXPECT_EQ(BytesIn(*flag), 0);
  }
  close(fifo);
}

TEST(SleepFlag, CountsThePeersThatLookAtIt) {
  const std::string address = NewAddress();
  const std::unique_ptr<SleepFlag> flag = SleepFlag::Open(address);
  ASSERT_NE(flag, nullptr);
  EXPECT_EQ(flag->wakers(), 0u);
  std::unique_ptr<PeerWaker> one = PeerWaker::Open(address);
  const std::unique_ptr<PeerWaker> two = PeerWaker::Open(address);
  EXPECT_EQ(flag->wakers(), 2u);
  one.reset();
  EXPECT_EQ(flag->wakers(), 1u);
}

TEST(SleepFlag, IsWhereOurFilesAreAndGoesWithItsOwner) {
  for (const char* other : {"", "fi_shm://12:0:3", "192.0.2.1", "any://invoker.1.2.3.a/../b"}) {
    EXPECT_EQ(SleepFlag::Open(other), nullptr) << other;
    EXPECT_EQ(PeerWaker::Open(other), nullptr) << other;
  }
  const std::string address = NewAddress();
  EXPECT_EQ(PeerWaker::Open(address), nullptr);
  std::unique_ptr<SleepFlag> flag = SleepFlag::Open(address);
  ASSERT_NE(flag, nullptr);
  EXPECT_TRUE(HasFiles(address));
  EXPECT_EQ(SleepFlag::Open(address), nullptr) << "the place was taken";
  EXPECT_TRUE(HasFiles(address));
  flag = SleepFlag::Open(NewAddress());
  EXPECT_FALSE(HasFiles(address));
}

TEST(SleepFlag, APeerMayWakeAnOwnerThatHasGone) {
  const std::string address = NewAddress();
  std::unique_ptr<SleepFlag> flag = SleepFlag::Open(address);
  ASSERT_NE(flag, nullptr);
  const std::unique_ptr<PeerWaker> waker = PeerWaker::Open(address);
  ASSERT_NE(waker, nullptr);
  flag->Raise(1);
  flag.reset();
  // No SIGPIPE ends this process.
  waker->WakeIfAsleep();
}

TEST(SleepFlag, AKilledOwnersFilesAreRemoved) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string address = NewAddress();
    const std::unique_ptr<SleepFlag> flag = SleepFlag::Open(address);
    [[maybe_unused]] const ssize_t written = write(ready[1], address.data(), address.size());
    while (true) pause();
  }
  char address[256] = {};
  ASSERT_GT(read(ready[0], address, sizeof(address) - 1), 0);
  EXPECT_TRUE(HasFiles(address));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  RemoveFilesOfTheDead(geteuid());
  EXPECT_FALSE(HasFiles(address));
  close(ready[0]);
  close(ready[1]);
}

TEST(SleepFlag, WhatIsNoFlagIsNotUsed) {
  const std::string address = NewAddress();
  const std::string path = SharedFilePath(address);
  for (const char* end : {"-asleep", "-wake"}) {
    const int fd = open(absl::StrCat(path, end).c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(ftruncate(fd, 4096), 0);
    close(fd);
  }
  EXPECT_EQ(PeerWaker::Open(address), nullptr) << "the FIFO is a plain file";
  unlink(absl::StrCat(path, "-wake").c_str());
  ASSERT_EQ(mkfifo(absl::StrCat(path, "-wake").c_str(), 0600), 0);
  EXPECT_NE(PeerWaker::Open(address), nullptr);
  ASSERT_EQ(truncate(absl::StrCat(path, "-asleep").c_str(), 1), 0);
  EXPECT_EQ(PeerWaker::Open(address), nullptr) << "the word is too short";
  for (const char* end : {"-asleep", "-wake"}) unlink(absl::StrCat(path, end).c_str());
}

// A driver that would sleep for longer than the test lasts, and what a peer sends it.
class SleepingDriver : public testing::Test {
 protected:
  static constexpr Way kWay = {"Shm", "shm", Notification::kWriteImm, SendOrder::kPipelined};

  void SetUp() override {
    ReactorOptions options;
    options.longest_sleep = absl::Minutes(10);
    options.shows_sleep = true;
    sleeper_ = Node::Open(kWay.provider, 64, options);
    peer_ = Node::Open(kWay.provider, 64);
    ASSERT_TRUE(sleeper_ != nullptr && peer_ != nullptr);
    ASSERT_TRUE(sleeper_->reactor().peers().Insert(peer_->reactor().address()).ok());
    // The fabric refuses a peer's first post until the driver has polled, and it is tried again.
    window_ = peer_->WindowTo(*sleeper_);
    ASSERT_TRUE(peer_->Write(kWay, window_, 0, 8, /*token=*/0));
    ASSERT_TRUE(PollUntil({sleeper_.get(), peer_.get()}, [&] {
      return sleeper_->tokens.size() == 1 && peer_->outstanding() == 0;
    }));
    sleeper_->tokens.clear();
  }

  ~SleepingDriver() override {
    stop_.store(true);
    if (sleeper_ != nullptr) sleeper_->reactor().Submit([] {});
    if (driver_.joinable()) driver_.join();
  }

  void Drive() {
    driver_ = std::thread([this] {
      while (!stop_.load()) {
        if (sleeper_->reactor().Poll() == 0) sleeper_->reactor().Wait(absl::Minutes(10));
        heard_.store(sleeper_->tokens.size());
      }
    });
  }
  void SendAndAwait(uint32_t token, PeerWaker* waker) {
    ASSERT_TRUE(peer_->Write(kWay, window_, 0, 8, token));
    if (waker != nullptr) waker->WakeIfAsleep();
    ASSERT_TRUE(PollUntil({peer_.get()}, [&] { return heard_.load() >= token; })) << token;
  }

  std::unique_ptr<Node> sleeper_;
  std::unique_ptr<Node> peer_;
  RemoteWindow window_;
  std::atomic<size_t> heard_{0};
  std::atomic<bool> stop_{false};
  std::thread driver_;
};

TEST_F(SleepingDriver, IsWokenByAPeerThatLooksAtTheFlag) {
  const std::unique_ptr<PeerWaker> waker = PeerWaker::Open(sleeper_->reactor().address());
  ASSERT_NE(waker, nullptr);
  Drive();
  for (uint32_t token = 1; token <= 20; ++token) {
    // Into its short sleeps, the moment in which the flag goes up, and its long sleep.
    std::this_thread::sleep_for(std::chrono::microseconds(250) * token);
    ASSERT_NO_FATAL_FAILURE(SendAndAwait(token, waker.get()));
  }
}

TEST_F(SleepingDriver, LooksByItselfForAPeerThatDoesNot) {
  Drive();
  for (uint32_t token = 1; token <= 3; ++token) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_NO_FATAL_FAILURE(SendAndAwait(token, nullptr));
  }
}

}  // namespace
}  // namespace invoker::transport
