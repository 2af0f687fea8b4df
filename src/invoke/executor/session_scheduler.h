// Decides which session of one endpoint is served next, and when responses leave.
//
// Sessions are served round-robin: at most 32 calls or 50 us per turn (SessionTurn). A doorbell
// that arrives alone is served at once. Responses are posted when the session's turn ends, or when
// another session's turn begins.
//
// Executor thread only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SCHEDULER_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SCHEDULER_H_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "src/invoke/executor/executor_shared.h"
#include "src/invoke/executor/session/executor_session.h"
#include "src/invoke/executor/session/session_numbers.h"
#include "src/invoke/executor/session/turn_ring.h"
#include "src/invoke/executor/usage_meter.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class SessionScheduler {
 public:
  // Beyond so many, a queue is slow to read where the provider looks at each connection.
  static constexpr size_t kFewSessions = 16;

  // Both outlive the scheduler.
  SessionScheduler(ExecutorShared* shared, const SessionNumbers* sessions)
      : shared_(shared), sessions_(sessions) {}
  SessionScheduler(const SessionScheduler&) = delete;
  SessionScheduler& operator=(const SessionScheduler&) = delete;

  // Before all else. `reactor` calls its handler, which calls Ring.
  void set_reactor(transport::Reactor* reactor) { reactor_ = reactor; }
  // For ExecutorSession::Parts.
  std::vector<uint16_t>* unfinished() { return &unfinished_; }
  TurnRing<ExecutorSession>* ring() { return &ring_; }

  // One turn: polls, runs requests that have arrived, and posts responses. True if anything
  // happened.
  bool Turn() {
    assert(shared_->thread.IsSame());
    turn_began_ = false;
    int events = ABSL_PREDICT_FALSE(crowded_) && !shared_->thorough ? reactor_->PollIfReady()
                                                                    : reactor_->Poll();
    if (ABSL_PREDICT_FALSE(!ring_.empty())) events = ServeRing(events);
    if (gathering_ != nullptr) FlushGathering();
    if (ABSL_PREDICT_FALSE(!unfinished_.empty())) moving_ = Continue();
    if (turn_began_) shared_->busy.store(false, std::memory_order_relaxed);
    return events != 0 || (!unfinished_.empty() && moving_);
  }

  // A doorbell of this session has arrived, from inside the reactor's Poll.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Ring(ExecutorSession* session, MessageKind kind,
                                         uint32_t cell) {
    if (!turn_began_) {
      turn_began_ = true;
      // A doorbell that arrives alone has waited for nothing, so the time does not matter.
      turn_began_ns_ = reactor_->entries_left() > 0 ? transport::MonotonicNs() : 0;
      shared_->busy.store(true, std::memory_order_relaxed);
    }
    const bool alone = turn_began_ns_ == 0 && ring_.empty();
    if (ABSL_PREDICT_FALSE(!alone) && KeepForLater(session, kind, cell)) return;
    Gather(session);
    session->OnDoorbell(kind, cell, turn_began_ns_);
  }

  // Publishes the sessions' usage since the last time: in their meters and in the executor's.
  void Publish();
  // The session is about to end: publishes its usage, and forgets it.
  void Remove(ExecutorSession* session);

  // Now and then: counts the sessions.
  void OnTick() { crowded_ = sessions_->live().size() > kFewSessions; }

  // Whether sessions have work that they could not finish yet.
  bool busy() const { return !unfinished_.empty() || !ring_.empty(); }

 private:
  bool MustWait(const ExecutorSession& session) const;
  ABSL_ATTRIBUTE_NOINLINE bool KeepForLater(ExecutorSession* session, MessageKind kind,
                                            uint32_t cell);
  int ServeRing(int events);
  // The session's turn begins, if it has not begun already. The responses of the session before it
  // leave: they do not wait for functions of other sessions.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Gather(ExecutorSession* session) {
    if (gathering_ == session) return;
    if (gathering_ != nullptr) FlushGathering();
    gathering_ = session;
    gathering_began_ticks_ = ReadTicks();
    session->BeginQuantum();
  }
  // Returns how long it took, in ticks.
  uint64_t EndGathering();
  void FlushGathering();
  bool Continue();
  // The session has just been busy for this long: publishes that soon, or at once if it was long.
  ABSL_ATTRIBUTE_NOINLINE void PublishLater(ExecutorSession* session, uint64_t ticks);

  ExecutorShared* const shared_;
  const SessionNumbers* const sessions_;
  transport::Reactor* reactor_ = nullptr;
  TurnRing<ExecutorSession> ring_;  // sessions whose doorbells wait
  // The session that was served last in this turn, if its responses have not left yet.
  ExecutorSession* gathering_ = nullptr;
  uint64_t gathering_began_ticks_ = 0;
  std::vector<uint16_t> unpublished_;  // sessions that have been busy since Publish
  std::vector<uint16_t> unfinished_;   // sessions with bulk calls or pending responses, each once
  bool moving_ = false;                // one of unfinished_ can go on at once
  bool crowded_ = false;               // there were more than kFewSessions at the last tick
  bool turn_began_ = false;            // a doorbell of this turn has been taken
  int64_t turn_began_ns_ = 0;          // when the first one was; 0: it came alone
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SCHEDULER_H_
