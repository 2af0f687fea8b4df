// Memory that is mapped side by side.
//
// What peers can write to keeps its addresses when it goes (Quarantine), so that nothing may be
// left between two pieces of it: a gap is the end of a kernel mapping, of which a process has few,
// and what is mapped next does not always fit. The kernel itself fills places as it finds them. So
// each piece is mapped just below the one before, in blocks of addresses that this process's runs
// share out among them, far from what everything else maps.
//
// Any thread.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_ADDRESS_RUN_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_ADDRESS_RUN_H_

#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "src/transport/fabric/memory_region.h"

namespace invoker::transport {

class AddressRun {
 public:
  AddressRun() = default;
  AddressRun(const AddressRun&) = delete;
  AddressRun& operator=(const AddressRun&) = delete;

  // Like HostBuffer::Allocate. Next to what came before, unless its block ends there or somebody
  // else has that place: then the run goes on in another block, or, where no place that is wished
  // for is granted, wherever the kernel puts each piece. The place of a piece that has been
  // unmapped is used again if nothing has been mapped after it.
  absl::StatusOr<HostBuffer> Allocate(size_t size) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Pieces of whole large pages, and smaller ones, would leave gaps between each other.
  struct Run {
    uintptr_t last_end = 0;  // the last piece's
    uintptr_t lowest = 0;    // where that begins
    uintptr_t block = 0;     // where the block begins, below which nothing is its
  };

  // What became of a wish for a place.
  enum class Place : uint8_t { kGranted, kTaken, kRefused };
  static Place MapBelow(uintptr_t end, size_t mapped, void** at);

  absl::Mutex mutex_;
  Run large_ ABSL_GUARDED_BY(mutex_);
  Run small_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_ADDRESS_RUN_H_
