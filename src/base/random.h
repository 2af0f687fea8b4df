// Numbers that nobody can guess: keys of memory, ids of leases, nonces.

#ifndef INVOKER_SRC_BASE_RANDOM_H_
#define INVOKER_SRC_BASE_RANDOM_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace invoker::transport {

// From the kernel (getrandom). At most 256 bytes. INTERNAL if it refuses. Any thread; blocks only
// before the machine has gathered its first randomness.
absl::Status FillRandom(absl::Span<std::byte> bytes);
absl::StatusOr<uint64_t> DrawRandom();

}  // namespace invoker::transport

#endif  // INVOKER_SRC_BASE_RANDOM_H_
