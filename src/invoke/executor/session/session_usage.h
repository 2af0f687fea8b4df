// The usage of one session, by function too, and the reasons for which messages of it were dropped.
// Executor thread only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_USAGE_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_USAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "src/invoke/executor/function_meters.h"
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
  // shows the session's usage; nullptr: it is not shown. `functions` are the executor's meters of
  // the session's fabric, and `scale` outlives the usage where there are such.
  SessionUsage(DropCounters* executor_drops, std::shared_ptr<UsageMeter> meter,
               FunctionMeters::Row functions = {}, const TickScale* scale = nullptr)
      : executor_drops_(executor_drops),
        meter_(std::move(meter)),
        functions_(functions),
        scale_(scale) {}

  void CountRun(uint16_t function, uint64_t bytes_in) {
    ++counters_.executed;
    counters_.bytes_in += bytes_in;
    if (FunctionMeter* meter = functions_.Of(function)) meter->CountRun(bytes_in);
  }
  // A run, and its output. Its time is counted next, with what is returned.
  FunctionMeter* CountCall(uint16_t function, uint64_t bytes_in, uint64_t bytes_out) {
    ++counters_.executed;
    counters_.bytes_in += bytes_in;
    counters_.bytes_out += bytes_out;
    FunctionMeter* const meter = functions_.Of(function);
    if (ABSL_PREDICT_TRUE(meter != nullptr)) {
      meter->CountRun(bytes_in);
      meter->CountOutput(bytes_out);
    }
    return meter;
  }
  void CountStored(uint64_t bytes_in) { counters_.bytes_in += bytes_in; }
  // A run that does not count, or not yet.
  void TakeBackRun(uint16_t function, uint64_t bytes_in) {
    --counters_.executed;
    counters_.bytes_in -= bytes_in;
    if (FunctionMeter* meter = functions_.Of(function)) meter->TakeBackRun(bytes_in);
  }
  void CountOutput(uint16_t function, uint64_t bytes) {
    counters_.bytes_out += bytes;
    if (FunctionMeter* meter = functions_.Of(function)) meter->CountOutput(bytes);
  }
  void CountFailure(uint16_t function) {
    if (FunctionMeter* meter = functions_.Of(function)) meter->CountFailure();
  }
  // How long a run took, by the clock. `meter` is CountCall's.
  void CountTime(FunctionMeter* meter, uint64_t ns) {
    counted_ns_ += ns;
    if (meter != nullptr) meter->CountTime(ns);
  }
  // How long a run took that is not part of the time that is told to CountBusy.
  void CountDeferred(uint16_t function, uint64_t ticks) {
    if (FunctionMeter* meter = functions_.Of(function)) meter->CountTime(ToNs(ticks));
  }
  // A run without a reading of the clock: CountBusy counts its time.
  void CountUntimed(FunctionMeter* meter) {
    if (ABSL_PREDICT_TRUE(untimed_count_ < untimed_.size())) untimed_[untimed_count_++] = meter;
  }
  // The same of a run that CountCall did not count.
  void CountUntimedOf(uint16_t function) { CountUntimed(functions_.Of(function)); }
  // What ran since the last time took so long together.
  void CountBusy(uint64_t ticks) {
    if (ABSL_PREDICT_TRUE(untimed_count_ == 1 && counted_ns_ == 0)) {
      untimed_count_ = 0;
      if (untimed_[0] != nullptr) untimed_[0]->CountTime(ToNs(ticks));
    } else {
      ShareBusy(ToNs(ticks));
    }
  }
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
  uint64_t ToNs(uint64_t ticks) const { return scale_ == nullptr ? 0 : scale_->ToNs(ticks); }
  ABSL_ATTRIBUTE_NOINLINE void ShareBusy(uint64_t ns) {
    const uint64_t rest = ns > counted_ns_ ? ns - counted_ns_ : 0;
    for (size_t i = 0; i < untimed_count_; ++i) {
      if (untimed_[i] != nullptr) untimed_[i]->CountTime(rest / untimed_count_);
    }
    untimed_count_ = 0;
    counted_ns_ = 0;
  }

  // Few functions in a row run without a reading of the clock, but for those that are known to be
  // tiny.
  static constexpr size_t kMostUntimed = 8;

  DropCounters* const executor_drops_;
  const std::shared_ptr<UsageMeter> meter_;
  const FunctionMeters::Row functions_;
  const TickScale* const scale_;
  std::array<FunctionMeter*, kMostUntimed> untimed_;
  size_t untimed_count_ = 0;
  uint64_t counted_ns_ = 0;  // by CountTime, since CountBusy
  ExecutorSessionCounters counters_;
  bool unpublished_ = false;
  uint64_t published_ticks_ = 0;  // the part of busy_ticks that is in published_
  UsageCounters published_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_SESSION_USAGE_H_
