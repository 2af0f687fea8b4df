#include "src/accounting/usage_row.h"

#include <algorithm>

namespace invoker {
namespace {

// What a duration holds at most; a counter that somebody added nonsense to is no more than that.
int64_t Clamp(uint64_t value) { return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX)); }

uint64_t Micros(absl::Duration time) {
  return static_cast<uint64_t>(absl::ToInt64Microseconds(time));
}
uint64_t Nanos(absl::Duration time) {
  return static_cast<uint64_t>(absl::ToInt64Nanoseconds(time));
}

}  // namespace

UsageRow ToRow(const ResourceUsage& usage) {
  return {Micros(usage.lease_time),
          Micros(usage.cpu_time),
          usage.memory_byte_seconds,
          usage.calls,
          Nanos(usage.function_time),
          Nanos(usage.polling_time),
          usage.bytes_in,
          usage.bytes_out};
}

ResourceUsage FromRow(const UsageRow& row) {
  ResourceUsage usage;
  usage.lease_time = absl::Microseconds(Clamp(row[0]));
  usage.cpu_time = absl::Microseconds(Clamp(row[1]));
  usage.memory_byte_seconds = row[2];
  usage.calls = row[3];
  usage.function_time = absl::Nanoseconds(Clamp(row[4]));
  usage.polling_time = absl::Nanoseconds(Clamp(row[5]));
  usage.bytes_in = row[6];
  usage.bytes_out = row[7];
  return usage;
}

}  // namespace invoker
