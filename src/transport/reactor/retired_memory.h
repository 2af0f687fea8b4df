// Memory that is no longer used, and that peers may still write to, or a provider may still read.
// Driver thread only.
//
// A retired region gives back its pages at once, and keeps its registration for a while, so that
// what is under way ends well: on some fabrics a write to a closed region costs the connection, and
// on others it leaves the operation outstanding for ever. Pages that an outstanding operation sends
// from, and their registration, stay for as long as it is outstanding: a peer that was stopped goes
// on with it hours later, and is sent what is there then. The same holds for memory that an
// operation reads into. Afterwards the addresses that peers could write to go to the Quarantine.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_RETIRED_MEMORY_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_RETIRED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "src/transport/fabric/memory_region.h"
#include "src/transport/operations/operation_pool.h"
#include "src/transport/reactor/quarantine.h"

namespace invoker::transport {

class RetiredMemory {
 public:
  // `retirement`: how long a registration stays. The others are the Quarantine's.
  RetiredMemory(absl::Duration retirement, uint64_t quarantine_bytes,
                std::shared_ptr<QuarantineTotal> total)
      : retirement_ns_(absl::ToInt64Nanoseconds(retirement)),
        quarantine_(quarantine_bytes, std::move(total)) {}
  // Close the endpoint first, or call CloseRegions.
  ~RetiredMemory() { CloseRegions(); }

  // Drops `share` with the registration, or once only an outstanding operation keeps that.
  void Retire(MemoryRegion region, std::shared_ptr<const void> share,
              const OperationPool& operations, int64_t now_ns);

  // At every tick: releases what is due and in no outstanding operation.
  void ReleaseDue(int64_t now_ns, const OperationPool& operations);

  // From now on, nothing is released before CloseRegions.
  void Keep() { keep_ = true; }
  void DropShares();
  // Ends all registrations. The memory stays until the destructor.
  void CloseRegions();

  // Whether a registration stands because its region was retired lately.
  bool has_recent() const { return retired_.size() > in_use_; }
  // Regions that stay because of outstanding operations.
  size_t in_use() const { return in_use_; }
  const Quarantine& quarantine() const { return quarantine_; }

 private:
  struct Retired {
    MemoryRegion region;
    std::shared_ptr<const void> share;
    bool in_use = false;
  };

  const int64_t retirement_ns_;
  Quarantine quarantine_;
  std::multimap<int64_t, Retired> retired_;  // by when to look at it
  size_t in_use_ = 0;
  std::vector<HostBuffer> closed_;
  bool keep_ = false;
  int64_t next_release_pages_ns_ = 0;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_RETIRED_MEMORY_H_
