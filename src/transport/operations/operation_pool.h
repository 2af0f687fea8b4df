// The operations that a reactor may have outstanding: fixed slots, no allocation per operation.
// Driver thread only.
//
// A slot carries everything that a post needs, so that a post refused with -FI_EAGAIN can be made
// again later. It begins with the context memory that the provider owns while the operation is
// outstanding. A completion names its slot by that memory; FromContext refuses a pointer that is
// not of a live slot, and never follows it.
//
// An operation is retired when its owner goes. Some providers never complete an operation to a
// process that died, so one that was retired long ago is quarantined: the provider keeps its slot,
// which no longer counts, and another takes its place. Once it completes, its slot is used again.

#ifndef INVOKER_SRC_TRANSPORT_OPERATIONS_OPERATION_POOL_H_
#define INVOKER_SRC_TRANSPORT_OPERATIONS_OPERATION_POOL_H_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "src/transport/base/libfabric.h"
#include "src/transport/base/peer_use.h"

namespace invoker::transport {

struct Operation;

// Hears that an operation failed. Success is told of transfers only: after any other operation, the
// peer's answer arrives as a message.
class OperationOwner {
 public:
  virtual ~OperationOwner() = default;

  // On the driver thread, from inside Reactor::Poll, or from inside the call that posts if the post
  // fails at once. The slot is released after the return.
  virtual void OnOperationFailed(const Operation& operation, const absl::Status& status) = 0;

  // Something of this owner's has been posted since the call that was to post it: an operation's
  // second step, or what the provider had refused. On the driver thread, from inside Reactor::Poll.
  virtual void OnPostedLater() {}

  // A transfer (Reactor::PostTransfer) has succeeded: the bytes are where they should be. On the
  // driver thread, from inside Reactor::Poll; the slot is free already. Every transfer ends with
  // exactly one of these two calls, unless it is retired first.
  virtual void OnTransferDone(uint64_t tag) { static_cast<void>(tag); }
};

// A notified write, an addition to a counter, or a transfer, in the making. See Notifier.
struct alignas(64) Operation {
  // What is to be posted next. kDone: nothing more, whether all was posted or the operation has
  // failed.
  enum class Step : uint8_t { kFree, kWrite, kSend, kDone };

  // One for the write, one for the send: each must be alone while outstanding. First, and the
  // provider's.
  fi_context2 contexts[2];

  // What every operation uses, in one cache line.
  OperationOwner* owner = nullptr;  // nullptr once the owner has gone
  uint64_t tag = 0;                 // the owner's
  Operation* next = nullptr;        // in the free list or in the retry queue
  fi_addr_t peer = FI_ADDR_UNSPEC;
  const class Notifier* notifier = nullptr;
  // The first four are set together when the slot is taken.
  Step step = Step::kFree;
  uint8_t completions_due = 0;
  bool queued = false;  // in the retry queue
  bool failed = false;
  bool retired = false;
  bool quarantined = false;
  uint64_t length = 0;
  const void* source = nullptr;

  void* descriptor = nullptr;          // the source's
  std::byte* staging = nullptr;        // this slot's own memory, from which may be sent
  void* staging_descriptor = nullptr;  // that memory's
  size_t staging_bytes = 0;
  uint64_t token = 0;  // 32 bits but with immediates of 8 bytes
  uint64_t remote_address = 0;
  uint64_t remote_key = 0;
  uint64_t remote_offset = 0;  // in the peer's region
  uint32_t eager_bytes = 0;    // RemoteWindow's
  uint32_t piece_bytes = 0;    // the most that is written with immediate at once; 0: everything
  int64_t retry_deadline_ns = 0;
  int64_t retired_ns = 0;  // when the owner went, if `retired`
};

class OperationPool {
 public:
  // There are never more slots than this times those it begins with.
  static constexpr size_t kMostGrowth = 8;

  explicit OperationPool(size_t slots);

  // nullptr if every slot is taken.
  Operation* Acquire() {
    Operation* operation = free_;
    if (operation == nullptr) return nullptr;
    free_ = operation->next;
    operation->step = Operation::Step::kWrite;
    operation->completions_due = 0;
    operation->queued = false;
    operation->failed = false;
    ++outstanding_;
    return operation;
  }

