#include "src/bootstrap/messages/usage_sum.h"

#include <algorithm>
#include <limits>

namespace invoker {

uint64_t SaturatingSum(uint64_t a, uint64_t b) {
  return a + std::min(b, std::numeric_limits<uint64_t>::max() - a);
}

void AddUsage(const ResourceUsage& from, ResourceUsage* to) {
  to->lease_time += from.lease_time;
  to->cpu_time += from.cpu_time;
  to->memory_byte_seconds = SaturatingSum(to->memory_byte_seconds, from.memory_byte_seconds);
  to->calls = SaturatingSum(to->calls, from.calls);
  to->function_time += from.function_time;
  to->polling_time += from.polling_time;
  to->bytes_in = SaturatingSum(to->bytes_in, from.bytes_in);
  to->bytes_out = SaturatingSum(to->bytes_out, from.bytes_out);
}

}  // namespace invoker
