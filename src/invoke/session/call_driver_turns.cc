// CallDriver: who polls the reactor, who sleeps, and who delivers what has come.

#include <sched.h>

#include <algorithm>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/container/inlined_vector.h"
#include "src/base/start_thread.h"
#include "src/invoke/client_options.h"
#include "src/invoke/session/call_driver.h"

namespace invoker {
namespace {

// The clock is read once in so many idle turns.
constexpr uint32_t kTurnsPerClock = 64;

// How long the helper watches whether somebody else drives: at first, and after others have again
// and again.
constexpr int64_t kFirstWatchNs = 50'000;
constexpr int64_t kLastWatchNs = 200'000;

}  // namespace

thread_local CallDriver::Delivery* CallDriver::t_delivery_ = nullptr;
thread_local bool CallDriver::t_leaves_callbacks_ = false;

// Not inline, since it is rarely asked.
ABSL_ATTRIBUTE_NOINLINE bool CallDriver::DeliversHere() const {
  const Delivery* at = t_delivery_;
  while (at != nullptr && at->driver != this) at = at->outer;
  return at != nullptr;
}

void CallDriver::DriveHere(Call* call, int64_t deadline_ns) {
  helper_leads_ = false;
  visits_.store(visits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  DriveWhile(call, deadline_ns, kTurnsPerClock);
  LeaveLocked();
  if (!session_->finished().empty() && RunsCallbacksFor(call)) {
    RunFinishedLocked(/*waits_for_call=*/call != nullptr);
  }
}

// Somebody else drives.
void CallDriver::WaitLocked(Call* call, int64_t deadline_ns) {
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

// Whether a driver with no call of its own goes on: until a call or a cell comes or goes, or there
// is nothing to drive for.
inline bool CallDriver::GoesOnLocked(uint64_t changes) const {
  return session_->changes() == changes && NeedsDriverLocked();
}

// Takes the driver's role until the call has ended, the deadline has passed, or callbacks are due;
// inside of a callback others' wait, unless it waits for room, which they may have.
// With no call: while GoesOnLocked, and, if others wait, for so many turns. Not none, since the
// others may have no call either.
void CallDriver::DriveWhile(const Call* call, int64_t deadline_ns, uint32_t turns_if_others_wait) {
  driven_ = true;
  ClientSession* const session = session_.get();
  transport::Reactor* const reactor = reactor_.get();
  const uint64_t changes = session->changes();
  int64_t idle_since_ns = 0;  // 0: not known to be idle
  uint32_t turns = 0;
  // What was left to the next driver to post.
  session->Flush();
  while (call != nullptr ? !call->ended() : GoesOnLocked(changes)) {
    const int events = reactor->Poll();
    started_since_turn_ = 0;
    session->Flush();
    if (ABSL_PREDICT_FALSE(!session->finished().empty()) && RunsCallbacksFor(call)) break;
    if (ABSL_PREDICT_FALSE(lock_.Contended())) lock_.Yield();
    if (events > 0) idle_since_ns = 0;
    // With no time to be hot in, the first idle turn is the last.
    const bool stays_hot = hot_ns_ > 0 || events > 0;
    ++turns;
    if (call == nullptr && turns >= turns_if_others_wait && !waiters_.empty()) break;
    if (ABSL_PREDICT_TRUE(turns % kTurnsPerClock != 0 && stays_hot)) continue;
    // Whoever has something better to do on this core than to poll for nobody.
    if (call == nullptr) sched_yield();
    const int64_t now_ns = transport::MonotonicNs();
    if (now_ns >= deadline_ns) break;
    // It may have been what is waited for, and nothing else would end a sleep.
    if (events > 0) continue;
    if (idle_since_ns == 0) idle_since_ns = now_ns;
    if (now_ns - idle_since_ns >= hot_ns_) SleepLocked(deadline_ns);
  }
  // What was left to this driver to post.
  session->Flush();
  driven_ = false;
}

void CallDriver::SleepLocked(int64_t deadline_ns) {
  // What others have left to this driver while it gave them the lock.
  session_->Flush();
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

// False if the system has no thread left: then the next thread that waits drives, or the next call
// tries this again.
bool CallDriver::StartHelperLocked() {
  return transport::StartThread(&helper_, [this] { HelperMain(); }).ok();
}

// Nobody drives, and there is something to drive for, or somebody who waits to.
void CallDriver::WakeSuccessorLocked() {
  if (!waiters_.empty()) {
    waiters_.front()->Wake();
    return;
  }
  if (helper_stop_) return;
  if (!helper_.joinable() && !StartHelperLocked()) return;
  if (!helper_awake_ || (helper_leads_ && helper_watches_)) {
    helper_awake_ = true;
    helper_waiter_.Wake();
  }
}

// For threads that must not run callbacks, which may wait for what those threads have to do: sees
// to it that the helper runs those that are due, unless a driver comes first. Without a thread for
// that they run here, since otherwise nobody might.
void CallDriver::LeaveCallbacksToHelperLocked() {
  // Close runs what is left.
  if (session_->finished().empty() || helper_stop_) return;
  if (!helper_.joinable() && !StartHelperLocked()) return RunFinishedLocked();
  helper_awake_ = true;
  helper_waiter_.Wake();
}

// Runs the callbacks of calls that have ended, without the lock, so that they may make calls
// themselves. Not for a driver.
void CallDriver::RunFinishedLocked(bool waits_for_call) {
  while (!session_->finished().empty()) DeliverSomeLocked(waits_for_call);
}

void CallDriver::DeliverSomeLocked(bool waits_for_call) {
  constexpr size_t kMost = 16;
  absl::InlinedVector<Result, kMost> results;
  std::vector<Call*>& finished = session_->finished();
  const size_t count = std::min(finished.size(), kMost);
  for (size_t i = 0; i < count; ++i) {
    CallDone on_done = std::move(finished[i]->on_done);
    results.push_back({std::move(on_done), Collect(finished[i])});
  }
  finished.erase(finished.begin(), finished.begin() + static_cast<std::ptrdiff_t>(count));
  ++delivering_;
  lock_.Unlock();
  Delivery delivery = {this, t_delivery_, waits_for_call, absl::MakeSpan(results)};
  t_delivery_ = &delivery;
  while (!delivery.rest.empty()) delivery.RunNext();
  results.clear();
  t_delivery_ = delivery.outer;
  lock_.Lock();
  --delivering_;
  if (ABSL_PREDICT_FALSE(closer_ != nullptr) && delivering_ == 0) closer_->Wake();
}

void CallDriver::Delivery::RunNext() {
  Result& next = rest.front();
  rest.remove_prefix(1);
  next.on_done(std::move(next.response));
}

// Inside of a callback: runs one of those whose results this thread took along with that one's.
// False if none is left.
bool CallDriver::DeliverNextLocked() {
  Delivery* at = t_delivery_;
  while (at != nullptr && (at->driver != this || at->rest.empty())) at = at->outer;
  if (at == nullptr) return false;
  lock_.Unlock();
  at->RunNext();
  lock_.Lock();
  return true;
}

// Of running_ and delivering_, what this thread counts for. Nothing if it is inside of a callback
// of another driver's, too.
std::optional<uint32_t> CallDriver::CountedHere() const {
  uint32_t counted = 0;
  for (const Delivery* at = t_delivery_; at != nullptr; at = at->outer) {
    if (at->driver != this) return std::nullopt;
    counted += at->waits_for_call ? 2 : 1;
  }
  return counted;
}

// Drives only where nobody else does. Threads that start calls and come back soon to wait for them
// drive best by themselves, so it first watches for a while whether they do; once they have not, it
// drives at once until one does.
void CallDriver::HelperMain() {
  uint64_t visits_seen = visits_.load(std::memory_order_relaxed);
  uint64_t asynchronous_seen = 0;
  int64_t watch_ns = kFirstWatchNs;
  while (true) {
    lock_.Lock();
    helper_watches_ = false;
    RunFinishedLocked();
    while (helper_leads_ && !helper_stop_ && !driven_ && waiters_.empty() && NeedsDriverLocked()) {
      DriveWhile(nullptr, kForever, 1);
      RunFinishedLocked();
    }
    if (helper_stop_) break;
    if (!driven_ && !waiters_.empty()) LeaveLocked();
    // Calls that no thread waits for may be under way, and a program that has started some lately
    // is likely to start others.
    const uint64_t visits = visits_.load(std::memory_order_relaxed);
    const bool needed = session_->outstanding() > running_ || session_->sending() ||
                        asynchronous_ != asynchronous_seen;
    asynchronous_seen = asynchronous_;
    helper_awake_ = needed;
    helper_watches_ = true;
    lock_.Unlock();
    if (!needed) {
      helper_waiter_.Wait(absl::InfiniteDuration());
      watch_ns = kFirstWatchNs;
      continue;
    }
    visits_seen = visits;
    helper_waiter_.Wait(absl::Nanoseconds(watch_ns));
    if (visits_.load(std::memory_order_relaxed) != visits_seen) {
      watch_ns = std::min(2 * watch_ns, kLastWatchNs);
      continue;
    }
    lock_.Lock();
    helper_leads_ = !driven_ && NeedsDriverLocked();
    watch_ns = driven_ ? kLastWatchNs : kFirstWatchNs;
    lock_.Unlock();
  }
  lock_.Unlock();
}

}  // namespace invoker