  void Release(Operation* operation) {
    assert(operation->step != Operation::Step::kFree && !operation->queued);
    operation->step = Operation::Step::kFree;
    operation->owner = nullptr;
    if (operation->retired) return ReleaseRetired(operation);
    operation->next = free_;
    free_ = operation;
    --outstanding_;
  }

  // The slot that `context` lies in, or nullptr if it is of no live slot.
  Operation* FromContext(void* context) {
    Operation* operation = Find(blocks_[0], context);
    if (operation == nullptr && blocks_.size() > 1) operation = FindInAdded(context);
    const bool is_live = operation != nullptr && operation->step != Operation::Step::kFree &&
                         (context == &operation->contexts[0] || context == &operation->contexts[1]);
    return is_live ? operation : nullptr;
  }

  // Retires an owner's outstanding operations: they complete for nobody. Linear in the slots.
  void RetireAllOf(const OperationOwner* owner, int64_t now_ns);

  // Retires one outstanding operation.
  void Retire(Operation* operation, int64_t now_ns);

  // Quarantines operations that only the provider holds, and that were retired at `limit_ns` or
  // before. Linear in the slots, if any is retired.
  void QuarantineRetired(int64_t limit_ns);

  // How many slots Add should be asked for: enough to replace quarantined ones, within kMostGrowth;
  // 0 if none is missing.
  size_t slots_to_add() const;

  // How many completions quarantined operations are due. Linear in the slots, if there are any.
  size_t quarantined_completions() const;

  // Adds that many slots, free, and returns them so that the caller can give them memory.
  absl::Span<Operation> Add(size_t count);

  // Memory that an operation sends from, or where it puts what it reads.
  struct Source {
    const std::byte* begin = nullptr;
    uint64_t bytes = 0;
  };
  // That of operations that may still complete, by address. Linear in the slots, if there are any.
  std::vector<Source> Sources() const;

  // Calls `visit` with each operation of this owner's. Linear in the slots.
  void ForEachOf(const OperationOwner* owner,
                 absl::FunctionRef<void(const Operation&)> visit) const;

  // To which peers operations are outstanding. Linear in the slots, if any are.
  PeerUses Uses() const;

  // Taken by operations that may still complete.
  size_t outstanding() const { return outstanding_; }
  // Taken or free: what may be outstanding at a time.
  size_t capacity() const { return capacity_; }
  size_t quarantined() const { return quarantined_; }

  // The slots that it began with, so that the caller can give them memory.
  absl::Span<Operation> slots() { return absl::MakeSpan(blocks_[0].slots.get(), blocks_[0].count); }

 private:
  struct Block {
    std::unique_ptr<Operation[]> slots;
    size_t count;
  };

  // The slot whose memory `context` points into.
  static Operation* Find(const Block& block, const void* context) {
    const uintptr_t offset =
        reinterpret_cast<uintptr_t>(context) - reinterpret_cast<uintptr_t>(block.slots.get());
    // What lies before the block wraps to far behind it.
    const size_t index = offset / sizeof(Operation);
    return index < block.count ? &block.slots[index] : nullptr;
  }

  // Calls `visit` with the operation of every slot that is taken.
  template <typename Visit>
  void ForEachTaken(const Visit& visit) const {
    if (outstanding_ + quarantined_ == 0) return;
    for (const Block& block : blocks_) {
      for (size_t i = 0; i < block.count; ++i) {
        if (block.slots[i].step != Operation::Step::kFree) visit(block.slots[i]);
      }
    }
  }
  Operation* FindInAdded(const void* context) const;
  void ReleaseRetired(Operation* operation);
  void UseSpare();

  std::vector<Block> blocks_;
  Operation* free_ = nullptr;
  Operation* spare_ = nullptr;  // free, beyond the slots that may be outstanding
  size_t total_;
  size_t capacity_;
  size_t outstanding_ = 0;
  size_t retired_ = 0;  // among those outstanding
  size_t quarantined_ = 0;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_OPERATIONS_OPERATION_POOL_H_
