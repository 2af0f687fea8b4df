// An executor's state for readers, perhaps in another process: the function that it runs, the
// requests that wait, its usage, and the messages that it has dropped. It stays readable after a
// crash.
//
// The executor's thread writes, with plain stores. Any thread of any process may read, at any time.
// Trust it no further than the functions that the executor runs: they share its memory.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_WATCH_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_WATCH_H_

#include <atomic>
#include <cstdint>

#include "src/invoke/executor/usage_meter.h"
#include "src/invoke/wire/drop_counters.h"

namespace invoker {

class ExecutorWatch {
 public:
  // A run of a function; another run of it, at once, has another value.
  struct Run {
    uint64_t value = 0;  // 0: none

    bool running() const { return value != 0; }
    uint16_t function() const { return static_cast<uint16_t>(value); }
    // False: it is no run of the executor's session with that epoch.
    bool Of(uint32_t epoch) const { return (value & kSessionBits) == SessionOf(epoch); }
  };

  // The part of a run's value that names the session with that epoch. A session that was opened a
  // multiple of 65536 sessions before or after it has the same.
  static constexpr uint64_t SessionOf(uint32_t epoch) {
    return kRunning | uint64_t{epoch & 0xffff} << 16;
  }

  // Around a function. `executed` is how many the session has run before.
  void Begin(uint64_t session, uint16_t function, uint64_t executed) {
    run_.store(executed << 32 | session | function, std::memory_order_relaxed);
  }
  void End() { run_.store(0, std::memory_order_relaxed); }
  // Shows the call that has been running longest among those that are answered later, by the value
  // that Now() had when it began; 0: there is none. Any thread, one at a time.
  void ShowDeferred(uint64_t run) { deferred_.store(run, std::memory_order_relaxed); }

  // Any thread, of any process.
  Run Now() const { return {run_.load(std::memory_order_relaxed)}; }
  // The oldest call that is answered later, or else Now().
  Run Longest() const {
    const uint64_t deferred = deferred_.load(std::memory_order_relaxed);
    return deferred != 0 ? Run{deferred} : Now();
  }

  // Memory that the process has registered with fabrics, now.
  void ShowRegistered(uint64_t bytes) { registered_bytes_.store(bytes, std::memory_order_relaxed); }
  uint64_t registered_bytes() const { return registered_bytes_.load(std::memory_order_relaxed); }

  // Writes of clients that the executor has taken from its fabrics, and that wait for their turn:
  // in a session's queue, or in the batch at hand. Each may hold several requests.
  void AddQueued(uint64_t more) {
    queued_.store(queued_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  void RemoveQueued(uint64_t fewer) { AddQueued(uint64_t{0} - fewer); }
  void ShowBatch(uint64_t left) { batch_.store(left, std::memory_order_relaxed); }
  uint64_t waiting() const {
    return queued_.load(std::memory_order_relaxed) + batch_.load(std::memory_order_relaxed);
  }

  UsageMeter& usage() { return usage_; }
  const UsageMeter& usage() const { return usage_; }

  // To be written by CountShared, and read by LoadShared.
  DropCounters& dropped() { return dropped_; }
  const DropCounters& dropped() const { return dropped_; }

 private:
  static constexpr uint64_t kRunning = uint64_t{1} << 63;
  static constexpr uint64_t kSessionBits = kRunning | 0xffff0000;

  std::atomic<uint64_t> run_{0};
  std::atomic<uint64_t> deferred_{0};
  std::atomic<uint64_t> registered_bytes_{0};
  std::atomic<uint64_t> queued_{0};
  std::atomic<uint64_t> batch_{0};
  UsageMeter usage_;
  DropCounters dropped_;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "works between processes");

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_WATCH_H_
