// CallDriver: which thread polls, which sleeps, and how a call waits for room to start.

#include <sched.h>

#include <algorithm>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "invoker/call_fate.h"
#include "invoker/client_options.h"
#include "src/invoke/session/driver/call_driver.h"

namespace invoker {

// Whether the request that has just been queued, and those before it, are to be posted at once.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline bool CallDriver::LeavesNowLocked(bool may_wait_for_others) {
  // Other threads wait for the lock, perhaps to start calls of their own: a driver that polls posts
  // this request along with theirs.
  if (role_.taken() && !role_.asleep()) return !lock_.Contended();
  if (!may_wait_for_others || role_.asleep()) return true;
  return flush_.LeavesNow(session_->outstanding());
}

// Queues and posts the request, and waits for cells as long as they can still come.
Call* CallDriver::StartLocked(const ClientSession::Request& request, bool may_wait_for_others,
                              absl::Status* why_not) {
  int64_t next_check_ns = 0;  // at once
  while (true) {
    // Every time: another thread may have taken the buffer while this one waited for room.
    if (ABSL_PREDICT_FALSE(request.buffer_busy != nullptr && *request.buffer_busy)) {
      *why_not = WithFate(absl::FailedPreconditionError(
                              "the buffer is in use by a call that has not been answered yet"),
                          CallFate::kNotSent);
      return nullptr;
    }
    if (ABSL_PREDICT_FALSE(!session_->refusal().ok())) {
      *why_not = WithFate(session_->refusal(), CallFate::kNotSent);
      return nullptr;
    }
    Call* call = session_->Start(request, /*alone=*/!may_wait_for_others);
    if (ABSL_PREDICT_TRUE(call != nullptr)) {
      if (LeavesNowLocked(may_wait_for_others)) {
        session_->FlushInline();
      } else if (!role_.taken()) {
        helper_.WakeToSend();
      }
      return call;
    }
    if (session_->TakeLook()) {
      trials_.Look(session_.get(), *reactor_,
                   !may_wait_for_others && !role_.taken() &&
                       MethodTrials::HasTimeForLook(request.deadline_ns));
      continue;
    }
    *why_not = WaitToStartLocked(request, &next_check_ns);
    if (!why_not->ok()) return nullptr;
  }
}

void CallDriver::TakeNoMore(const absl::Status& reason) {
  lock_.Lock();
  session_->TakeNoMore(reason);
  // Those that wait for room.
  role_.WakeAll();
  lock_.Unlock();
}

// There is no room now. OK: it is worth another try.
absl::Status CallDriver::WaitToStartLocked(const ClientSession::Request& request,
                                           int64_t* next_check_ns) {
  if (request.interrupted == nullptr) *next_check_ns = kForever;
  if (session_->outstanding() == 0 && PollForRoomLocked()) return absl::OkStatus();
  if (request.when_full == WhenFull::kFail) {
    return WithFate(absl::ResourceExhaustedError("the session's windows have no room now"),
                    CallFate::kNotSent);
  }
  if (session_->outstanding() == 0 && !MayBeReleasedLocked(request.when_full)) {
    return WithFate(
        absl::ResourceExhaustedError(
            "the session's windows are full of responses and buffers that the program still "
            "holds, or of calls that timed out and have not been answered; release some, ask for "
            "smaller responses, or start the server with a larger --window"),
        CallFate::kNotSent);
  }
  if (request.deadline_ns != 0 && transport::MonotonicNs() >= request.deadline_ns) {
    return WithFate(absl::DeadlineExceededError(
                        "the deadline passed while the call waited for room in the session's "
                        "windows"),
                    CallFate::kNotSent);
  }
  if (InterruptedLocked(request.interrupted, next_check_ns)) {
    return WithFate(
        absl::CancelledError("the wait for room in the session's windows was interrupted"),
        CallFate::kNotSent);
  }
  const int64_t limit_ns =
      std::min(*next_check_ns, request.deadline_ns == 0 ? kForever : request.deadline_ns);
  if (session_->needs_turns()) {
    DriveOrWaitLocked(nullptr, limit_ns);
  } else {
    WaitForRoomLocked(limit_ns);
  }
  return absl::OkStatus();
}

// With no call under way no thread drives, so nobody has noticed late answers to calls that timed
// out. Inside of a callback, other results may hold the room, also those that this thread has taken
// along. True if there was something.
bool CallDriver::PollForRoomLocked() {
  if (!CallbackDelivery::elsewhere() && delivery_.RunNext(lock_)) return true;
  if (role_.taken()) return false;
  const bool due = callbacks_due_locked() && !CallbackDelivery::elsewhere();
  if (!due && reactor_->Poll() == 0) return false;
  if (CallbackDelivery::elsewhere()) {
    LeaveCallbacksToHelperLocked();
  } else {
    RunCallbacksLocked();
  }
  return true;
}

// Whether cells can become free though no call is under way.
bool CallDriver::MayBeReleasedLocked(WhenFull when_full) const {
  return trials_.ProbeHoldsRoom() || session_->marks_hold_room() ||
         (when_full == WhenFull::kWaitForResponses && life_.responses() > 0) ||
         delivery_.OthersMayRelease(running_, callbacks_due_locked());
}

void CallDriver::WaitForRoomLocked(int64_t deadline_ns) {
  CallWaiter waiter;
  const uint32_t here = delivery_.BeginWaitForRoom();
  session_->AddRoomWaiter(&waiter);
  DriverRole::WaitForRoom(lock_, &waiter, deadline_ns);
  session_->RemoveRoomWaiter(&waiter);
  delivery_.EndWaitForRoom(here);
}

