// The usage of one session, and the reasons for which messages of it were dropped. Executor thread
// only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_USAGE_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_USAGE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/attributes.h"
#include "src/invoke/executor/usage_meter.h"
#include "src/invoke/wire/drop_counters.h"

namespace invoker {

struct ExecutorSessionCounters {
  uint64_t executed = 0;  // functions run
  uint64_t refused = 0;   // answered without running
  uint64_t bytes_in = 0;  // see UsageCounters
  uint64_t bytes_out = 0;
  uint64_t busy_ticks = 0;  // function time
  DropCounters dropped;
};

class SessionUsage {
 public:
  // `executor_drops` are the executor's counters, shared with other threads; nullptr: none. `meter`
  // shows the session's usage; nullptr: it is not shown.
  SessionUsage(DropCounters* executor_drops, std::shared_ptr<UsageMeter> meter)
      : executor_drops_(executor_drops), meter_(std::move(meter)) {}

  void CountRun(uint64_t bytes_in) {
    ++counters_.executed;
    counters_.bytes_in += bytes_in;
  }
  void CountStored(uint64_t bytes_in) { counters_.bytes_in += bytes_in; }
  // A run that does not count, or not yet.
  void TakeBackRun(uint64_t bytes_in) {
    --counters_.executed;
    counters_.bytes_in -= bytes_in;
  }
  void CountOutput(uint64_t bytes) { counters_.bytes_out += bytes; }
  void CountRefusal() { ++counters_.refused; }
  ABSL_ATTRIBUTE_NOINLINE void CountDrop(uint64_t DropCounters::*reason) {
    ++(counters_.dropped.*reason);
    if (executor_drops_ != nullptr) CountShared(reason, 1, executor_drops_);
  }
  // The executor has spent this long on the session's requests.
  void AddBusy(uint64_t ticks) { counters_.busy_ticks += ticks; }

  // Whether the session is listed for Publish. Publish takes it back.
  bool unpublished() const { return unpublished_; }
  void set_unpublished() { unpublished_ = true; }

  // Writes all counts to the meter, and adds to `sum` what is new since the last time.
  void Publish(const TickScale& scale, UsageCounters* sum) {
    unpublished_ = false;
    const uint64_t busy_ns = scale.ToNs(counters_.busy_ticks - published_ticks_);
    published_ticks_ = counters_.busy_ticks;
    sum->calls += counters_.executed - published_.calls;
    sum->function_ns += busy_ns;
    sum->bytes_in += counters_.bytes_in - published_.bytes_in;
    sum->bytes_out += counters_.bytes_out - published_.bytes_out;
    published_.calls = counters_.executed;
    published_.function_ns += busy_ns;
    published_.bytes_in = counters_.bytes_in;
    published_.bytes_out = counters_.bytes_out;
    if (meter_ != nullptr) meter_->Set(published_);
  }

  const ExecutorSessionCounters& counters() const { return counters_; }

 private:
  DropCounters* const executor_drops_;
  const std::shared_ptr<UsageMeter> meter_;
  ExecutorSessionCounters counters_;
  bool unpublished_ = false;
  uint64_t published_ticks_ = 0;  // the part of busy_ticks that is in published_
  UsageCounters published_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_USAGE_H_
