// FaultCounts and OpenObjects (faulty_fabric.h) as they grow, perhaps in a file that another
// process reads.

#ifndef INVOKER_TESTS_FAULTS_LIVE_COUNTS_H_
#define INVOKER_TESTS_FAULTS_LIVE_COUNTS_H_

#include <atomic>
#include <cstdint>

namespace invoker::faults {

// Names the file that holds the LiveCounts; see faulty_fabric.h.
inline constexpr char kCountsVariable[] = "INVOKER_FAULT_COUNTS";

struct LiveCounts {
  std::atomic<uint64_t> posts{0}, again{0}, late{0}, post_fails{0}, completion_fails{0},
      completions_lost{0}, notifications_lost{0}, registration_fails{0}, insert_fails{0},
      open_fails{0}, map_fails{0};
  std::atomic<int64_t> endpoints{0}, queues{0}, vectors{0}, regions{0}, addresses{0};
};

}  // namespace invoker::faults

#endif  // INVOKER_TESTS_FAULTS_LIVE_COUNTS_H_
