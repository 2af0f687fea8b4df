#include "src/python/native/calls/ended_queue.h"

#include <sys/eventfd.h>

#include <cerrno>

namespace invoker::python {

absl::Status EndedQueue::AddDescriptor() {
  descriptor_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return descriptor_.get() >= 0 ? absl::OkStatus() : absl::ErrnoToStatus(errno, "eventfd");
}

void EndedQueue::SetDueLocked() {
  if (due_.load(std::memory_order_relaxed)) return;
  due_.store(true, std::memory_order_release);
  SignalLocked();
}

void EndedQueue::SignalLocked() {
  if (descriptor_.get() < 0 || polled_ || signalled_) return;
  signalled_ = true;
  eventfd_write(descriptor_.get(), 1);
}

void EndedQueue::SetPolled(bool polled) {
  absl::MutexLock lock(&mutex_);
  polled_ = polled;
  if (due_.load(std::memory_order_relaxed)) SignalLocked();
}

void EndedQueue::Push(uint64_t token) {
  absl::MutexLock lock(&mutex_);
  tokens_.push_back(token);
  SetDueLocked();
}

void EndedQueue::Wake() {
  absl::MutexLock lock(&mutex_);
  SetDueLocked();
}

void EndedQueue::Await(absl::Duration limit) const {
  const auto due = [this] { return due_.load(std::memory_order_relaxed); };
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&due), limit);
}

std::vector<uint64_t> EndedQueue::Take() {
  absl::MutexLock lock(&mutex_);
  due_.store(false, std::memory_order_relaxed);
  if (signalled_) {
    signalled_ = false;
    eventfd_t count;
    eventfd_read(descriptor_.get(), &count);
  }
  std::vector<uint64_t> tokens;
  tokens.swap(tokens_);
  return tokens;
}

}  // namespace invoker::python
