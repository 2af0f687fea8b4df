#include "src/transport/reactor/operation_pool.h"

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

// A written-off slot does not count among those outstanding.
void OperationPool::ReleaseAbandoned(Operation* operation) {
  operation->abandoned = false;
  if (operation->written_off) {
    operation->written_off = false;
    --written_off_;
    Push(operation, &spare_);
    UseSpare();
    return;
  }
  --abandoned_;
  Push(operation, &free_);
  --outstanding_;
}

Operation* OperationPool::FindInAdded(const void* context) const {
  for (size_t i = 1; i < blocks_.size(); ++i) {
    if (Operation* operation = Find(blocks_[i], context); operation != nullptr) return operation;
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

size_t OperationPool::written_off_completions() const {
  size_t due = 0;
  if (written_off_ == 0) return due;
  for (const Block& block : blocks_) {
    for (size_t i = 0; i < block.count; ++i) {
      if (block.slots[i].written_off) due += block.slots[i].completions_due;
    }
  }
  return due;
}

absl::Span<Operation> OperationPool::Add(size_t count) {
  blocks_.push_back({std::unique_ptr<Operation[]>(new Operation[count]), count});
  total_ += count;
  const absl::Span<Operation> added = absl::MakeSpan(blocks_.back().slots.get(), count);
  for (Operation& operation : added) Push(&operation, &spare_);
  UseSpare();
  return added;
}

std::vector<OperationPool::Source> OperationPool::Sources() const {
  std::vector<Source> sources;
  if (outstanding_ + written_off_ == 0) return sources;
  for (const Block& block : blocks_) {
    for (size_t i = 0; i < block.count; ++i) {
      const Operation& operation = block.slots[i];
      if (operation.step == Operation::Step::kFree) continue;
      sources.push_back({static_cast<const std::byte*>(operation.source), operation.length});
    }
  }
  std::sort(sources.begin(), sources.end(),
            [](const Source& a, const Source& b) { return a.begin < b.begin; });
  return sources;
}

void OperationPool::ForEachOf(const OperationOwner* owner,
                              absl::FunctionRef<void(const Operation&)> visit) const {
  for (const Block& block : blocks_) {
    for (size_t i = 0; i < block.count; ++i) {
      const Operation& operation = block.slots[i];
      if (operation.step != Operation::Step::kFree && operation.owner == owner) visit(operation);
    }
  }
}

PeerUses OperationPool::Uses() const {
  PeerUses uses;
  if (outstanding_ + written_off_ == 0) return uses;
  for (const Block& block : blocks_) {
    for (size_t i = 0; i < block.count; ++i) {
      const Operation& operation = block.slots[i];
      if (operation.step == Operation::Step::kFree) continue;
      if (operation.written_off) {
        uses.try_emplace(operation.peer, PeerUse::kWrittenOff);
      } else {
        uses[operation.peer] = PeerUse::kOutstanding;
      }
    }
  }
  return uses;
}

}  // namespace invoker::transport
