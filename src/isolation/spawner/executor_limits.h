// The limits of one executor's process: when it must be killed, and why. Pure: the caller has the
// clock, and says what the process runs. Not thread-safe.

#ifndef INVOKER_SRC_ISOLATION_SPAWNER_EXECUTOR_LIMITS_H_
#define INVOKER_SRC_ISOLATION_SPAWNER_EXECUTOR_LIMITS_H_

#include "absl/time/time.h"
#include "src/invoke/executor/executor_watch.h"
#include "src/isolation/process/end_reason.h"

namespace invoker {

class ExecutorLimits {
 public:
  // How long one function may run, and how long code may take to load.
  void set_call_limit(absl::Duration limit) { call_limit_ = limit; }

  // The process must answer `start`, or `configure`, within the limit.
  void SetStartLimit(absl::Duration limit, absl::Time now) {
    start_limit_ = limit;
    start_by_ = now + limit;
  }
  // It has answered.
  void ClearStartLimit() { start_by_ = absl::InfiniteFuture(); }
  absl::Duration start_limit() const { return start_limit_; }

  // The process has been told to stop, and must have ended within the limit.
  void SetStopLimit(absl::Duration limit, absl::Time now);
  bool stop_requested() const { return stop_requested_; }

  // The process has closed its socket, so it is about to end. A sandbox's program takes a moment to
  // pass on how the process in it has ended.
  void ExpectEnd(absl::Time now);

  // The server has opened or closed so many sessions.
  void AddSessions(int change);
  // The process loads code, once for each BeginLoad, one after another.
  void BeginLoad(absl::Time now);
  void EndLoad(absl::Time now);

  // True for the first reason, which counts: the process is now to be killed.
  bool SetKillReason(KillReason reason);
  KillReason kill_reason() const { return kill_reason_; }

  // Whether a limit has passed at `now`, a reason to kill the process. `ready`: it has answered
  // `start`. `run`: the function that runs now, if any. Sets when to look again; InfiniteFuture:
  // nothing is known that calls for another look.
  KillReason Look(absl::Time now, bool ready, ExecutorWatch::Run run, absl::Time* again);
  // The function that ran at the last look. It may have ended since.
  const ExecutorWatch::Run& seen() const { return seen_; }

 private:
  KillReason LookAtCalls(absl::Time now, ExecutorWatch::Run run, absl::Time* again);

  absl::Duration call_limit_ = absl::InfiniteDuration();
  absl::Duration start_limit_ = absl::InfiniteDuration();
  absl::Time start_by_ = absl::InfiniteFuture();
  bool stop_requested_ = false;
  absl::Time stop_at_ = absl::InfiniteFuture();
  absl::Time gone_at_ = absl::InfiniteFuture();
  int sessions_ = 0;
  int loads_ = 0;  // not answered yet
  // When the oldest load can have begun: not before a function was last seen to run.
  absl::Time load_since_ = absl::InfiniteFuture();
  ExecutorWatch::Run seen_;
  absl::Time seen_since_;
  KillReason kill_reason_ = KillReason::kNone;
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_SPAWNER_EXECUTOR_LIMITS_H_
