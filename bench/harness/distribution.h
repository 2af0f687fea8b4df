// What a set of measured times is summed up to. Values, no threads.

#ifndef INVOKER_BENCH_HARNESS_DISTRIBUTION_H_
#define INVOKER_BENCH_HARNESS_DISTRIBUTION_H_

#include <cstdint>
#include <vector>

namespace invoker::bench {

// Nanoseconds, one vector for each round.
using Rounds = std::vector<std::vector<int64_t>>;

// In microseconds. Percentiles by nearest rank over all rounds together, so that each is a time
// that really occurred.
struct Distribution {
  uint64_t samples = 0;
  double min = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double p999 = 0;
  double max = 0;
  // The rounds' own medians: how far apart the rounds were.
  double lowest_round = 0;
  double highest_round = 0;
};

// All zeros if there are no samples.
Distribution Summarize(const Rounds& rounds);

// The nearest-rank percentile (0 to 100) of `sorted`, which must not be empty.
int64_t Percentile(const std::vector<int64_t>& sorted, double percent);

// Subject over baseline, round by round: the rounds are interleaved, so that what else the machine
// did in a round fell on both. `percent` as in Percentile, of each round's own samples.
struct Ratio {
  double median = 0;  // the rounds' ratios'
  double lowest = 0;
  double highest = 0;
};
Ratio Compare(const Rounds& subject, const Rounds& baseline, double percent);

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_HARNESS_DISTRIBUTION_H_
