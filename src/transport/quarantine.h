// Addresses of memory that is no longer used, and to which a peer's write may still come.
//
// A provider that copies looks at a write's key when its first bytes come, and then places what
// follows for as long as it comes: minutes later, if the writer was cut off or stops on purpose. So
// what peers could write to is not unmapped when its registration has ended. Its pages are given
// back and its addresses are kept, mapped, and given to nobody, until the endpoint has been closed.
// They stay accessible, because some of that copying is done by the process itself and not by the
// kernel. What a late write brings is discarded again.
//
// Costs addresses, and a kernel mapping for each run of adjacent ones, both of which have a limit.
// Driver thread only.

#ifndef INVOKER_SRC_TRANSPORT_QUARANTINE_H_
#define INVOKER_SRC_TRANSPORT_QUARANTINE_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "src/transport/memory_region.h"

namespace invoker::transport {

class Quarantine {
 public:
  // Full with so many bytes of addresses.
  explicit Quarantine(uint64_t most_bytes) : most_bytes_(most_bytes) {}
  // Unmaps everything: nothing may write to it any more.
  ~Quarantine();
  Quarantine(const Quarantine&) = delete;
  Quarantine& operator=(const Quarantine&) = delete;

  // Borrowed memory is left to its owner.
  void Take(HostBuffer buffer);

  // Gives back pages that late writes have filled since: of some ranges at each call, of all in
  // turn.
  void Discard();

  // Whoever makes memory that peers can write to makes no more now. What comes all the same is
  // taken.
  bool full() const { return bytes_ >= most_bytes_ || ranges_.size() >= kMostRanges; }

  uint64_t bytes() const { return bytes_; }
  // Runs of adjacent addresses.
  size_t ranges() const { return ranges_.size(); }

 private:
  // A process has 65530 mappings (vm.max_map_count) unless its host says otherwise.
  static constexpr size_t kMostRanges = 8192;

  const uint64_t most_bytes_;
  uint64_t bytes_ = 0;
  std::map<uintptr_t, uintptr_t> ranges_;  // begin to end; no two touch
  uintptr_t discarded_up_to_ = 0;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_QUARANTINE_H_
