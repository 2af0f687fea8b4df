#include "tests/efa_device/completion_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace efa_device {

CompletionChannel::CompletionChannel() : fd_(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}

CompletionChannel::~CompletionChannel() {
  if (fd_ >= 0) close(fd_);
}

void CompletionChannel::Announce(void* owner) {
  std::lock_guard<std::mutex> guard(lock_);
  events_.push_back(owner);
  eventfd_write(fd_, 1);
}

bool CompletionChannel::Next(void** owner) {
  while (true) {
    eventfd_t one;
    if (eventfd_read(fd_, &one) != 0) return false;
    std::lock_guard<std::mutex> guard(lock_);
    if (events_.empty()) continue;  // forgotten meanwhile
    *owner = events_.front();
    events_.pop_front();
    return true;
  }
}

void CompletionChannel::Forget(void* owner) {
  std::lock_guard<std::mutex> guard(lock_);
  const auto end = std::remove(events_.begin(), events_.end(), owner);
  for (auto event = end; event != events_.end(); ++event) {
    // The user takes no event of a queue that it destroys, so the count is still there.
    eventfd_t one;
    eventfd_read(fd_, &one);
  }
  events_.erase(end, events_.end());
}

CompletionQueue::CompletionQueue(size_t capacity, CompletionChannel* channel, void* owner)
    : capacity_(capacity), channel_(channel), owner_(owner) {}

CompletionQueue::~CompletionQueue() {
  if (channel_ != nullptr) channel_->Forget(owner_);
}

void CompletionQueue::Push(const Completion& completion) {
  std::lock_guard<std::mutex> guard(lock_);
  if (completions_.size() >= capacity_) {
    fprintf(stderr, "efa_device: a completion queue of %zu entries overflowed\n", capacity_);
    abort();
  }
  completions_.push_back(completion);
  if (armed_ && channel_ != nullptr) {
    armed_ = false;
    channel_->Announce(owner_);
  }
}

bool CompletionQueue::Pop(Completion* completion) {
  std::lock_guard<std::mutex> guard(lock_);
  if (completions_.empty()) return false;
  *completion = completions_.front();
  completions_.pop_front();
  if (completion->slots != nullptr) --*completion->slots;
  return true;
}

void CompletionQueue::Arm() {
  std::lock_guard<std::mutex> guard(lock_);
  armed_ = true;
}

void CompletionQueue::Purge(uint32_t qpn) {
  std::lock_guard<std::mutex> guard(lock_);
  completions_.erase(
      std::remove_if(completions_.begin(), completions_.end(),
                     [qpn](const Completion& completion) { return completion.qpn == qpn; }),
      completions_.end());
}

}  // namespace efa_device
