// The doorbells of one session that wait for its turn, in the order in which they came. At most one
// of each kind and cell: a second one says nothing new, since a message is read when its turn
// comes. So there is room for all that there can be, and forged doorbells take no room from real
// ones.
//
// Executor thread only. Allocates nothing after its making; memory is touched as far as there has
// been a backlog.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_DOORBELL_QUEUE_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_DOORBELL_QUEUE_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "src/invoke/wire/wire.h"
#include "src/transport/fabric/memory_region.h"

namespace invoker {

class DoorbellQueue {
 public:
  struct Doorbell {
    MessageKind kind = MessageKind::kRequest;  // or kProbe
    uint32_t cell = 0;
    int64_t arrived_ns = 0;  // to the microsecond
  };

  // For a window of so many cells, a power of two up to 16384. RESOURCE_EXHAUSTED if there is no
  // memory.
  static absl::StatusOr<DoorbellQueue> Allocate(uint32_t cells);

  bool empty() const { return count_ == 0; }
  uint32_t size() const { return count_; }

  // Behind all others. The cell lies in the window.
  void Push(const Doorbell& doorbell);
  // Before all others: the rest of the doorbell that was taken last.
  void PushFront(const Doorbell& doorbell);
  // The first. Not of an empty queue.
  Doorbell Pop();

 private:
  DoorbellQueue(transport::HostBuffer memory, uint32_t cells)
      : memory_(std::move(memory)), mask_(2 * cells - 1) {}

  // In memory: the microsecond of the arrival, and the place of kind and cell.
  static constexpr uint32_t kPlaceBits = 15;
  static constexpr uint32_t kProbePlace = 1u << (kPlaceBits - 1);
  static uint64_t Pack(const Doorbell& doorbell);

  uint64_t& Entry(uint32_t index) const {
    return reinterpret_cast<uint64_t*>(memory_.data())[index & mask_];
  }
  // Whether it waits: one bit for each place, behind the entries.
  uint64_t& Word(uint64_t place) const;
  // False if it has been marked already.
  bool Mark(uint64_t entry);

  transport::HostBuffer memory_;  // zeros at first
  uint32_t mask_;                 // entries - 1
  uint32_t first_ = 0;
  uint32_t count_ = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_DOORBELL_QUEUE_H_
