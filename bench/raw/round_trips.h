// The loop that times round trips: the same for every contender. One clock reading per trip; the
// end of one is the beginning of the next.

#ifndef INVOKER_BENCH_RAW_ROUND_TRIPS_H_
#define INVOKER_BENCH_RAW_ROUND_TRIPS_H_

#include <time.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace invoker::bench {

// Trips before the first that is timed: the other side has to wake up or to be scheduled, and
// caches to fill.
inline constexpr int kSettlingTrips = 8;

inline int64_t ClockNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

// `trip()` makes one round trip and returns an absl::Status. It is called kSettlingTrips times, and
// then once for each of `times_ns`.
template <typename Trip>
absl::Status TimeTrips(absl::Span<int64_t> times_ns, Trip&& trip) {
  for (int i = 0; i < kSettlingTrips; ++i) {
    if (absl::Status status = trip(); !status.ok()) return status;
  }
  int64_t begin = ClockNs();
  for (int64_t& time_ns : times_ns) {
    if (absl::Status status = trip(); !status.ok()) return status;
    const int64_t end = ClockNs();
    time_ns = end - begin;
    begin = end;
  }
  return absl::OkStatus();
}

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_RAW_ROUND_TRIPS_H_
