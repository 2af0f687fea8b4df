// The operation pool with each slot's registered memory, and its growth while the provider keeps
// slots of owners that have gone. Driver thread only.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_OPERATION_SLOTS_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_OPERATION_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/transport/fabric/memory_region.h"
#include "src/transport/operations/operation_pool.h"

namespace invoker::transport {

class OperationSlots {
 public:
  // Registers memory to send from.
  using RegisterFunction = absl::FunctionRef<absl::StatusOr<MemoryRegion>(HostBuffer)>;

  // A slot whose owner retired `quarantine_after` ago, and that has not completed, is quarantined.
  OperationSlots(size_t slots, size_t eager_bytes, absl::Duration quarantine_after);

  // Gives every slot its memory. Before everything else.
  absl::Status Open(RegisterFunction register_memory);

  OperationPool& pool() { return pool_; }
  const OperationPool& pool() const { return pool_; }

  // At every tick: quarantines what is due, and replaces it. RESOURCE_EXHAUSTED once the provider
  // keeps every slot.
  absl::Status Replace(int64_t now_ns, RegisterFunction register_memory);

  // One byte of registered memory that no slot uses.
  std::byte* spare_byte() const { return staging_.front().data() + staging_.front().size() - 1; }
  void* spare_descriptor() const { return staging_.front().descriptor(); }

 private:
  absl::Status AddStaging(size_t slots, RegisterFunction register_memory);
  void UseStaging(absl::Span<Operation> slots);

  OperationPool pool_;
  const size_t stride_;                // bytes of one slot's memory
  std::vector<MemoryRegion> staging_;  // one for each time that slots were added
  const int64_t quarantine_after_ns_;
  int64_t next_quarantine_ns_ = 0;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_OPERATION_SLOTS_H_
