// CallDriver: who polls the reactor, who sleeps, and who delivers what has come.

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "src/invoke/call_driver.h"
#include "src/invoke/client.h"

namespace invoker {
namespace {

constexpr int64_t kForever = INT64_MAX;

// The clock is read once in so many idle turns.
constexpr uint32_t kTurnsPerClock = 64;

// How long the helper watches whether somebody else drives: at first, and after others have again
// and again.
constexpr int64_t kFirstWatchNs = 50'000;
constexpr int64_t kLastWatchNs = 200'000;

}  // namespace

thread_local bool CallDriver::t_delivers_ = false;

// Returns when the call has ended (with no call: when there may be room), at the deadline, or
// early: the caller checks and comes again.
void CallDriver::DriveOrWait(Call* call, int64_t deadline_ns) {
  if (!driven_) {
    helper_leads_ = false;
    visits_.store(visits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    DriveWhile(call, deadline_ns);
    LeaveLocked();
    RunFinishedLocked();
    return;
  }
  CallWaiter waiter;
  if (call != nullptr) {
    call->waiter = &waiter;
  } else {
    session_->AddRoomWaiter(&waiter);
  }
  waiters_.push_back(&waiter);
  lock_.Unlock();
  const int64_t now_ns = transport::MonotonicNs();
  const int64_t limit_ns = std::clamp<int64_t>(deadline_ns - now_ns, 0, kLongestSleepNs);
  waiter.Wait(absl::Nanoseconds(limit_ns));
  lock_.Lock();
  waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &waiter));
  if (call != nullptr) {
    call->waiter = nullptr;
  } else {
    session_->RemoveRoomWaiter(&waiter);
  }
  // The driver may have left the role to this thread just as its call ended.
  if (!driven_ && (call == nullptr || call->ended())) LeaveLocked();
}

// Takes the driver's role until the call has ended (with no call: until a call or a cell comes or
// goes, or there is nothing to drive for), the deadline has passed, or callbacks are due.
void CallDriver::DriveWhile(const Call* call, int64_t deadline_ns) {
  driven_ = true;
  const uint64_t changes = session_->changes();
  int64_t idle_since_ns = 0;  // 0: not known to be idle
  uint32_t turns = 0;
  // What was left to the next driver to post.
  session_->Flush();
  while (call != nullptr ? !call->ended() : session_->changes() == changes && NeedsDriverLocked()) {
    started_since_turn_ = 0;
    const int events = reactor_->Poll();
    session_->Flush();
    if (!session_->finished().empty()) break;
    if (lock_.Contended()) lock_.Yield();
    if (call == nullptr && !waiters_.empty()) break;
    if (events > 0) idle_since_ns = 0;
    if (++turns % kTurnsPerClock != 0) continue;
    const int64_t now_ns = transport::MonotonicNs();
    if (now_ns >= deadline_ns) break;
    if (idle_since_ns == 0) idle_since_ns = now_ns;
    if (now_ns - idle_since_ns >= hot_ns_) SleepLocked(deadline_ns);
  }
  // What was left to this driver to post.
  session_->Flush();
  driven_ = false;
}

bool CallDriver::NeedsDriverLocked() const {
  return session_->outstanding() > 0 || session_->sending();
}

void CallDriver::SleepLocked(int64_t deadline_ns) {
  const bool armed = reactor_->Arm();
  if (armed) {
    const int64_t left_ns = deadline_ns - transport::MonotonicNs();
    asleep_ = true;
    lock_.Unlock();
    reactor_->Sleep(absl::Nanoseconds(std::clamp<int64_t>(left_ns, 0, kLongestSleepNs)));
    lock_.Lock();
    asleep_ = false;
  }
  reactor_->Disarm();
}

// Nobody drives: wakes a successor, if there is anything to drive for.
void CallDriver::LeaveLocked() {
  if (!waiters_.empty()) {
    waiters_.front()->Wake();
  } else if (NeedsDriverLocked() && !helper_stop_) {
    if (!helper_.joinable()) helper_ = std::thread([this] { HelperMain(); });
    if (!helper_awake_ || (helper_leads_ && helper_watches_)) {
      helper_awake_ = true;
      helper_waiter_.Wake();
    }
  }
}

// Runs the callbacks of calls that have ended, without the lock, so that they may make calls
// themselves. Not for a driver.
void CallDriver::RunFinishedLocked() {
  while (!session_->finished().empty()) DeliverSomeLocked();
}

void CallDriver::DeliverSomeLocked() {
  constexpr size_t kMost = 16;
  absl::InlinedVector<std::pair<CallDone, absl::StatusOr<Response>>, kMost> results;
  std::vector<Call*>& finished = session_->finished();
  const size_t count = std::min(finished.size(), kMost);
  for (size_t i = 0; i < count; ++i) {
    CallDone on_done = std::move(finished[i]->on_done);
    results.emplace_back(std::move(on_done), Collect(finished[i]));
  }
  finished.erase(finished.begin(), finished.begin() + static_cast<std::ptrdiff_t>(count));
  ++delivering_;
  lock_.Unlock();
  const bool delivered_before = std::exchange(t_delivers_, true);
  for (auto& [on_done, result] : results) on_done(std::move(result));
  results.clear();
  t_delivers_ = delivered_before;
  lock_.Lock();
  --delivering_;
}

// Drives only where nobody else does. Threads that start calls and come back soon to wait for them
// drive best by themselves, so it first watches for a while whether they do; once they have not, it
// drives at once until one does.
void CallDriver::HelperMain() {
  uint64_t visits_seen = visits_.load(std::memory_order_relaxed);
  int64_t watch_ns = kFirstWatchNs;
  while (true) {
    lock_.Lock();
    helper_watches_ = false;
    while (helper_leads_ && !helper_stop_ && !driven_ && waiters_.empty() && NeedsDriverLocked()) {
      DriveWhile(nullptr, kForever);
      RunFinishedLocked();
    }
    if (helper_stop_) break;
    if (!driven_ && !waiters_.empty()) LeaveLocked();
    const bool needed = NeedsDriverLocked();
    helper_awake_ = needed;
    helper_watches_ = true;
    lock_.Unlock();
    if (!needed) {
      helper_waiter_.Wait(absl::InfiniteDuration());
      watch_ns = kFirstWatchNs;
      continue;
    }
    helper_waiter_.Wait(absl::Nanoseconds(watch_ns));
    const uint64_t visits = visits_.load(std::memory_order_relaxed);
    if (visits != visits_seen) {
      visits_seen = visits;
      watch_ns = std::min(2 * watch_ns, kLastWatchNs);
      continue;
    }
    lock_.Lock();
    helper_leads_ = !driven_;
    watch_ns = driven_ ? kLastWatchNs : kFirstWatchNs;
    lock_.Unlock();
  }
  lock_.Unlock();
}

}  // namespace invoker
