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
// Driver thread only, but for what several quarantines hold together.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_QUARANTINE_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_QUARANTINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "src/transport/fabric/memory_region.h"

namespace invoker::transport {

// What the quarantines of one process hold together: its addresses and its mappings are one supply.
// A process that has none left cannot so much as allocate. Any thread.
class QuarantineTotal {
 public:
  // About half of the 128 TiB of addresses that a process has (47 bits), and of the 65530 mappings
  // (vm.max_map_count), about half: the rest is for whatever else the process does.
  static constexpr uint64_t kMostBytes = uint64_t{64} << 40;
  static constexpr size_t kMostRanges = 32768;

  explicit QuarantineTotal(uint64_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  bool full() const { return bytes() >= most_bytes_ || ranges() >= kMostRanges; }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  size_t ranges() const { return ranges_.load(std::memory_order_relaxed); }

 private:
  friend class Quarantine;

  const uint64_t most_bytes_;
  std::atomic<uint64_t> bytes_{0};
  std::atomic<size_t> ranges_{0};
};

class Quarantine {
 public:
  // Full with so many bytes of addresses. `total` counts them too; nullptr: nobody else does.
  explicit Quarantine(uint64_t most_bytes, std::shared_ptr<QuarantineTotal> total = nullptr)
      : most_bytes_(most_bytes), total_(std::move(total)) {}
  // Unmaps everything: nothing may write to it any more.
  ~Quarantine();
  Quarantine(const Quarantine&) = delete;
  Quarantine& operator=(const Quarantine&) = delete;

  // Borrowed memory is left to its owner.
  void Take(HostBuffer buffer);

  // Gives back pages that late writes have filled since: of 64 ranges and 16 GiB at each call, of
  // all in turn.
  void ReleasePages();

  // A caller that makes memory that peers can write to makes no more now, or says why not. What
  // comes all the same is taken.
  bool full() const { return bytes_ >= most_bytes_ || ranges_.size() >= kMostRanges; }
  // The same, of all together: another quarantine would have no room either.
  bool total_full() const { return total_ != nullptr && total_->full(); }
  // RESOURCE_EXHAUSTED if either is.
  absl::Status HasRoom() const;

  uint64_t bytes() const { return bytes_; }
  // Runs of adjacent addresses.
  size_t ranges() const { return ranges_.size(); }

 private:
  // A process has 65530 mappings (vm.max_map_count) unless its host says otherwise.
  static constexpr size_t kMostRanges = 8192;

  void Count(uint64_t bytes_before, size_t ranges_before);

  const uint64_t most_bytes_;
  const std::shared_ptr<QuarantineTotal> total_;
  uint64_t bytes_ = 0;
  std::map<uintptr_t, uintptr_t> ranges_;  // begin to end; no two touch
  uintptr_t released_up_to_ = 0;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_QUARANTINE_H_
