// What the book is told of a lease, out of what is counted elsewhere.

#ifndef INVOKER_SRC_LEASE_USAGE_READING_H_
#define INVOKER_SRC_LEASE_USAGE_READING_H_

#include "absl/time/time.h"
#include "src/accounting/usage_book.h"

namespace invoker {

// Counts: ExecutorUsage or ResourceUsage, which name the same things alike.
template <typename Counts>
UsageReading ReadingOf(const Counts& counts, absl::Duration cpu_time) {
  UsageReading reading;
  reading.cpu_time = cpu_time;
  reading.calls = counts.calls;
  reading.function_time = counts.function_time;
  reading.polling_time = counts.polling_time;
  reading.bytes_in = counts.bytes_in;
  reading.bytes_out = counts.bytes_out;
  return reading;
}

}  // namespace invoker

#endif  // INVOKER_SRC_LEASE_USAGE_READING_H_
