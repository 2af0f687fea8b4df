// The clock of deadlines and waits.

#ifndef INVOKER_SRC_BASE_CLOCK_H_
#define INVOKER_SRC_BASE_CLOCK_H_

#include <cstdint>

namespace invoker::transport {

// CLOCK_MONOTONIC in nanoseconds. Any thread.
int64_t MonotonicNs();

}  // namespace invoker::transport

#endif  // INVOKER_SRC_BASE_CLOCK_H_
