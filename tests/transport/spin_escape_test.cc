#include "src/transport/spin_escape/spin_escape.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace invoker::transport {
namespace {

constexpr absl::Duration kShort = absl::Milliseconds(20);
// Longer than any test.
constexpr absl::Duration kLong = absl::Hours(1);

// A lock that processes share.
class SharedLock {
 public:
  SharedLock()
      : lock_(static_cast<pthread_spinlock_t*>(mmap(nullptr, sizeof(*lock_), PROT_READ | PROT_WRITE,
                                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    pthread_spin_init(lock_, PTHREAD_PROCESS_SHARED);
  }
  ~SharedLock() { munmap(const_cast<void*>(static_cast<volatile void*>(lock_)), sizeof(*lock_)); }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

  // The compiler knows that function, and that it does not throw.
  int Lock() {
    int (*volatile const lock)(pthread_spinlock_t*) = pthread_spin_lock;
    return lock(lock_);
  }
  void Unlock() { pthread_spin_unlock(lock_); }

  // By a process that takes it and is killed.
  void LoseToTheDead() {
    const pid_t child = fork();
    if (child == 0) {
      Lock();
      raise(SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }

 private:
  pthread_spinlock_t* lock_;
};

// Fails the test if kLeft and only that has been told.
template <typename Call>
ssize_t RunIn(const SpinEscape& escape, const Call& call) {
  int left = 0;
  const ssize_t result = escape.Run(call, [&] { ++left; });
  EXPECT_EQ(left, result == SpinEscape::kLeft ? 1 : 0);
  return result;
}

class SpinEscapeTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!SpinEscape::Supported()) GTEST_SKIP() << "not here";
  }
};

TEST_F(SpinEscapeTest, ReturnsWhatTheCallReturns) {
  SpinEscape escape(kShort);
  EXPECT_EQ(RunIn(escape, [] { return ssize_t{-11}; }), -11);
  EXPECT_EQ(RunIn(escape, [] { return ssize_t{3}; }), 3);
}

TEST_F(SpinEscapeTest, LeavesACallThatSpinsForALockOfTheDeadAsOftenAsItDoes) {
  SharedLock lock;
  lock.LoseToTheDead();
  SpinEscape escape(kShort);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(RunIn(escape, [&] { return lock.Lock(); }), SpinEscape::kLeft);
    EXPECT_EQ(RunIn(escape, [] { return 0; }), 0);
  }
}

TEST_F(SpinEscapeTest, WaitsForALockThatIsGivenUpInTime) {
  SharedLock lock;
  lock.Lock();
  std::atomic<bool> spins{false};
  SpinEscape escape(kLong);
  ssize_t result = -1;
  std::thread waiter([&] {
    result = RunIn(escape, [&] {
      spins = true;
      return lock.Lock();
    });
  });
  while (!spins) std::this_thread::yield();
  lock.Unlock();
  waiter.join();
  EXPECT_EQ(result, 0);
}

// Ten times the limit, of the processor's time, so that it is looked at meanwhile.
TEST_F(SpinEscapeTest, LeavesNoCallThatIsBusyWithSomethingElse) {
  SpinEscape escape(kShort);
  const auto cpu_ns = [] {
    timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
  };
  const int64_t until_ns = cpu_ns() + 10 * absl::ToInt64Nanoseconds(kShort);
  EXPECT_EQ(RunIn(escape,
                  [&] {
                    while (cpu_ns() < until_ns) {
                    }
                    return 7;
                  }),
            7);
}

TEST_F(SpinEscapeTest, LeavesTheCallThatSpinsAndNoOther) {
  SharedLock lost;
  lost.LoseToTheDead();
  SharedLock held;
  held.Lock();
  SpinEscape patient(kLong);
  std::atomic<bool> spins{false};
  ssize_t of_patient = -1;
  std::thread waiter([&] {
    of_patient = RunIn(patient, [&] {
      spins = true;
      return held.Lock();
    });
  });
  while (!spins) std::this_thread::yield();
  std::vector<ssize_t> results(4);
  std::vector<std::thread> threads;
  for (ssize_t& result : results) {
    threads.emplace_back([&] {
      SpinEscape escape(kShort);
      result = RunIn(escape, [&] { return lost.Lock(); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  held.Unlock();
  waiter.join();
  EXPECT_EQ(of_patient, 0);
  for (const ssize_t result : results) EXPECT_EQ(result, SpinEscape::kLeft);
}

TEST_F(SpinEscapeTest, AForkHasAWatchOfItsOwn) {
  SharedLock lock;
  lock.LoseToTheDead();
  SpinEscape before(kShort);
  EXPECT_EQ(RunIn(before, [] { return 0; }), 0);
  const pid_t child = fork();
  if (child == 0) {
    SpinEscape escape(kShort);
    _exit(RunIn(escape, [&] { return lock.Lock(); }) == SpinEscape::kLeft ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(RunIn(before, [&] { return lock.Lock(); }), SpinEscape::kLeft);
}

// Its own process: the signal is chosen once.
TEST(SpinEscapeDeathTest, LeavesTheProgramsSignalsAlone) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        signal(SIGRTMAX, SIG_IGN);
        signal(SIGRTMAX - 1, [](int) {});
        const auto programs = signal(SIGRTMAX - 1, SIG_IGN);
        signal(SIGRTMAX - 1, programs);
        if (!SpinEscape::Supported()) _exit(0);
        SharedLock lock;
        lock.LoseToTheDead();
        SpinEscape escape(kShort);
        const bool left = RunIn(escape, [&] { return lock.Lock(); }) == SpinEscape::kLeft;
        const bool kept =
            signal(SIGRTMAX, SIG_DFL) == SIG_IGN && signal(SIGRTMAX - 1, SIG_DFL) == programs;
        _exit(left && kept ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace invoker::transport
