// 64-bit counters that peers add to, each addition exactly once.
//
// The owner opens a CounterArray and tells its peers the descriptor; a peer turns that into a
// RemoteCounters and posts additions with Reactor::PostAtomicAdd. The owner's reactor must be
// polled: additions may only take effect then. Counters wrap at 2^64.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_REMOTE_COUNTER_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_REMOTE_COUNTER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "src/transport/fabric/memory_region.h"
#include "src/transport/fabric/region_table.h"
#include "src/transport/fabric/remote_window.h"
#include "src/transport/operations/atomic_add.h"

namespace invoker::transport {

class Reactor;

inline constexpr size_t kCounterBytes = sizeof(uint64_t);

// What a peer needs to add to an array of counters. As secret as any memory key.
struct CounterDescriptor {
  AddMethod method = AddMethod::kMessage;
  uint64_t base = 0;  // what offsets are added to, for kNative
  uint64_t key = 0;
  uint32_t counters = 0;
};

// A peer's counters, seen from here.
struct RemoteCounters {
  fi_addr_t peer = FI_ADDR_UNSPEC;
  CounterDescriptor descriptor;

  bool Contains(uint32_t index) const { return index < descriptor.counters; }
};

class CounterArray {
 public:
  // `counters` of them, at least 1, all zero. By the fabric's atomics where the reactor has them,
  // else by messages. `reactor` outlives the array. Driver thread.
  static absl::StatusOr<CounterArray> Open(Reactor* reactor, uint32_t counters);

  // The same with the method given; FAILED_PRECONDITION for kNative where the fabric has none.
  static absl::StatusOr<CounterArray> Open(Reactor* reactor, uint32_t counters, AddMethod method);

  // No longer added to; what is under way is lost. Driver thread.
  ~CounterArray();
  CounterArray(CounterArray&&) noexcept = default;
  CounterArray& operator=(CounterArray&&) = delete;

  const CounterDescriptor& descriptor() const { return descriptor_; }

  // `index` < descriptor().counters. Any thread.
  uint64_t Read(uint32_t index) const;

 private:
  CounterArray(Reactor* reactor, const CounterDescriptor& descriptor)
      : reactor_(reactor), descriptor_(descriptor) {}

  Reactor* reactor_;
  CounterDescriptor descriptor_;
  MemoryRegion region_;    // kNative
  HostBuffer memory_;      // kMessage: no peer can reach it but through the reactor
  RegionListing listing_;  // lists memory_
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_REMOTE_COUNTER_H_
