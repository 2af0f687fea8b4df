// The doorbells of one session that wait for its turn, in the order in which they came. At most one
// of each kind and cell: a second one says nothing new, since a message is read when its turn
// comes. So there is room for all that there can be, and forged doorbells take no room from real
// ones.
//
// The executor's watch shows how many wait.
//
// Executor thread only. Allocates nothing after its making; memory is touched as far as there has
// been a backlog.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_DOORBELL_QUEUE_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_DOORBELL_QUEUE_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "src/invoke/executor/executor_watch.h"
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

  // For a window of so many cells, a power of two up to 16384. `watch` outlives the queue.
  // RESOURCE_EXHAUSTED if there is no memory.
  static absl::StatusOr<DoorbellQueue> Allocate(uint32_t cells, ExecutorWatch* watch);

  bool empty() const { return count_.value() == 0; }
  uint32_t size() const { return count_.value(); }

  // Behind all others. The cell lies in the window.
  void Push(const Doorbell& doorbell);
  // Before all others: the rest of the doorbell that was taken last.
  void PushFront(const Doorbell& doorbell);
  // The first. Not of an empty queue.
  Doorbell Pop();

 private:
  // How many wait, of which the watch is told.
  class Count {
   public:
    explicit Count(ExecutorWatch* watch) : watch_(watch) {}
    Count(Count&& other) noexcept : watch_(other.watch_), value_(std::exchange(other.value_, 0)) {}
    ~Count() { watch_->RemoveQueued(value_); }

    uint32_t value() const { return value_; }
    void Increment() {
      ++value_;
      watch_->AddQueued(1);
    }
    void Decrement() {
      --value_;
      watch_->RemoveQueued(1);
    }

   private:
    ExecutorWatch* watch_;
    uint32_t value_ = 0;
  };

  DoorbellQueue(transport::HostBuffer memory, uint32_t cells, ExecutorWatch* watch)
      : memory_(std::move(memory)), mask_(2 * cells - 1), count_(watch) {}

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
  Count count_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_DOORBELL_QUEUE_H_
