// The thread that drives a session where no other thread does, and when it does so.
//
// Threads that start calls and come back soon to wait for them drive best by themselves. So the
// helper first watches for a while whether they do. If nobody has driven meanwhile it leads: it
// drives at once, until another thread does.
//
// Everything but Join happens under the turn lock.

#ifndef INVOKER_SRC_INVOKE_SESSION_DRIVER_HELPER_THREAD_H_
#define INVOKER_SRC_INVOKE_SESSION_DRIVER_HELPER_THREAD_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "src/base/start_thread.h"
#include "src/invoke/session/call_waiter.h"
#include "src/invoke/session/driver/turn_lock.h"

namespace invoker {

class HelperThread {
 public:
  // How long the helper watches at first.
  static constexpr int64_t kFirstWatchNs = 50'000;
  // The same after others have driven again and again, or while requests wait to be posted.
  static constexpr int64_t kLastWatchNs = 200'000;
  // The same while others drive so often in a watch that they may need all of their processor. A
  // watch is at most twice as long as the one before.
  static constexpr int64_t kBusyWatchNs = 5'000'000;
  static constexpr uint64_t kBusyDrives = 8;
  // How long it watches for each other helper that watches meanwhile, if nobody needs it soon. A
  // thread that has calls under way on many sessions comes to each that much later, and helpers
  // that woke up all the time would keep it from its processor.
  static constexpr int64_t kWatchBesideNs = 1'000'000;

  // Another thread drives.
  void OthersDrive() {
    leads_ = false;
    ++drives_;
  }
  // Another thread has looked, and does not go on driving.
  void OthersLook() { ++looks_; }
  // A call has been started that its thread does not wait for at once.
  void CallStarted() { ++asynchronous_; }
  // The same with a callback, and the end of such a call.
  void CallbackStarted() {
    CallStarted();
    ++callbacks_;
  }
  void CallbackDue() { --callbacks_; }
  // No thread is going to wait for the call that has been started.
  void Lead() { leads_ = true; }

  // Starts the thread if it does not run. False if it has been stopped, or the system has no thread
  // left: then the next thread that waits drives, or the next call tries this again.
  bool EnsureStarted(std::function<void()> run) {
    if (stopped_) return false;
    return thread_.joinable() || transport::StartThread(&thread_, std::move(run)).ok();
  }
  // There is something to drive for, and nobody drives.
  void WakeToDrive() {
    if (!awake_ || (leads_ && watches_)) WakeToDeliver();
  }
  // A request waits for a driver to post it, and nobody drives: ends a watch that takes longer than
  // such a request is to wait.
  void WakeToSend() {
    if (watches_for_long_.load(std::memory_order_relaxed)) waiter_.Wake();
  }
  // Callbacks are due that the thread is to run.
  void WakeToDeliver() {
    awake_ = true;
    waiter_.Wake();
  }

  // The thread is to end.
  void Stop() { stopped_ = true; }
  // After Stop, without the lock: returns when the thread has ended.
  void Join() {
    waiter_.Wake();
    if (thread_.joinable()) thread_.join();
  }

  bool stopped() const { return stopped_; }
  // Whether the helper drives at once.
  bool leads() const { return leads_; }

  // For the thread itself, when it has nothing to do: watches for a while if `under_way` (calls
  // that no thread waits for), or if the program has started asynchronous calls lately; else sleeps
  // until it is woken. `unsent`: requests that nobody waits for have to leave. `gathers`: requests
  // wait for a driver to post them. True if nobody has driven while it watched: Watched is to
  // follow.
  bool Rest(TurnLock& lock, bool under_way, bool unsent, bool gathers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock) {
    const bool needed_soon = unsent || gathers || callbacks_ > 0;
    const uint64_t drives = drives_;
    const uint64_t looks = looks_;
    const bool started = std::exchange(asynchronous_seen_, asynchronous_) != asynchronous_;
    const bool watches = under_way || started;
    awake_ = watches;
    watches_ = true;
    if (watches) {
      const int watching = watching_.fetch_add(1, std::memory_order_relaxed) + 1;
      if (watching > 1 && !needed_soon) {
        WatchBesideOthers(lock, kWatchBesideNs * watching);
      } else {
        Watch(lock, unsent || gathers ? kLastWatchNs : kBusyWatchNs);
      }
      watching_.fetch_sub(1, std::memory_order_relaxed);
    } else {
      lock.Unlock();
      waiter_.Wait(absl::InfiniteDuration());
      lock.Lock();
    }
    watches_ = false;
    if (watches && drives_ == drives && looks_ == looks) return true;
    const bool busy = drives_ - drives >= kBusyDrives;
    watch_ns_ =
        watches ? std::min(2 * watch_ns_, busy ? kBusyWatchNs : kLastWatchNs) : kFirstWatchNs;
    return false;
  }
  // What the thread has found after Rest: whether another thread has the driver's role, and whether
  // the session needs a driver.
  void Watched(bool driven, bool needs_driver) {
    leads_ = !driven && needs_driver;
    watch_ns_ = driven ? kLastWatchNs : kFirstWatchNs;
  }

 private:
  // Without the lock until woken, or until nobody has it at the end of a watch. A thread that has
  // it drives, or has lost its processor to this thread, which must not wait for it then.
  void Watch(TurnLock& lock, int64_t longest_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    int64_t watch_ns = std::min(watch_ns_, longest_ns);
    watches_for_long_.store(watch_ns > kLastWatchNs, std::memory_order_relaxed);
    lock.Unlock();
    bool woken = false;
    while (!(woken = waiter_.Wait(absl::Nanoseconds(watch_ns)))) {
      watch_ns = std::min(2 * watch_ns, longest_ns);
      // First, for the thread that may have the lock: it may be about to queue a request.
      watches_for_long_.store(watch_ns > kLastWatchNs, std::memory_order_relaxed);
      if (lock.TryLock()) break;
    }
    if (woken) lock.Lock();
    watches_for_long_.store(false, std::memory_order_relaxed);
  }
  void WatchBesideOthers(TurnLock& lock, int64_t watch_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock) {
    watches_for_long_.store(true, std::memory_order_relaxed);
    lock.Unlock();
    waiter_.Wait(absl::Nanoseconds(watch_ns));
    lock.Lock();
    watches_for_long_.store(false, std::memory_order_relaxed);
  }

  static inline std::atomic<int> watching_{0};  // helpers of this library's clients

  std::thread thread_;
  CallWaiter waiter_;
  bool stopped_ = false;
  bool awake_ = false;                         // runs, or sleeps for a while only
  bool watches_ = false;                       // sleeps in Rest
  std::atomic<bool> watches_for_long_{false};  // for longer than requests are to wait
  bool leads_ = false;
  uint64_t callbacks_ = 0;     // calls under way that have one
  uint64_t drives_ = 0;        // times that other threads have driven
  uint64_t looks_ = 0;         // times that they have looked
  uint64_t asynchronous_ = 0;  // calls so far
  uint64_t asynchronous_seen_ = 0;
  int64_t watch_ns_ = kFirstWatchNs;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_DRIVER_HELPER_THREAD_H_
