#include "src/transport/base/shared_files.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/transport/local_fabric.h"

namespace invoker::transport {
namespace {

constexpr absl::string_view kPlace = "/dev/shm/";
constexpr uid_t kAnother = 64'999;  // nobody else's

// Files of the dead may be gone at any time: other tests' processes remove them, too.
class SharedFilesTest : public testing::Test {
 protected:
  ~SharedFilesTest() override {
    End(&child_);
    for (const std::string& name : left_) unlink(PathOf(name).c_str());
  }

  static std::string PathOf(const std::string& name) { return absl::StrCat(kPlace, name); }
  static bool Exists(const std::string& name) { return access(PathOf(name).c_str(), F_OK) == 0; }
  // Makes the file.
  const std::string& Leave(const std::string& name) {
    const int fd = open(PathOf(name).c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    EXPECT_GE(fd, 0) << name;
    close(fd);
    return *left_.insert(name).first;
  }

  // A child that does that and then waits for its end.
  void StartChild(const std::function<void()>& first = [] {}) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    child_ = fork();
    if (child_ == 0) {
      first();
      static_cast<void>(!write(ready[1], "", 1));
      while (true) pause();
    }
    ASSERT_GT(child_, 0);
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }
  // And is not waited for: a zombie.
  void KillChild() {
    kill(child_, SIGKILL);
    siginfo_t info;
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOWAIT), 0);
  }
  static void End(pid_t* child) {
    if (*child <= 0) return;
    kill(*child, SIGKILL);
    waitpid(*child, nullptr, 0);
    *child = 0;
  }
  // Its process is no more.
  std::string LeaveOfTheDead() {
    StartChild();
    const std::string name = Leave(SharedFilePrefix(child_) + "left");
    End(&child_);
    return name;
  }
  // `name` with another number at a place: 1 the namespace, 3 the start.
  static std::string With(const std::string& name, size_t place, int more) {
    std::vector<std::string> parts = absl::StrSplit(name, '.');
    uint64_t number = 0;
    EXPECT_TRUE(absl::SimpleAtoi(parts[place], &number));
    parts[place] = absl::StrCat(number + static_cast<uint64_t>(more));
    return absl::StrJoin(parts, ".");
  }

  pid_t child_ = 0;
  std::set<std::string> left_;
};

TEST_F(SharedFilesTest, ANameSaysWhoseItIs) {
  EXPECT_TRUE(NamesSharedFile("fi_shm://invoker.1.2.3.a-4F"));
  EXPECT_TRUE(NamesSharedFile(std::string("fi_shm://invoker.1.2.3.4\0\0more", 30)));
  for (const char* other :
       {"", "invoker.1.2.3.4", "fi_shm://", "fi_shm://invoker.1.2.3", "fi_shm://invoker.1.2.3.",
        "fi_shm://invoker.1.2.3.4.5", "fi_shm://other.1.2.3.4", "fi_shm://invoker.0.2.3.4",
        "fi_shm://invoker.1.02.3.4", "fi_shm://invoker.1.-2.3.4", "fi_shm://invoker.1.+2.3.4",
        "fi_shm://invoker.1. 2.3.4", "fi_shm://invoker.1.4000000000.3.4",
        "fi_shm://invoker.1.2.3.4/..", "fi_shm://../invoker.1.2.3.4", "fi_shm://invoker.1.2.x.4",
        "fi_shm://invoker.1.2.3.4 ", "fi_shm://invoker.99999999999999999999.2.3.4",
        "fi_shm://12:0:3"}) {
    EXPECT_FALSE(NamesSharedFile(other)) << other;
  }
}

TEST_F(SharedFilesTest, NamesAreNewAndBeginAlike) {
  const std::string first = NewSharedFileName();
  const std::string prefix = SharedFilePrefix(getpid());
  EXPECT_TRUE(absl::StartsWith(first, prefix)) << first;
  EXPECT_NE(first, NewSharedFileName());
  EXPECT_EQ(NewSharedFileName("end-1"), prefix + "end-1");
  EXPECT_TRUE(NamesSharedFile("fi_shm://" + first));
}

