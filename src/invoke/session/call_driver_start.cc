// CallDriver: starting a call, and waiting for room to start one.

#include <algorithm>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "src/invoke/client_options.h"
#include "src/invoke/session/call_driver.h"
#include "src/transport/self_test/method_trial.h"

namespace invoker {
namespace {

// How often a waiting thread asks whether it is to give up.
constexpr int64_t kInterruptCheckNs = 100'000'000;

// With so many calls under way a program is after throughput. From the second call between two
// turns on, calls then wait for company: until the next turn, or until so many have gathered.
constexpr uint32_t kManyUnderWay = 16;
constexpr uint32_t kCompany = 16;
// With fewer under way, so many leave each by itself first.
constexpr uint32_t kAlone = 4;

}  // namespace

int64_t CallDriver::NextCheckAfterNow() { return transport::MonotonicNs() + kInterruptCheckNs; }

// Whether the request that has just been queued, and those before it, are to be posted at once.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline bool CallDriver::LeavesNowLocked(bool may_wait_for_others) {
  // Others wait for the lock, perhaps to start calls of their own: a driver that polls posts ours
  // along with theirs.
  if (driven_ && !asleep_) return !lock_.Contended();
  if (!may_wait_for_others || asleep_) return true;
  const uint32_t started = ++started_since_turn_;
  const uint32_t alone = session_->outstanding() < kManyUnderWay ? kAlone : 1;
  return started <= alone || started % kCompany == 0;
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
    if (ABSL_PREDICT_FALSE(!session_->failure().ok())) {
      *why_not = WithFate(session_->failure(), CallFate::kNotSent);
      return nullptr;
    }
    Call* call = session_->Start(request, /*alone=*/!may_wait_for_others);
    if (ABSL_PREDICT_TRUE(call != nullptr)) {
      if (LeavesNowLocked(may_wait_for_others)) session_->Flush();
      return call;
    }
    if (session_->TakeLook()) {
      LookAtPlacementLocked(/*now=*/!may_wait_for_others && HasTimeForLook(request));
      continue;
    }
    *why_not = WaitToStartLocked(request, &next_check_ns);
    if (!why_not->ok()) return nullptr;
  }
}

// Whether the call's deadline is far enough away for a look at the placement, and for a trial.
bool CallDriver::HasTimeForLook(const ClientSession::Request& request) {
  return request.deadline_ns == 0 ||
         request.deadline_ns - transport::MonotonicNs() >= 2 * transport::MethodTrial::kLimitNs;
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
  if (Interrupted(request.interrupted, next_check_ns)) {
    return WithFate(
        absl::CancelledError("the wait for room in the session's windows was interrupted"),
        CallFate::kNotSent);
  }
  const int64_t limit_ns =
      std::min(*next_check_ns, request.deadline_ns == 0 ? kForever : request.deadline_ns);
  if (!NeedsDriverLocked()) {
    WaitForRoomLocked(limit_ns);
  } else {
    DriveOrWait(nullptr, limit_ns);
  }
  return absl::OkStatus();
}

// With no call under way nobody drives, so what is late to answer a call that timed out has not
// been noticed, and inside of a callback others' results may hold the room, also those that this
// thread took along. True if there was something.
bool CallDriver::PollForRoomLocked() {
  if (!t_leaves_callbacks_ && DeliverNextLocked()) return true;
  if (driven_) return false;
  const bool due = !session_->finished().empty() && !t_leaves_callbacks_;
  if (!due && reactor_->Poll() == 0) return false;
  if (t_leaves_callbacks_) {
    LeaveCallbacksToHelperLocked();
  } else {
    RunFinishedLocked();
  }
  return true;
}

// Whether cells can become free though no call is under way.
bool CallDriver::MayBeReleasedLocked(WhenFull when_full) const {
  return ProbeHoldsRoomLocked() || session_->marks_hold_room() ||
         (when_full == WhenFull::kWaitForResponses && held_responses_ > 0) ||
         OthersMayReleaseLocked();
}

// Whether another thread is about to take a result, or to let go of one. Those that wait for room
// inside of callbacks may wait for this thread.
bool CallDriver::OthersMayReleaseLocked() const {
  if (t_delivery_ == nullptr) return running_ + delivering_ > 0 || !session_->finished().empty();
  const std::optional<uint32_t> here = CountedHere();
  return here.has_value() && running_ + delivering_ > *here + stuck_;
}

void CallDriver::WaitForRoomLocked(int64_t deadline_ns) {
  CallWaiter waiter;
  const uint32_t here = CountedHere().value_or(0);
  stuck_ += here;
  session_->AddRoomWaiter(&waiter);
  lock_.Unlock();
  const int64_t left_ns = deadline_ns - transport::MonotonicNs();
  waiter.Wait(absl::Nanoseconds(std::clamp<int64_t>(left_ns, 0, kLongestSleepNs)));
  lock_.Lock();
  session_->RemoveRoomWaiter(&waiter);
  stuck_ -= here;
}

// Asks, if it is time to, whether the caller is to give up.
bool CallDriver::Interrupted(bool (*interrupted)(), int64_t* next_check_ns) {
  if (interrupted == nullptr || transport::MonotonicNs() < *next_check_ns) return false;
  lock_.Unlock();
  const bool result = interrupted();
  lock_.Lock();
  *next_check_ns = transport::MonotonicNs() + kInterruptCheckNs;
  return result;
}

}  // namespace invoker
