// Cores and memory that leases take, and the line of those for whom there is no room yet.
//
// First come, first served: nobody gets anything while somebody who asked before waits, even if it
// would fit. So a large lease is not starved by small ones. The line has an end, so that a client
// that asks without end costs neither memory nor time. Pure data; one thread at a time.

#ifndef INVOKER_SRC_LEASE_CAPACITY_H_
#define INVOKER_SRC_LEASE_CAPACITY_H_

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

namespace invoker {

struct Resources {
  uint32_t cores = 0;
  uint64_t memory_bytes = 0;
};

// "2 cores and 1073741824 bytes of memory".
std::string Describe(const Resources& resources);

// Each in line is a stream that is held open.
inline constexpr uint32_t kDefaultMaxWaiting = 1024;

class LeaseCapacity {
 public:
  // At most `max_waiting` stand in line.
  explicit LeaseCapacity(const Resources& total, uint32_t max_waiting = kDefaultMaxWaiting)
      : total_(total), max_waiting_(max_waiting), free_(total) {}

  // INVALID_ARGUMENT if `wanted` would not fit even if nobody else had anything.
  absl::Status CheckPossible(const Resources& wanted) const;

  // True if `lease` has `wanted` from now on; false, and nothing has happened, if it would have to
  // wait.
  bool TryTake(uint64_t lease, const Resources& wanted);

  // To the end of the line. `wanted` must be possible. RESOURCE_EXHAUSTED if the line is full.
  absl::Status Enqueue(uint64_t lease, const Resources& wanted);

  // Gives back what the lease has, or takes it out of the line. Others may be admitted then.
  void Leave(uint64_t lease);

  // Those at the front of the line who fit now: they leave it, and have what they wanted.
  std::vector<uint64_t> Admit();

  // In line, the first one first.
  std::vector<uint64_t> Waiting() const;
  uint32_t waiting() const { return static_cast<uint32_t>(line_.size()); }

  const Resources& total() const { return total_; }
  const Resources& free() const { return free_; }

 private:
  bool Fits(const Resources& wanted) const;
  void Take(uint64_t lease, const Resources& wanted);

  const Resources total_;
  const uint32_t max_waiting_;
  Resources free_;
  absl::flat_hash_map<uint64_t, Resources> taken_;  // by lease
  std::deque<std::pair<uint64_t, Resources>> line_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_LEASE_CAPACITY_H_