TEST_F(SharedFilesTest, WhatTheDeadHaveLeftGoesAndWhatTheLivingHaveStays) {
  const std::string dead = LeaveOfTheDead();
  ASSERT_NO_FATAL_FAILURE(StartChild());
  const std::string living = Leave(SharedFilePrefix(child_) + "living");
  RemoveFilesOfTheDead(geteuid());
  EXPECT_FALSE(Exists(dead));
  EXPECT_TRUE(Exists(living));
}

TEST_F(SharedFilesTest, AProcessRemovesItsOwnFilesAndNoOthers) {
  ASSERT_NO_FATAL_FAILURE(StartChild());
  const std::string others = Leave(SharedFilePrefix(child_) + "others");
  const std::string own = Leave(NewSharedFileName());
  RemoveOwnFiles();
  EXPECT_FALSE(Exists(own));
  EXPECT_TRUE(Exists(others));
}

TEST_F(SharedFilesTest, WhatAKilledProcessHasLeftGoesBeforeAnybodyHasWaitedForIt) {
  ASSERT_NO_FATAL_FAILURE(StartChild());
  const std::string name = Leave(SharedFilePrefix(child_) + "left");
  ASSERT_NO_FATAL_FAILURE(KillChild());
  RemoveFilesOfTheDead(geteuid());
  EXPECT_FALSE(Exists(name));
}

TEST_F(SharedFilesTest, WhatAKilledProcessHasLeftGoesWhileItIsWaitedFor) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_NO_FATAL_FAILURE(StartChild());
    const std::string name = Leave(SharedFilePrefix(child_) + "left");
    ASSERT_NO_FATAL_FAILURE(KillChild());
    std::thread waits([this] { waitpid(child_, nullptr, 0); });
    RemoveFilesOfTheDead(geteuid());
    waits.join();
    child_ = 0;
    ASSERT_FALSE(Exists(name)) << "round " << i;
  }
}

TEST_F(SharedFilesTest, AProcessWhoseMainThreadHasEndedLives) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  child_ = fork();
  if (child_ == 0) {
    pthread_t thread;
    const auto run = [](void* fd) -> void* {
      const std::string main = absl::StrCat("/proc/", getpid(), "/task/", getpid(), "/maps");
      char byte = 1;
      // Until the main thread has given up its memory.
      while (byte != 0) {
        const int maps = open(main.c_str(), O_RDONLY);
        if (maps < 0 || read(maps, &byte, 1) <= 0) byte = 0;
        close(maps);
        sched_yield();
      }
      static_cast<void>(!write(*static_cast<int*>(fd), "", 1));
      while (true) pause();
    };
    pthread_create(&thread, nullptr, run, &ready[1]);
    // This thread alone.
    syscall(SYS_exit, 0);
  }
  char byte;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
  const std::string name = Leave(SharedFilePrefix(child_) + "living");
  RemoveFilesOfTheDead(geteuid());
  EXPECT_TRUE(Exists(name));
}

TEST_F(SharedFilesTest, WhatAnEarlierProcessOfThatNumberHasLeftGoes) {
  ASSERT_NO_FATAL_FAILURE(StartChild());
  const std::string living = Leave(SharedFilePrefix(child_) + "same");
  const std::string earlier = Leave(With(living, 3, -1));
  RemoveFilesOfTheDead(geteuid());
  EXPECT_TRUE(Exists(living));
  EXPECT_FALSE(Exists(earlier));
}

TEST_F(SharedFilesTest, WhatDoesNotSayWhoMadeItStays) {
  const std::string dead = LeaveOfTheDead();
  const std::string other = Leave(absl::StrCat("not.", dead));
  const std::string more = Leave(absl::StrCat(dead, ".more"));
  const std::string link = With(dead, 3, -1);
  left_.insert(link);
  ASSERT_EQ(symlink("/dev/null", PathOf(link).c_str()), 0);
  RemoveFilesOfTheDead(geteuid());
  EXPECT_FALSE(Exists(dead));
  for (const std::string& name : {other, more, link}) EXPECT_TRUE(Exists(name)) << name;
}

