// How long one executor's thread has polled without running functions. Executor thread only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_POLLING_TIME_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_POLLING_TIME_H_

#include <cstdint>

#include "src/invoke/executor/usage_meter.h"

namespace invoker {

class PollingTime {
 public:
  // The thread polls, from now on if it did not before.
  void Begin() {
    if (since_ticks_ == 0) since_ticks_ = ReadTicks();
  }
  // The thread will not poll for a while. Call AddTo first.
  void End() { since_ticks_ = 0; }

  // Brings usage->polling_ns up to now.
  void AddTo(TickScale* scale, UsageCounters* usage) {
    if (since_ticks_ == 0) return;
    const uint64_t now = ReadTicks();
    scale->Refine(now);
    awake_ns_ += scale->ToNs(now - since_ticks_);
    since_ticks_ = now;
    // Functions of endpoints that are polled now and then are not part of the time awake.
    if (awake_ns_ > usage->function_ns + usage->polling_ns) {
      usage->polling_ns = awake_ns_ - usage->function_ns;
    }
  }

 private:
  uint64_t since_ticks_ = 0;  // up to which awake_ns_ goes; 0: the thread does not poll
  uint64_t awake_ns_ = 0;     // polling, functions included
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_POLLING_TIME_H_
