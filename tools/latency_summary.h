// Minimum, percentiles and maximum of a set of latencies.

#ifndef INVOKER_TOOLS_LATENCY_SUMMARY_H_
#define INVOKER_TOOLS_LATENCY_SUMMARY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace invoker::tools {

struct LatencySummary {
  double min_us = 0;
  double p50_us = 0;
  double p99_us = 0;
  double max_us = 0;
};

// Percentiles by nearest rank: each is a latency that really occurred. Sorts them; all zeros if
// there are none.
inline LatencySummary Summarize(std::vector<int64_t>* latencies_ns) {
  if (latencies_ns->empty()) return {};
  std::sort(latencies_ns->begin(), latencies_ns->end());
  const size_t count = latencies_ns->size();
  const auto rank_us = [&](size_t percent) {
    const size_t rank = (count * percent + 99) / 100;
    return static_cast<double>((*latencies_ns)[std::max<size_t>(rank, 1) - 1]) / 1e3;
  };
  return {rank_us(0), rank_us(50), rank_us(99), rank_us(100)};
}

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_LATENCY_SUMMARY_H_
