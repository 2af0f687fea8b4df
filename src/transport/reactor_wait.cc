// Reactor: sleeping, and being woken.

#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "src/transport/reactor.h"

namespace invoker::transport {
namespace {

constexpr int64_t kFirstBackoffNs = 50'000;
constexpr int64_t kLastBackoffNs = 1'000'000;
constexpr int kMaxBackoffStep = 8;
// Bounds how late a tick can be while nothing happens.
constexpr int64_t kLongestSleepNs = 50'000'000;

timespec ToTimespec(int64_t nanoseconds) {
  return {static_cast<time_t>(nanoseconds / 1'000'000'000),
          static_cast<long>(nanoseconds % 1'000'000'000)};
}

}  // namespace

void Reactor::Wait(absl::Duration limit) {
  if (Arm()) Sleep(limit);
  Disarm();
}

bool Reactor::Arm() {
  sleep_limit_ns_ = kLongestSleepNs;
  // Refused posts are tried again by polling, and nothing announces that they may succeed.
  if (retry_head_ != nullptr) sleep_limit_ns_ = kFirstBackoffNs;
  const bool has_fd = cq_->file_descriptor() >= 0;
  if (!has_fd) {
    sleep_limit_ns_ =
        std::min(sleep_limit_ns_, std::min(kLastBackoffNs, kFirstBackoffNs << backoff_step_));
    backoff_step_ = std::min(backoff_step_ + 1, kMaxBackoffStep);
  }
  // Announced before the inbox is looked at, and Submit looks after it has put: one of the two sees
  // the other.
  asleep_.store(true, std::memory_order_seq_cst);
  return !inbox_.HasTasks() && (!has_fd || cq_->Armed());
}

void Reactor::Sleep(absl::Duration limit) {
  pollfd waits[2] = {{wake_fd_, POLLIN, 0}, {cq_->file_descriptor(), POLLIN, 0}};
  const timespec timeout =
      ToTimespec(std::clamp<int64_t>(absl::ToInt64Nanoseconds(limit), 0, sleep_limit_ns_));
  ppoll(waits, cq_->file_descriptor() >= 0 ? 2 : 1, &timeout, nullptr);
}

void Reactor::Disarm() {
  asleep_.store(false, std::memory_order_seq_cst);
  uint64_t wakes;
  [[maybe_unused]] const ssize_t taken = read(wake_fd_, &wakes, sizeof(wakes));
  SlowTurn();
}

void Reactor::Submit(Inbox::Task task) {
  inbox_.Put(std::move(task));
  if (asleep_.load(std::memory_order_seq_cst)) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
  }
}

}  // namespace invoker::transport
