#include "src/transport/peer_leftover.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace invoker::transport {
namespace {

// No endpoint's: those are counted from 0.
constexpr uint32_t kCount = 4'000'000'000;

class PeerLeftoverTest : public testing::Test {
 protected:
  ~PeerLeftoverTest() override {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    unlink(path_.c_str());
  }

  void Name(pid_t pid) {
    pid_ = pid;
    path_ = absl::StrCat("/dev/shm/", pid, ":", getuid(), ":", kCount);
  }
  // Makes the file that `pid` would have left.
  void Leave(pid_t pid) {
    Name(pid);
    const int fd = open(path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0) << path_;
    EXPECT_EQ(ftruncate(fd, kBytes), 0);
    close(fd);
  }
  bool Exists() const { return access(path_.c_str(), F_OK) == 0; }

  // A child that waits for its end.
  void StartChild() {
    child_ = fork();
    if (child_ == 0) {
      while (true) pause();
    }
    ASSERT_GT(child_, 0);
  }
  // And is not waited for: a zombie.
  void KillChild() {
    kill(child_, SIGKILL);
    siginfo_t info;
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOWAIT), 0);
  }

  static constexpr size_t kBytes = 4096;
  pid_t child_ = 0;
  pid_t pid_ = 0;  // whose file it is
  std::string path_;
};

TEST_F(PeerLeftoverTest, OnlyANameOfThreeNumbersSaysWhoseItIs) {
  EXPECT_EQ(ProcessOf("fi_shm://12:0:3"), 12);
  EXPECT_EQ(ProcessOf(std::string("fi_shm://12:0:3\0\0more", 21)), 12);
  for (const char* other :
       {"", "12:0:3", "fi_shm://", "fi_shm://12", "fi_shm://12:0", "fi_shm://12:0:3:4",
        "fi_shm://12:0:", "fi_shm://a:0:3", "fi_shm://../12:0:3", "fi_shm://12:0:3/..",
        "fi_shm://-12:0:3", "fi_shm://+12:0:3", "fi_shm:// 12:0:3", "fi_shm://012:0:3",
        "fi_shm://12:0:99999999999", "fi_shm://4000000000:0:3", "fi_ns://12:0:name"}) {
    EXPECT_EQ(ProcessOf(other), 0) << other;
  }
}

TEST_F(PeerLeftoverTest, WhatAKilledProcessHasLeftGoesBeforeAnybodyHasWaitedForIt) {
  ASSERT_NO_FATAL_FAILURE(StartChild());
  ASSERT_NO_FATAL_FAILURE(Leave(child_));
  ASSERT_NO_FATAL_FAILURE(KillChild());
  RemoveLeftovers(pid_);
  EXPECT_FALSE(Exists());
}

TEST_F(PeerLeftoverTest, WhatAProcessHasLeftThatIsNoMoreGoes) {
  ASSERT_NO_FATAL_FAILURE(StartChild());
  ASSERT_NO_FATAL_FAILURE(Leave(child_));
  ASSERT_NO_FATAL_FAILURE(KillChild());
  EXPECT_EQ(waitpid(child_, nullptr, 0), child_);
  child_ = 0;
  RemoveLeftovers(pid_);
  EXPECT_FALSE(Exists());
}

TEST_F(PeerLeftoverTest, WhatAKilledProcessHasLeftGoesWhileItIsWaitedFor) {
  for (int i = 0; i < 400; ++i) {
    ASSERT_NO_FATAL_FAILURE(StartChild());
    ASSERT_NO_FATAL_FAILURE(Leave(child_));
    ASSERT_NO_FATAL_FAILURE(KillChild());
    std::thread waits([this] { waitpid(child_, nullptr, 0); });
    RemoveLeftovers(pid_);
    waits.join();
    child_ = 0;
    ASSERT_FALSE(Exists()) << "round " << i;
  }
}

TEST_F(PeerLeftoverTest, WhatAnEarlierProcessOfThatNumberHasLeftGoes) {
  ASSERT_NO_FATAL_FAILURE(StartChild());
  ASSERT_NO_FATAL_FAILURE(Leave(child_));
  RemoveLeftovers(pid_);
  EXPECT_FALSE(Exists());
}

TEST_F(PeerLeftoverTest, WhatItsProcessHasMappedStays) {
  ASSERT_NO_FATAL_FAILURE(Leave(getpid()));
  const int fd = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  void* const mapped = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  ASSERT_NE(mapped, MAP_FAILED);
  RemoveLeftovers(pid_);
  EXPECT_TRUE(Exists());
  munmap(mapped, kBytes);
  RemoveLeftovers(pid_);
  EXPECT_FALSE(Exists());
}

TEST_F(PeerLeftoverTest, WhatAnotherHasLeftStays) {
  ASSERT_NO_FATAL_FAILURE(Leave(getpid()));
  ASSERT_NO_FATAL_FAILURE(StartChild());
  RemoveLeftovers(child_);
  RemoveLeftovers(0);
  RemoveLeftovers(-1);
  EXPECT_TRUE(Exists());
}

TEST_F(PeerLeftoverTest, WhatIsNoFileStays) {
  Name(getpid());
  ASSERT_EQ(symlink("/dev/null", path_.c_str()), 0);
  RemoveLeftovers(pid_);
  char target[16];
  EXPECT_GT(readlink(path_.c_str(), target, sizeof(target)), 0);
}

}  // namespace
}  // namespace invoker::transport