TEST_F(SharedFilesTest, WhatAnotherUserHasLeftIsForThatOne) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_NO_FATAL_FAILURE(StartChild());
  const std::string name = Leave(SharedFilePrefix(child_) + "left");
  ASSERT_EQ(chown(PathOf(name).c_str(), kAnother, kAnother), 0);
  End(&child_);
  RemoveFilesOfTheDead(geteuid());
  EXPECT_TRUE(Exists(name));
  RemoveFilesOfTheDead(kAnother);
  EXPECT_FALSE(Exists(name));
}

TEST_F(SharedFilesTest, WhatAnotherNamespaceHasMadeStays) {
  const std::string dead = LeaveOfTheDead();
  const std::string elsewhere = Leave(With(dead, 1, 1));
  RemoveFilesOfTheDead(geteuid());
  EXPECT_FALSE(Exists(dead));
  EXPECT_TRUE(Exists(elsewhere));
}

// Runs that in a PID namespace of its own, with or without a /proc of its own. Its exit status.
int InANamespace(bool own_proc, const std::function<bool()>& body) {
  const pid_t outer = fork();
  if (outer == 0) {
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) _exit(2);
    const pid_t inner = fork();
    if (inner == 0) {
      // Private, so that nobody else sees the new one. "/" need not be a mount point.
      if (own_proc && (mount("none", "/proc", nullptr, MS_PRIVATE, nullptr) != 0 ||
                       mount("proc", "/proc", "proc", 0, nullptr) != 0)) {
        _exit(2);
      }
      _exit(body() ? 0 : 1);
    }
    int status = -1;
    waitpid(inner, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
  }
  int status = -1;
  waitpid(outer, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

TEST_F(SharedFilesTest, AProcessInAnotherNamespaceRemovesItsOwnOnly) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a PID namespace";
  ASSERT_NO_FATAL_FAILURE(StartChild());
  const std::string living = Leave(SharedFilePrefix(child_) + "living");
  const int status = InANamespace(/*own_proc=*/true, [] {
    // This process is the first of its namespace, and the second one ends.
    const std::string own = NewSharedFileName();
    pid_t other = fork();
    if (other == 0) {
      while (true) pause();
    }
    const std::string gone = SharedFilePrefix(other) + "gone";
    End(&other);
    for (const std::string& name : {own, gone}) {
      close(open(PathOf(name).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    }
    RemoveFilesOfTheDead(geteuid());
    const bool right = !own.empty() && Exists(own) && !Exists(gone);
    unlink(PathOf(own).c_str());
    return right;
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Exists(living));
}

TEST_F(SharedFilesTest, WithoutItsOwnProcAProcessRemovesAndNamesNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a PID namespace";
  ASSERT_NO_FATAL_FAILURE(StartChild());
  const std::string living = Leave(SharedFilePrefix(child_) + "living");
  const int status = InANamespace(/*own_proc=*/false, [] {
    RemoveFilesOfTheDead(geteuid());
    return NewSharedFileName().empty();
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Exists(living));
}

TEST_F(SharedFilesTest, AnEndpointIsNamedAndItsProcessCleansUp) {
  const std::string dead = LeaveOfTheDead();
  // In a process of its own: the first name of a process does it.
  ASSERT_NO_FATAL_FAILURE(StartChild([] {
    if (LocalFabric::Open("shm") == nullptr) _exit(1);
  }));
  EXPECT_FALSE(Exists(dead));
  const std::unique_ptr<LocalFabric> local = LocalFabric::Open("shm");
  ASSERT_NE(local, nullptr);
  const std::string address(local->endpoint->address().c_str());
  const std::string start = absl::StrCat("fi_shm://", SharedFilePrefix(getpid()));
  ASSERT_TRUE(absl::StartsWith(address, start)) << address;
  const std::string name = address.substr(address.find("invoker"));
  EXPECT_TRUE(Exists(name));
  RemoveFileOf("fi_shm://" + name + "x");
  RemoveFileOf(absl::StrCat("fi_shm://", With(name, 2, 1)));
  EXPECT_TRUE(Exists(name));
  RemoveFileOf(local->endpoint->address());
  EXPECT_FALSE(Exists(name));
}

}  // namespace
}  // namespace invoker::transport
