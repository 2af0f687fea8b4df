#include "src/isolation/spawner/executor_limits.h"

#include <algorithm>

namespace invoker {
namespace {

// So many looks show that a function runs for too long. The limit is noticed late by one of them at
// most.
constexpr int kLooks = 16;
constexpr absl::Duration kShortestLook = absl::Milliseconds(1);

// More than a process takes to end once its socket has closed, and a sandbox's program after the
// process in it. Until then nothing is killed, so that the process's own signal or status is
// reported.
constexpr absl::Duration kEndFollows = absl::Seconds(1);

// More than an idle process takes to end where many share the processors.
constexpr absl::Duration kStopsWithin = absl::Seconds(2);
constexpr absl::Duration kStopLook = absl::Milliseconds(50);

}  // namespace

void ExecutorLimits::SetStopLimit(absl::Duration limit, absl::Time now) {
  stop_requested_ = true;
  stop_at_ = std::min(stop_at_, now + limit);
}

void ExecutorLimits::ExpectEnd(absl::Time now) { gone_at_ = now + kEndFollows; }

void ExecutorLimits::AddSessions(int change) { sessions_ = std::max(0, sessions_ + change); }

void ExecutorLimits::BeginLoad(absl::Time now) {
  if (loads_++ == 0) load_since_ = now;
}

void ExecutorLimits::EndLoad(absl::Time now) {
  // The process answers loads one after another: the next one begins now.
  load_since_ = --loads_ == 0 ? absl::InfiniteFuture() : now;
}

bool ExecutorLimits::SetKillReason(KillReason reason) {
  if (kill_reason_ != KillReason::kNone) return false;
  kill_reason_ = reason;
  return true;
}

KillReason ExecutorLimits::Look(absl::Time now, bool ready, ExecutorWatch::Run run,
                                absl::Time* again) {
  *again = absl::InfiniteFuture();
  if (kill_reason_ != KillReason::kNone) return KillReason::kNone;
  // An executor that was told to stop, and runs nothing, only has to get a processor. It shows the
  // usage that it has counted since it last slept when it stops.
  const bool idle = ready && loads_ == 0 && !run.running();
  const absl::Time stop_by = idle ? stop_at_ + kStopsWithin : stop_at_;
  if (stop_by <= now) return KillReason::kStopLimit;
  *again = std::min({stop_by, gone_at_, start_by_});
  // A function may begin, or be seen to run, later.
  if (stop_by != stop_at_) *again = std::min(*again, std::max(stop_at_, now + kStopLook));
  // Calls before the socket: a function that runs for too long may have closed it. Where this
  // process looks late, both limits have passed.
  const KillReason of_calls = LookAtCalls(now, run, again);
  if (of_calls != KillReason::kNone) return of_calls;
  if (gone_at_ <= now) return KillReason::kSocketClosed;
  if (start_by_ <= now) return KillReason::kStartLimit;
  return KillReason::kNone;
}

KillReason ExecutorLimits::LookAtCalls(absl::Time now, ExecutorWatch::Run run, absl::Time* again) {
  if (call_limit_ == absl::InfiniteDuration()) return KillReason::kNone;
  // A function may outlive the session that called it; none begins before the next session.
  if (sessions_ == 0 && loads_ == 0 && !run.running()) return KillReason::kNone;
  if (!run.running() || run.value != seen_.value) {
    seen_ = run;
    seen_since_ = now;
  } else if (now - seen_since_ >= call_limit_) {
    return KillReason::kCallLimit;
  }
  // Code that is to be loaded waits for the function that runs, whose time is not the load's.
  if (loads_ > 0 && run.running()) load_since_ = now;
  if (now - load_since_ >= call_limit_) return KillReason::kLoadLimit;
  const absl::Duration step = std::max(call_limit_ / kLooks, kShortestLook);
  *again = std::min(*again,
                    run.running() ? std::min(now + step, seen_since_ + call_limit_) : now + step);
  *again = std::min(*again, load_since_ + call_limit_);
  return KillReason::kNone;
}

}  // namespace invoker
