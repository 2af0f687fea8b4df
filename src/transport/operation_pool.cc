#include "src/transport/operation_pool.h"

namespace invoker::transport {

OperationPool::OperationPool(size_t slots) : slots_(slots), pool_(new Operation[slots]) {
  for (size_t i = slots; i-- > 0;) {
    pool_[i].next = free_;
    free_ = &pool_[i];
  }
}

Operation* OperationPool::Acquire() {
  Operation* operation = free_;
  if (operation == nullptr) return nullptr;
  free_ = operation->next;
  operation->next = nullptr;
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
  operation->next = free_;
  free_ = operation;
  --outstanding_;
}

Operation* OperationPool::FromContext(void* context) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(context);
  const uintptr_t begin = reinterpret_cast<uintptr_t>(pool_.get());
  if (address < begin) return nullptr;
  const size_t index = (address - begin) / sizeof(Operation);
  if (index >= slots_) return nullptr;
  Operation* operation = &pool_[index];
  const bool is_context = context == &operation->contexts[0] || context == &operation->contexts[1];
  if (!is_context || operation->step == Operation::Step::kFree) return nullptr;
  return operation;
}

void OperationPool::Disown(const OperationOwner* owner) {
  for (size_t i = 0; i < slots_; ++i) {
    if (pool_[i].owner == owner) pool_[i].owner = nullptr;
  }
}

bool OperationPool::Uses(fi_addr_t peer) const {
  for (size_t i = 0; i < slots_; ++i) {
    if (pool_[i].step != Operation::Step::kFree && pool_[i].peer == peer) return true;
  }
  return false;
}

}  // namespace invoker::transport
