// Measures several contenders in turns, so that whatever else the machine does falls on all of them
// alike.

#ifndef INVOKER_BENCH_HARNESS_INTERLEAVE_H_
#define INVOKER_BENCH_HARNESS_INTERLEAVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "bench/harness/distribution.h"

namespace invoker::bench {

// Something that makes round trips. One thread.
class Contender {
 public:
  virtual ~Contender() = default;

  virtual const std::string& name() const = 0;

  // Its turn begins or ends. Between turns its other side must leave its core alone: a process that
  // busy-polls is stopped (ServerProcess::Pause) or blocks.
  virtual absl::Status Begin() = 0;
  virtual void End() = 0;

  // `times_ns.size()` round trips of `bytes`, one after the other, each timed. An error ends the
  // benchmark, so it says what it was about.
  virtual absl::Status Burst(size_t bytes, absl::Span<int64_t> times_ns) = 0;
};

struct Measured {
  const Contender* contender = nullptr;
  size_t bytes = 0;
  Rounds rounds;
};

struct InterleavePlan {
  std::vector<size_t> sizes;
  int rounds = 20;
  // Round trips in a turn: as many as take about this long, between the two bounds.
  int64_t turn_ns = 20'000'000;
  int least = 50;
  int most = 2000;
};

// One warm-up round that is thrown away but for how long a round trip takes, then `rounds` rounds.
// In each, for each size, the contenders take turns, beginning with another one every round. A turn
// is Begin, a short burst that is thrown away, the burst that counts, End; End also where a burst
// fails. Results by size, then by contender.
absl::StatusOr<std::vector<Measured>> Interleave(absl::Span<Contender* const> contenders,
                                                 const InterleavePlan& plan);

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_HARNESS_INTERLEAVE_H_
