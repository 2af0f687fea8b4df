// How long an executor busy-polls after its last message before it sleeps.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_HOT_TIMEOUT_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_HOT_TIMEOUT_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class HotTimeout {
 public:
  // Infinite: the executor never sleeps while it has sessions.
  explicit HotTimeout(absl::Duration timeout) { Set(timeout); }

  // Any thread.
  void Set(absl::Duration timeout) {
    ns_.store(absl::ToInt64Nanoseconds(timeout), std::memory_order_relaxed);
    infinite_.store(timeout == absl::InfiniteDuration(), std::memory_order_relaxed);
  }
  bool infinite() const { return infinite_.load(std::memory_order_relaxed); }

  // Executor thread only, for the rest.

  // Something has happened: the time begins anew.
  void Restart() { idle_turns_ = 0; }
  // Nothing has happened in this turn. Returns whether the time is over, as it is then in every
  // turn until something happens. Reads the clock in the first idle turn and then now and then.
  bool IsOver() {
    if (idle_turns_ == 0) {
      idle_since_ns_ = transport::MonotonicNs();
      idle_ns_ = 0;
    } else if (idle_turns_ % kTurnsPerReading == 0) {
      idle_ns_ = transport::MonotonicNs() - idle_since_ns_;
    }
    ++idle_turns_;
    return idle_ns_ >= ns_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kTurnsPerReading = 64;

  std::atomic<bool> infinite_{false};
  std::atomic<int64_t> ns_{0};
  int64_t idle_since_ns_ = 0;
  int64_t idle_ns_ = 0;  // by the last reading
  uint64_t idle_turns_ = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_HOT_TIMEOUT_H_
