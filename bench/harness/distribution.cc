#include "bench/harness/distribution.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace invoker::bench {
namespace {

constexpr double kNsPerUs = 1000.0;

std::vector<int64_t> Sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

int64_t Percentile(const std::vector<int64_t>& sorted, double percent) {
  // In thousandths of a percent, which are whole: 99.9 % of 2000 is 1998, and not a little more.
  const uint64_t share =
      static_cast<uint64_t>(std::llround(std::clamp(percent, 0.0, 100.0) * 1000));
  const uint64_t rank = (share * sorted.size() + 99'999) / 100'000;
  return sorted[rank == 0 ? 0 : rank - 1];
}

Distribution Summarize(const Rounds& rounds) {
  Distribution result;
  std::vector<int64_t> all;
  for (const std::vector<int64_t>& round : rounds) {
    if (round.empty()) continue;
    const double median = static_cast<double>(Percentile(Sorted(round), 50)) / kNsPerUs;
    result.lowest_round = all.empty() ? median : std::min(result.lowest_round, median);
    result.highest_round = all.empty() ? median : std::max(result.highest_round, median);
    all.insert(all.end(), round.begin(), round.end());
  }
  if (all.empty()) return result;
  std::sort(all.begin(), all.end());
  const auto us = [&all](double percent) {
    return static_cast<double>(Percentile(all, percent)) / kNsPerUs;
  };
  result.samples = all.size();
  result.min = us(0);
  result.p50 = us(50);
  result.p90 = us(90);
  result.p99 = us(99);
  result.p999 = us(99.9);
  result.max = us(100);
  return result;
}

Ratio Compare(const Rounds& subject, const Rounds& baseline, double percent) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(subject.size(), baseline.size()); ++i) {
    if (subject[i].empty() || baseline[i].empty()) continue;
    const int64_t below = Percentile(Sorted(baseline[i]), percent);
    if (below <= 0) continue;
    ratios.push_back(static_cast<double>(Percentile(Sorted(subject[i]), percent)) /
                     static_cast<double>(below));
  }
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  const size_t half = ratios.size() / 2;
  const double median =
      ratios.size() % 2 == 1 ? ratios[half] : (ratios[half - 1] + ratios[half]) / 2;
  return {median, ratios.front(), ratios.back()};
}

}  // namespace invoker::bench
