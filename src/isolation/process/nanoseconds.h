// Durations as messages carry them: whole nanoseconds, INT64_MAX for infinite. And a clock for
// them.

#ifndef INVOKER_SRC_ISOLATION_PROCESS_NANOSECONDS_H_
#define INVOKER_SRC_ISOLATION_PROCESS_NANOSECONDS_H_

#include <cstdint>

#include "absl/time/time.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

inline int64_t ToNanoseconds(absl::Duration duration) {
  return duration == absl::InfiniteDuration() ? INT64_MAX : absl::ToInt64Nanoseconds(duration);
}

inline absl::Duration FromNanoseconds(int64_t ns) {
  return ns == INT64_MAX ? absl::InfiniteDuration() : absl::Nanoseconds(ns);
}

// For deadlines: not the time of day, which may be set.
inline absl::Time MonotonicNow() {
  return absl::UnixEpoch() + absl::Nanoseconds(transport::MonotonicNs());
}

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_PROCESS_NANOSECONDS_H_
