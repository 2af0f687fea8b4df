// The time of waits, as a duration.

#ifndef INVOKER_SRC_LAUNCH_MONOTONIC_H_
#define INVOKER_SRC_LAUNCH_MONOTONIC_H_

#include "absl/time/time.h"
#include "src/base/clock.h"

namespace invoker::launch {

// Since a moment that does not change while the machine runs.
inline absl::Duration MonotonicNow() { return absl::Nanoseconds(transport::MonotonicNs()); }

}  // namespace invoker::launch

#endif  // INVOKER_SRC_LAUNCH_MONOTONIC_H_
