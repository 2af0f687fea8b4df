#include "src/transport/operation_pool.h"

#include <algorithm>

namespace invoker::transport {
namespace {

void Push(Operation* operation, Operation** list) {
  operation->next = *list;
  *list = operation;
}

Operation* Pop(Operation** list) {
  Operation* operation = *list;
  *list = operation->next;
  operation->next = nullptr;
  return operation;
}

}  // namespace

OperationPool::OperationPool(size_t slots) : total_(slots), capacity_(slots) {
  blocks_.push_back({std::unique_ptr<Operation[]>(new Operation[slots]), slots});
  for (size_t i = slots; i-- > 0;) Push(&blocks_[0].slots[i], &free_);
}

Operation* OperationPool::Acquire() {
  if (free_ == nullptr) return nullptr;
  Operation* operation = Pop(&free_);
  operation->step = Operation::Step::kWrite;
  operation->completions_due = 0;
  operation->queued = false;
  operation->failed = false;
  ++outstanding_;
  return operation;
}

void OperationPool::Release(Operation* operation) {
  operation->step = Operation::Step::kFree;
  operation->owner = nullptr;
  if (operation->written_off) {
    operation->written_off = false;
    operation->abandoned = false;
    --written_off_;
    Push(operation, &spare_);
    UseSpare();
    return;
  }
  if (operation->abandoned) {
    operation->abandoned = false;
    --abandoned_;
  }
  Push(operation, &free_);
  --outstanding_;
}

Operation* OperationPool::FromContext(void* context) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(context);
  for (const Block& block : blocks_) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(block.slots.get());
    if (address < begin) continue;
    const size_t index = (address - begin) / sizeof(Operation);
    if (index >= block.count) continue;
    Operation* operation = &block.slots[index];
    const bool is_context =
        context == &operation->contexts[0] || context == &operation->contexts[1];
    if (!is_context || operation->step == Operation::Step::kFree) return nullptr;
    return operation;
  }
  return nullptr;
}

void OperationPool::Disown(const OperationOwner* owner, int64_t now_ns) {
  for (const Block& block : blocks_) {
    for (size_t i = 0; i < block.count; ++i) {
      if (block.slots[i].owner == owner) Abandon(&block.slots[i], now_ns);
    }
  }
}

void OperationPool::Abandon(Operation* operation, int64_t now_ns) {
  operation->owner = nullptr;
  if (operation->abandoned || operation->step == Operation::Step::kFree) return;
  operation->abandoned = true;
  operation->abandoned_ns = now_ns;
  ++abandoned_;
}

void OperationPool::WriteOff(int64_t limit_ns) {
  if (abandoned_ == 0) return;
  for (const Block& block : blocks_) {
    for (size_t i = 0; i < block.count; ++i) {
      Operation& operation = block.slots[i];
      // What is queued is the reactor's, and ends by itself.
      if (!operation.abandoned || operation.written_off || operation.queued ||
          operation.abandoned_ns > limit_ns) {
        continue;
      }
      operation.written_off = true;
      --abandoned_;
      --outstanding_;
      --capacity_;
      ++written_off_;
    }
  }
  UseSpare();
}

void OperationPool::UseSpare() {
  while (spare_ != nullptr && capacity_ < blocks_[0].count) {
    Push(Pop(&spare_), &free_);
    ++capacity_;
  }
}

size_t OperationPool::slots_to_add() const {
  const size_t nominal = blocks_[0].count;
  if (capacity_ >= nominal) return 0;
  // Not one by one, so that FromContext has few blocks to look at.
  const size_t wanted = std::max(nominal - capacity_, (nominal + 7) / 8);
  return std::min(wanted, nominal * kMostGrowth - total_);
}

absl::Span<Operation> OperationPool::Add(size_t count) {
  blocks_.push_back({std::unique_ptr<Operation[]>(new Operation[count]), count});
  total_ += count;
  const absl::Span<Operation> added = absl::MakeSpan(blocks_.back().slots.get(), count);
  for (Operation& operation : added) Push(&operation, &spare_);
  UseSpare();
  return added;
}

PeerUse OperationPool::UseOf(fi_addr_t peer) const {
  PeerUse use = PeerUse::kNone;
  for (const Block& block : blocks_) {
    for (size_t i = 0; i < block.count; ++i) {
      const Operation& operation = block.slots[i];
      if (operation.step == Operation::Step::kFree || operation.peer != peer) continue;
      if (!operation.written_off) return PeerUse::kOutstanding;
      use = PeerUse::kWrittenOff;
    }
  }
  return use;
}

}  // namespace invoker::transport
