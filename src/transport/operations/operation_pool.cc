#include "src/transport/operations/operation_pool.h"

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

// A quarantined slot does not count among those outstanding.
void OperationPool::ReleaseRetired(Operation* operation) {
  operation->retired = false;
  if (operation->quarantined) {
    operation->quarantined = false;
    --quarantined_;
    Push(operation, &spare_);
    UseSpare();
    return;
  }
  --retired_;
  Push(operation, &free_);
  --outstanding_;
}

Operation* OperationPool::FindInAdded(const void* context) const {
  for (size_t i = 1; i < blocks_.size(); ++i) {
    if (Operation* operation = Find(blocks_[i], context); operation != nullptr) return operation;
  }
  return nullptr;
}

void OperationPool::RetireAllOf(const OperationOwner* owner, int64_t now_ns) {
  ForEachTaken([&](Operation& operation) {
    if (operation.owner == owner) Retire(&operation, now_ns);
  });
}

void OperationPool::Retire(Operation* operation, int64_t now_ns) {
  operation->owner = nullptr;
  if (operation->retired || operation->step == Operation::Step::kFree) return;
  operation->retired = true;
  operation->retired_ns = now_ns;
  ++retired_;
}

void OperationPool::QuarantineRetired(int64_t limit_ns) {
  if (retired_ == 0) return;
  ForEachTaken([&](Operation& operation) {
    // A queued one is the reactor's, and ends by itself.
    if (!operation.retired || operation.quarantined || operation.queued ||
        operation.retired_ns > limit_ns) {
      return;
    }
    operation.quarantined = true;
    --retired_;
    --outstanding_;
    --capacity_;
    ++quarantined_;
  });
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

size_t OperationPool::quarantined_completions() const {
  size_t due = 0;
  if (quarantined_ == 0) return due;
  ForEachTaken([&due](const Operation& operation) {
    if (operation.quarantined) due += operation.completions_due;
  });
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
  ForEachTaken([&sources](const Operation& operation) {
    sources.push_back({static_cast<const std::byte*>(operation.source), operation.length});
  });
  std::sort(sources.begin(), sources.end(),
            [](const Source& a, const Source& b) { return a.begin < b.begin; });
  return sources;
}

void OperationPool::ForEachOf(const OperationOwner* owner,
                              absl::FunctionRef<void(const Operation&)> visit) const {
  ForEachTaken([&](const Operation& operation) {
    if (operation.owner == owner) visit(operation);
  });
}

PeerUses OperationPool::Uses() const {
  PeerUses uses;
  ForEachTaken([&uses](const Operation& operation) {
    if (operation.quarantined) {
      uses.try_emplace(operation.peer, PeerUse::kQuarantined);
    } else {
      uses[operation.peer] = PeerUse::kOutstanding;
    }
  });
  return uses;
}

}  // namespace invoker::transport
