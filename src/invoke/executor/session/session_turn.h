// One session's turn: how much of it is left, and the time.
//
// Sessions are served round-robin: at most 32 calls or 50 us per turn. Reading the clock costs as
// much as a tiny function, so the turn knows when the last reading is still good.
//
// Executor thread only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_TURN_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_TURN_H_

#include <algorithm>
#include <cstdint>

#include "absl/base/attributes.h"
#include "src/invoke/executor/session/function_times.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

// A session's turn while others wait ends after this many messages, or with the message that is
// under way when this much time has passed.
inline constexpr int32_t kQuantumCalls = 32;
inline constexpr int64_t kQuantumNs = 50'000;

class SessionTurn {
 public:
  // A whole quantum is left.
  void Begin() {
    calls_left_ = kQuantumCalls;
    clock_is_now_ = false;
  }
  // The same, for a session that had to wait for its turn.
  void BeginWaited() {
    Begin();
    ReadClock();
    quantum_began_ns_ = clock_ns_;
    clock_is_now_ = true;
    unclocked_ = 0;
  }

  // The messages of one write come next. `others_since_ns`: see ExecutorSession::OnDoorbell.
  void BeginWrite(int64_t others_since_ns) {
    others_since_ns_ = others_since_ns;
    clock_ns_ = std::max(clock_ns_, others_since_ns);
  }
  // From now on the write's own messages count as others that ran first.
  void EndAlone() {
    if (alone()) others_since_ns_ = ReadClock();
  }
  // Nothing can have run before the message at hand.
  bool alone() const { return others_since_ns_ == 0; }
  int64_t others_since_ns() const { return others_since_ns_; }

  void CountMessage() { --calls_left_; }
  int32_t calls_left() const { return calls_left_; }
  // Whether other sessions go first now. Reads the clock only where the next function would.
  ABSL_ATTRIBUTE_NOINLINE bool IsOver() {
    if (calls_left_ <= 0) return true;
    if (!clock_is_now_ && unclocked_ == 0) {
      ReadClock();
      clock_is_now_ = true;
    }
    return BusyNs() > kQuantumNs;
  }

  // Whether a function runs without a reading of the clock: it has always been tiny, and not too
  // many in a row did so, since together they might be slow.
  bool RunsUnclocked(const FunctionTimes& times, uint16_t function_id, uint32_t deadline_us) {
    constexpr uint32_t kMostUnclocked = 16;
    if (deadline_us != 0 || unclocked_ >= kMostUnclocked || !times.IsTiny(function_id)) {
      unclocked_ = 0;
      return false;
    }
    ++unclocked_;
    return true;
  }

  int64_t ReadClock() { return clock_ns_ = transport::MonotonicNs(); }
  // Reads the clock unless nothing has run since it was last read.
  void UpdateClock() {
    if (!clock_is_now_) ReadClock();
  }
  // When the clock was last read.
  int64_t clock_ns() const { return clock_ns_; }

  // How long the executor has been busy with this turn, or with others of the same batch.
  int64_t BusyNs() const { return clock_ns_ - std::max(others_since_ns_, quantum_began_ns_); }
  // Whether the message at hand had to wait for longer than its deadline. False if it was alone.
  bool IsPast(uint32_t deadline_us) const {
    return deadline_us != 0 && !alone() &&
           clock_ns_ - others_since_ns_ > int64_t{deadline_us} * 1000;
  }
  // When a function that begins now must have ended. The time that it has waited counts. `clocked`:
  // clock_ns() is now.
  ABSL_ATTRIBUTE_NOINLINE int64_t DeadlineOf(uint32_t deadline_us, bool clocked) const {
    const int64_t now_ns = clocked ? clock_ns_ : transport::MonotonicNs();
    return (alone() ? now_ns : others_since_ns_) + int64_t{deadline_us} * 1000;
  }

  // A function has run. Returns how long it took if it was clocked, else 0.
  int64_t EndRun(bool clocked) {
    clock_is_now_ = clocked;
    if (!clocked) return 0;
    const int64_t began_ns = clock_ns_;
    return ReadClock() - began_ns;
  }

 private:
  int32_t calls_left_ = 0;
  int64_t quantum_began_ns_ = 0;  // when BeginWaited was last called
  int64_t others_since_ns_ = 0;   // 0: the message at hand is alone
  int64_t clock_ns_ = 0;
  bool clock_is_now_ = false;  // nothing has run since the clock was read
  uint32_t unclocked_ = 0;     // functions that ran without a reading, in a row
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_TURN_H_
