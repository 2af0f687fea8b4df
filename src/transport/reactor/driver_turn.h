// Where a reactor's driver is in its turns: how many completions of this turn are left, and when
// the next tick is due. Pure: the caller has the clock. Debug builds check that one thread at a
// time drives.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_DRIVER_TURN_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_DRIVER_TURN_H_

#include <atomic>
#include <cassert>
#include <cstdint>
#include <thread>

namespace invoker::transport {

class DriverTurn {
 public:
  // The clock is read once in so many turns; an idle turn takes well under a microsecond.
  static constexpr uint32_t kTurnsPerSlowTurn = 64;
  static constexpr int64_t kTickNs = 500'000;

  void Begin() {
#ifndef NDEBUG
    driver_.store(std::this_thread::get_id());
#endif
  }
  // Ends a turn. True: it is a slow one, which looks at the clock.
  bool End() {
    AssertDriver();
#ifndef NDEBUG
    driver_.store(std::thread::id());
#endif
    if (--turns_left_ > 0) return false;
    turns_left_ = kTurnsPerSlowTurn;
    return true;
  }
  // The next turn is a slow one.
  void MakeNextSlow() { turns_left_ = 1; }

  // For a slow turn: whether a tick is due.
  bool TakeTick(int64_t now_ns) {
    if (now_ns < next_tick_ns_) return false;
    next_tick_ns_ = now_ns + kTickNs;
    return true;
  }

  // No other thread is inside a turn.
  void AssertDriver() const {
#ifndef NDEBUG
    const std::thread::id driver = driver_.load();
    assert(driver == std::thread::id() || driver == std::this_thread::get_id());
#endif
  }

  void set_entries_left(int entries) { entries_left_ = entries; }
  int entries_left() const { return entries_left_; }

 private:
  int entries_left_ = 0;
  uint32_t turns_left_ = 1;
  int64_t next_tick_ns_ = 0;
#ifndef NDEBUG
  std::atomic<std::thread::id> driver_{};  // inside a turn
#endif
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_DRIVER_TURN_H_
