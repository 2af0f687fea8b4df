// The operations whose post the provider has refused (-FI_EAGAIN), in the order of the refusals.
// The operations' slots bound the queue, and each operation has a deadline. Driver thread only.

#ifndef INVOKER_SRC_TRANSPORT_OPERATIONS_RETRY_QUEUE_H_
#define INVOKER_SRC_TRANSPORT_OPERATIONS_RETRY_QUEUE_H_

#include <cassert>
#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "src/transport/operations/operation_pool.h"

namespace invoker::transport {

class RetryQueue {
 public:
  // A refused operation is tried again for `limit`, and then fails.
  explicit RetryQueue(absl::Duration limit) : limit_ns_(absl::ToInt64Nanoseconds(limit)) {}

  bool empty() const { return first_ == nullptr; }
  // The operation that was refused first; nullptr if there is none.
  const Operation* front() const { return first_; }
  int64_t limit_ns() const { return limit_ns_; }

  void Push(Operation* operation, int64_t now_ns) {
    assert(!operation->queued);
    operation->retry_deadline_ns = now_ns + limit_ns_;
    operation->queued = true;
    operation->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = operation;
    last_ = operation;
  }

  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const Operation* at = first_; at != nullptr; at = at->next) visit(*at);
  }

  // Takes each operation out once and calls `attempt(operation, expired)`, so that one peer that
  // takes nothing does not hold up the others. An operation that `attempt` pushes again keeps its
  // deadline.
  template <typename Attempt>
  void RunOnce(int64_t now_ns, const Attempt& attempt) {
    Operation* rest = std::exchange(first_, nullptr);
    while (rest != nullptr) {
      Operation* const operation = rest;
      rest = operation->next;
      const int64_t deadline_ns = operation->retry_deadline_ns;
      operation->queued = false;
      operation->next = nullptr;
      attempt(operation, now_ns > deadline_ns);
      if (operation->queued) operation->retry_deadline_ns = deadline_ns;
    }
  }

 private:
  const int64_t limit_ns_;
  Operation* first_ = nullptr;
  Operation* last_ = nullptr;  // if there is a first
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_OPERATIONS_RETRY_QUEUE_H_
