// Reactor: sleeping, and being woken.

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "absl/container/inlined_vector.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::transport {
namespace {

constexpr int64_t kFirstBackoffNs = 50'000;
constexpr int64_t kLastBackoffNs = 1'000'000;
// A sleep without a wait object is this part of the wait so far: so much later at most is noticed
// what ends a long wait, and a wait of any length takes few looks.
constexpr int64_t kBackoffPart = 16;
// Of WaitAny.
constexpr int64_t kLongestSleepNs = 50'000'000;
// How many times shorter than others a sleep in fi_cq_sread is at most: that bounds what a signal
// costs that comes while it is just about to block (see CompletionQueue::Signal).
constexpr int64_t kQueueSleepDivisor = 5;
// fi_cq_sread counts in these.
constexpr int64_t kMillisecondNs = 1'000'000;

int64_t Within(absl::Duration limit, int64_t most_ns) {
  return std::clamp<int64_t>(absl::ToInt64Nanoseconds(limit), 0, most_ns);
}

void PollFor(pollfd* descriptors, size_t count, int64_t nanoseconds) {
  const timespec timeout = {static_cast<time_t>(nanoseconds / 1'000'000'000),
                            static_cast<long>(nanoseconds % 1'000'000'000)};
  ppoll(descriptors, count, &timeout, nullptr);
}

}  // namespace

void Reactor::Wait(absl::Duration limit) {
  if (Arm()) Sleep(limit);
  Disarm();
}

bool Reactor::Arm() {
  return ArmFor(wait_method() == WaitMethod::kSread ? Asleep::kInQueue : Asleep::kInPoll);
}

bool Reactor::ArmFor(Asleep asleep) {
  sleep_limit_ns_ = longest_sleep_ns_;
  // Refused posts are tried again by polling, and nothing announces that they may succeed.
  if (retry_head_ != nullptr) sleep_limit_ns_ = kFirstBackoffNs;
  const bool has_fd = cq_->file_descriptor() >= 0;
  if (asleep == Asleep::kInQueue && cq_->can_signal()) {
    sleep_limit_ns_ = std::min(sleep_limit_ns_, longest_sleep_ns_ / kQueueSleepDivisor);
  } else if (!has_fd) {
    const int64_t now_ns = MonotonicNs();
    if (waiting_since_ns_ == 0) waiting_since_ns_ = now_ns;
    const int64_t part_ns = (now_ns - waiting_since_ns_) / kBackoffPart;
    sleep_limit_ns_ =
        std::min(sleep_limit_ns_, std::clamp(part_ns, kFirstBackoffNs, kLastBackoffNs));
  }
  // Announced before the inbox is looked at, and Submit looks after it has put: one of the two sees
  // the other.
  asleep_.store(asleep, std::memory_order_seq_cst);
  return !inbox_.HasTasks() && (!has_fd || cq_->Armed());
}

void Reactor::Sleep(absl::Duration limit) {
  const int64_t sleep_ns = Within(limit, sleep_limit_ns_);
  if (wait_method() == WaitMethod::kSread && sleep_ns >= kMillisecondNs) {
    cq_->Sleep(static_cast<int>(std::min<int64_t>(sleep_ns / kMillisecondNs, INT_MAX)));
    return;
  }
  pollfd waits[2] = {{wake_fd_, POLLIN, 0}, {cq_->file_descriptor(), POLLIN, 0}};
  PollFor(waits, cq_->file_descriptor() >= 0 ? 2 : 1, sleep_ns);
}

void Reactor::Disarm() {
  asleep_.store(Asleep::kNo, std::memory_order_seq_cst);
  // A signal that has been written and is not announced yet ends the next sleep instead.
  if (signalled_.load(std::memory_order_relaxed) && signalled_.exchange(false)) {
    uint64_t wakes;
    [[maybe_unused]] const ssize_t taken = read(wake_fd_, &wakes, sizeof(wakes));
  }
  // Its ticks may be late, but they come after the queue has been read.
  turns_to_slow_turn_ = 1;
}

void Reactor::Submit(Inbox::Task task) {
  inbox_.Put(std::move(task));
  const Asleep asleep = asleep_.load(std::memory_order_seq_cst);
  if (asleep == Asleep::kNo) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
  signalled_.store(true, std::memory_order_release);
  if (asleep == Asleep::kInQueue) cq_->Signal();
}

void WaitAny(absl::Span<Reactor* const> reactors, absl::Duration limit) {
  if (reactors.size() == 1) return reactors.front()->Wait(limit);
  absl::InlinedVector<pollfd, 16> waits;
  int64_t sleep_ns = Within(limit, kLongestSleepNs);
  size_t armed = 0;
  while (armed < reactors.size()) {
    Reactor& reactor = *reactors[armed++];
    // Also if it is the one that has something to do: it has to be disarmed too.
    if (!reactor.ArmFor(Reactor::Asleep::kInPoll)) {
      sleep_ns = 0;
      break;
    }
    sleep_ns = std::min(sleep_ns, reactor.sleep_limit_ns_);
    waits.push_back({reactor.wake_fd_, POLLIN, 0});
    const int queue_fd = reactor.cq_->file_descriptor();
    if (queue_fd >= 0) waits.push_back({queue_fd, POLLIN, 0});
  }
  if (sleep_ns > 0) PollFor(waits.data(), waits.size(), sleep_ns);
  for (size_t i = 0; i < armed; ++i) reactors[i]->Disarm();
}

}  // namespace invoker::transport
