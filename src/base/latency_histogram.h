// How often something took how long: counts in buckets, two for each time that a duration doubles.

#ifndef INVOKER_SRC_BASE_LATENCY_HISTOGRAM_H_
#define INVOKER_SRC_BASE_LATENCY_HISTOGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace invoker {

// The buckets end at 256 ns, 384 ns, 512 ns, 768 ns and so on up to 103 s; the last one has no
// end. A bucket contains its end.
class LatencyBuckets {
 public:
  static constexpr size_t kCount = 59;

  static constexpr size_t Of(uint64_t ns) {
    if (ns <= kFirstEndNs) return 0;
    const int exponent = 63 - __builtin_clzll(ns - 1);
    const size_t half = ((ns - 1) >> (exponent - 1)) & 1;
    const size_t bucket = 2 * static_cast<size_t>(exponent - kFirstExponent) + half + 1;
    return bucket < kCount ? bucket : kCount - 1;
  }
  // Not the last bucket's, which has none.
  static constexpr uint64_t EndNs(size_t bucket) {
    return (bucket % 2 == 0 ? kFirstEndNs : kFirstEndNs + kFirstEndNs / 2) << (bucket / 2);
  }

 private:
  static constexpr int kFirstExponent = 8;
  static constexpr uint64_t kFirstEndNs = uint64_t{1} << kFirstExponent;
};

// A reading. A value.
struct LatencyHistogram {
  std::array<uint64_t, LatencyBuckets::kCount> counts = {};
  uint64_t sum_ns = 0;

  void Add(const LatencyHistogram& other) {
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
    sum_ns += other.sum_ns;
  }
  uint64_t total() const {
    uint64_t sum = 0;
    for (const uint64_t count : counts) sum += count;
    return sum;
  }
};

}  // namespace invoker

#endif  // INVOKER_SRC_BASE_LATENCY_HISTOGRAM_H_