template <uint32_t kTurns>
void CallDriver::DriveHereLocked(Call* call, int64_t deadline_ns) {
  helper_.OthersDrive();
  DriveLocked<kTurns>(call, deadline_ns, kTurnsPerClock);
  HandOnFreeRoleLocked();
  if (callbacks_due_locked() && RunsCallbacksFor(call)) {
    RunCallbacksLocked(/*waits_for_call=*/call != nullptr);
  }
}

template void CallDriver::DriveHereLocked<1>(Call* call, int64_t deadline_ns);
template void CallDriver::DriveHereLocked<CallDriver::kTurnsPerClock>(Call* call,
                                                                      int64_t deadline_ns);

void CallDriver::LookLocked() {
  if (!role_.TryTake()) return;
  helper_.OthersLook();
  // Requests that were left to the next driver to post.
  session_->Flush();
  session_->Turn();
  flush_.OnTurn();
  role_.Leave();
  HandOnFreeRoleLocked();
  // A look is short, and may be made under locks that callbacks take.
  LeaveCallbacksToHelperLocked();
}

// The thread has taken the role, and this leaves it. Drives until the call has ended, the deadline
// has passed, or callbacks are due; inside of a callback, others' callbacks wait, unless the thread
// waits for room, which they may have. With no call: until a call or a cell comes or goes, or there
// is nothing to drive for, and, if others wait, for so many turns. At least one, since the others
// may have no call either.
template <uint32_t kTurns>
void CallDriver::DriveLocked(const Call* call, int64_t deadline_ns, uint32_t turns_if_others_wait) {
  ClientSession* const session = session_.get();
  const uint64_t changes = call == nullptr ? session->changes() : 0;
  int64_t idle_since_ns = 0;  // 0: not known to be idle
  uint32_t turns = 0;
  // Requests that were left to the next driver to post.
  session->Flush();
  while (call != nullptr ? !call->ended()
                         : session->changes() == changes && session->needs_turns()) {
    const int events = session->Turn();
    flush_.OnTurn();
    if (ABSL_PREDICT_FALSE(callbacks_due_locked()) && RunsCallbacksFor(call)) break;
    if (ABSL_PREDICT_FALSE(lock_.Contended())) lock_.Yield();
    if (events > 0) idle_since_ns = 0;
    // With no time to be hot in, the first idle turn is the last.
    const bool stays_hot = hot_ns_ > 0 || events > 0;
    ++turns;
    if (call == nullptr && turns >= turns_if_others_wait && role_.others_wait()) break;
    if (ABSL_PREDICT_TRUE(turns % kTurns != 0 && stays_hot)) continue;
    // Another thread may have a better use for this core than polling for nobody.
    if (call == nullptr && kTurns > 1) sched_yield();
    const int64_t now_ns = transport::MonotonicNs();
    if (now_ns >= deadline_ns) break;
    // The thread may have waited for this very event, and no other would end a sleep.
    if (events > 0) continue;
    if (idle_since_ns == 0) idle_since_ns = now_ns;
    if (now_ns - idle_since_ns >= hot_ns_) SleepLocked(deadline_ns);
  }
  // Requests that were left to this driver to post.
  session->Flush();
  role_.Leave();
}

void CallDriver::SleepLocked(int64_t deadline_ns) {
  // Requests that others have left to this driver while it gave them the lock.
  session_->Flush();
  role_.Sleep(lock_, reactor_.get(), deadline_ns);
}

// Another thread drives.
void CallDriver::WaitLocked(Call* call, int64_t deadline_ns) {
  CallWaiter waiter;
  if (call != nullptr) {
    call->waiter = &waiter;
  } else {
    session_->AddRoomWaiter(&waiter);
  }
  role_.Wait(lock_, &waiter, deadline_ns);
  if (call != nullptr) {
    call->waiter = nullptr;
  } else {
    session_->RemoveRoomWaiter(&waiter);
  }
  // The driver may have left the role to this thread just as its call ended.
  if (call == nullptr || call->ended()) HandOnLocked();
}

void CallDriver::WakeSuccessorLocked() {
  if (role_.HandOn()) return;
  if (helper_.EnsureStarted([this] { HelperMain(); })) helper_.WakeToDrive();
}

void CallDriver::RunCallbacksLocked(bool waits_for_call) {
  while (callbacks_due_locked()) {
    delivery_.Run(lock_, &session_->finished(), waits_for_call, [this](Call* call) {
      lock_.AssertHeld();
      helper_.CallbackDue();
      return CollectLocked(call);
    });
  }
}

// For threads that must not run callbacks, which may wait for something that those threads have to
// do: the helper runs those that are due, unless a driver comes first. If the system has no thread
// left for a helper they run here, since otherwise they might never.
void CallDriver::LeaveCallbacksToHelperLocked() {
  // Close runs those that are left.
  if (!callbacks_due_locked() || helper_.stopped()) return;
  if (!helper_.EnsureStarted([this] { HelperMain(); })) return RunCallbacksLocked();
  helper_.WakeToDeliver();
}

void CallDriver::HelperMain() {
  lock_.Lock();
  while (true) {
    RunCallbacksLocked();
    while (helper_.leads() && !helper_.stopped() && !role_.others_wait() &&
           session_->needs_turns() && role_.TryTake()) {
      DriveLocked<kTurnsPerClock>(nullptr, kForever, 1);
      RunCallbacksLocked();
    }
    if (helper_.stopped()) break;
    if (role_.others_wait()) HandOnLocked();
    const bool under_way = session_->outstanding() > running_ || session_->sending();
    if (helper_.Rest(lock_, under_way, session_->sending(), session_->gathering())) {
      helper_.Watched(role_.taken(), session_->needs_turns());
    }
  }
  lock_.Unlock();
}

}  // namespace invoker
