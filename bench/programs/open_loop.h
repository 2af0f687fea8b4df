// An open loop: calls start when a schedule says so, whether or not earlier ones have ended, and
// each call's latency counts from when it was to start. A system that falls behind therefore shows
// it: no call is left out because the one before it was slow. One client thread.

#ifndef INVOKER_BENCH_PROGRAMS_OPEN_LOOP_H_
#define INVOKER_BENCH_PROGRAMS_OPEN_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bench/programs/throughput.h"

namespace invoker::bench {

// Intended starts in nanoseconds from the beginning of a turn of `turn_ns`, in order. `poisson`:
// gaps are exponentially distributed, and the same for the same seed; else all are equal.
std::vector<int64_t> MakeSchedule(double calls_per_s, bool poisson, uint64_t seed, int64_t turn_ns);

struct OpenLoopResult {
  uint64_t completed = 0;
  // From the beginning to the last completion, but at least the turn.
  int64_t ns = 0;
};

// Makes the calls of the schedule, by turns on the callers, `bytes` there and back. `times_ns` gets
// each one's time from its intended start to when its result was taken. A system that does not keep
// up is given twice the turn: what has not been started by then is left out.
absl::StatusOr<OpenLoopResult> RunOpenLoop(absl::Span<const Caller> callers, size_t bytes,
                                           absl::Span<const int64_t> schedule, int64_t turn_ns,
                                           std::vector<int64_t>* times_ns);

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_PROGRAMS_OPEN_LOOP_H_
