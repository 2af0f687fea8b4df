// The usage of a session, an executor or a lease, as the executors count it.
//
// Function time begins when an executor turns to a session's requests. It ends when the last
// function of that turn has returned. It includes the functions, the checks before them, and the
// posting of responses that leave between two of them, but not the posting at the end of the turn.
// The processor's cycle counter is read twice a turn, however many functions run in it.
//
// Polling time is the rest of the time that an executor's thread does not sleep while it has
// sessions: busy-polling, and posting. Both are wall-clock times: they go on while another thread
// has the core.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_USAGE_METER_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_USAGE_METER_H_

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#endif

#include <atomic>
#include <cstdint>

#include "src/transport/reactor/reactor.h"

namespace invoker {

struct UsageCounters {
  uint64_t calls = 0;        // functions run
  uint64_t function_ns = 0;  // inside functions
  uint64_t polling_ns = 0;   // an executor's; a session has none of its own
  uint64_t bytes_in = 0;     // payloads of the requests that ran
  uint64_t bytes_out = 0;    // payloads of the responses to these, messages of failures included

  void Add(const UsageCounters& other) {
    calls += other.calls;
    function_ns += other.function_ns;
    polling_ns += other.polling_ns;
    bytes_in += other.bytes_in;
    bytes_out += other.bytes_out;
  }
};

// One thread writes, any may read, without waiting for the writer. Values may be a few turns old,
// and the fields may be of different turns.
class UsageMeter {
 public:
  void Set(const UsageCounters& now) {
    calls_.store(now.calls, std::memory_order_relaxed);
    function_ns_.store(now.function_ns, std::memory_order_relaxed);
    polling_ns_.store(now.polling_ns, std::memory_order_relaxed);
    bytes_in_.store(now.bytes_in, std::memory_order_relaxed);
    bytes_out_.store(now.bytes_out, std::memory_order_relaxed);
  }

  UsageCounters Read() const {
    return {calls_.load(std::memory_order_relaxed), function_ns_.load(std::memory_order_relaxed),
            polling_ns_.load(std::memory_order_relaxed), bytes_in_.load(std::memory_order_relaxed),
            bytes_out_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> function_ns_{0};
  std::atomic<uint64_t> polling_ns_{0};
  std::atomic<uint64_t> bytes_in_{0};
  std::atomic<uint64_t> bytes_out_{0};
};

// The processor's cycle counter: a few nanoseconds where a look at the clock takes 20 and more.
inline uint64_t ReadTicks() {
#if defined(__x86_64__) || defined(__i386__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<uint64_t>(transport::MonotonicNs());
#endif
}

// Turns ticks into nanoseconds. The clock says how long a tick is. One thread.
class TickScale {
 public:
  TickScale() : first_(Look()) {}

  // 0 for a time that went backwards, as it may between cores whose counters differ.
  uint64_t ToNs(uint64_t ticks) const {
    return static_cast<int64_t>(ticks) <= 0
               ? 0
               : static_cast<uint64_t>(static_cast<int64_t>(
                     static_cast<double>(static_cast<int64_t>(ticks)) * ns_per_tick_));
  }

  // Looks at the clock each time that twice as long has passed as at the look before.
  void Refine(uint64_t now_ticks) {
    if (now_ticks - first_.ticks < next_look_) return;
    const Moment now = Look();
    const uint64_t ticks = now.ticks - first_.ticks;
    if (static_cast<int64_t>(ticks) <= 0) return;
    next_look_ = 2 * ticks;
    ns_per_tick_ = static_cast<double>(now.ns - first_.ns) / static_cast<double>(ticks);
  }

 private:
  // The same moment in ticks and by the clock.
  struct Moment {
    uint64_t ticks;
    int64_t ns;
  };

  // The thread may lose its core between the two readings. So it reads them a few times, and the
  // readings that lie closest together count.
  static Moment Look() {
    Moment closest = {};
    uint64_t least = ~uint64_t{0};
    for (int i = 0; i < 3; ++i) {
      const uint64_t before = ReadTicks();
      const int64_t ns = transport::MonotonicNs();
      const uint64_t after = ReadTicks();
      if (after - before >= least) continue;
      least = after - before;
      closest = {before + least / 2, ns};
    }
    return closest;
  }

  const Moment first_;
  uint64_t next_look_ = 1;  // at ticks since the first
  double ns_per_tick_ = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_USAGE_METER_H_
