// Counts what completes in one turn of a contender that keeps many things under way: how many in a
// fixed window of time that begins after a warm-up, so that neither the first ones nor the wait for
// the last ones count. One thread at a time.

#ifndef INVOKER_BENCH_RAW_TURN_METER_H_
#define INVOKER_BENCH_RAW_TURN_METER_H_

#include <cstdint>
#include <vector>

#include "bench/raw/round_trips.h"

namespace invoker::bench {

class TurnMeter {
 public:
  // What a process that was stopped needs to be warm again.
  static constexpr int64_t kWarmUpNs = 4'000'000;

  // The window is `turn_ns` long. `times_ns` gets how long each one took that completed in it;
  // nullptr: they are only counted.
  TurnMeter(int64_t turn_ns, std::vector<int64_t>* times_ns)
      : begin_ns_(ClockNs() + kWarmUpNs), end_ns_(begin_ns_ + turn_ns), times_ns_(times_ns) {}

  // Something that began at `started_ns` has just completed. False if the turn is over: start no
  // more.
  bool Complete(int64_t started_ns, int64_t now_ns) {
    if (now_ns >= end_ns_) return false;
    if (now_ns < begin_ns_) return true;
    ++count_;
    if (times_ns_ != nullptr) times_ns_->push_back(now_ns - started_ns);
    return true;
  }

  double PerSecond() const {
    return static_cast<double>(count_) * 1e9 / static_cast<double>(end_ns_ - begin_ns_);
  }

 private:
  int64_t begin_ns_;
  int64_t end_ns_;
  std::vector<int64_t>* times_ns_;
  uint64_t count_ = 0;
};

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_RAW_TURN_METER_H_
