#include "src/transport/reactor/driver_waker.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "src/base/clock.h"

namespace invoker::transport {
namespace {

constexpr int64_t kFirstBackoffNs = 50'000;
constexpr int64_t kLastBackoffNs = 1'000'000;
// A sleep without a wait object is this part of the wait so far. So the end of a long wait is
// noticed at most that much later, and a wait of any length takes few looks.
constexpr int64_t kBackoffPart = 16;
// Sleeps shorter than this end by themselves sooner than a peer could end them.
constexpr int64_t kLongestUnheardNs = 100'000;
// The longest sleep on several reactors.
constexpr int64_t kLongestSleepNs = 50'000'000;
// A sleep in fi_cq_sread is at most this part of others. It bounds the cost of a signal that comes
// just before the sleep begins (see CompletionQueue::Signal).
constexpr int64_t kQueueSleepDivisor = 5;
// The unit of fi_cq_sread.
constexpr int64_t kMillisecondNs = 1'000'000;

int64_t Within(absl::Duration limit, int64_t most_ns) {
  return std::clamp<int64_t>(absl::ToInt64Nanoseconds(limit), 0, most_ns);
}

void PollFor(absl::Span<pollfd> descriptors, int64_t nanoseconds) {
  const timespec timeout = {static_cast<time_t>(nanoseconds / 1'000'000'000),
                            static_cast<long>(nanoseconds % 1'000'000'000)};
  ppoll(descriptors.data(), descriptors.size(), &timeout, nullptr);
}

}  // namespace

DriverWaker::~DriverWaker() {
  if (wake_fd_ >= 0) close(wake_fd_);
}

absl::Status DriverWaker::Open(CompletionQueue* queue) {
  queue_ = queue;
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  return wake_fd_ >= 0 ? absl::OkStatus()
                       : absl::ResourceExhaustedError(absl::StrCat("eventfd: ", strerror(errno)));
}

void DriverWaker::Submit(Inbox::Task task) {
  inbox_.Put(std::move(task));
  const Asleep asleep = asleep_.load(std::memory_order_seq_cst);
  if (asleep == Asleep::kNo) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
  signalled_.store(true, std::memory_order_release);
  if (asleep == Asleep::kInQueue) queue_->Signal();
}

// The next sleep without a wait object. Beyond kLongestUnheardNs the peers are asked to end it, if
// all can; then it may be as long as any.
int64_t DriverWaker::BackoffNs(int64_t now_ns, size_t peers) {
  if (waiting_since_ns_ == 0) waiting_since_ns_ = now_ns;
  const int64_t part_ns = (now_ns - waiting_since_ns_) / kBackoffPart;
  if (flag_ != nullptr && part_ns > kLongestUnheardNs && flag_->wakers() >= peers) {
    flag_->Raise(now_ns);
    return flag_->settled() ? longest_sleep_ns_ : kLongestUnheardNs;
  }
  return std::clamp(part_ns, kFirstBackoffNs, kLastBackoffNs);
}

bool DriverWaker::Arm(Asleep asleep, bool retries, size_t peers) {
  ask_until_ns_ = 0;
  sleep_limit_ns_ = retries ? kFirstBackoffNs : longest_sleep_ns_;
  const bool has_fd = queue_->file_descriptor() >= 0;
  if (asleep == Asleep::kInQueue && queue_->can_signal()) {
    sleep_limit_ns_ = std::min(sleep_limit_ns_, longest_sleep_ns_ / kQueueSleepDivisor);
  } else if (!has_fd) {
    sleep_limit_ns_ = std::min(sleep_limit_ns_, BackoffNs(MonotonicNs(), peers));
  }
  // Announced before this looks at the inbox, and Submit looks after it has put: one of the two
  // sees the other.
  asleep_.store(asleep, std::memory_order_seq_cst);
  return !inbox_.HasTasks() && (!has_fd || queue_->Armed());
}

bool DriverWaker::NoteEmpty(uint64_t posts, int64_t limit_ns) {
  if (queue_->file_descriptor() < 0 || !queue_->Armed()) return false;
  ask_until_ns_ = MonotonicNs() + limit_ns;
  ask_at_posts_ = posts;
  return true;
}

bool DriverWaker::MayHaveEvents(uint64_t posts) const {
  return ask_until_ns_ == 0 || posts != ask_at_posts_ || HasTasks() ||
         MonotonicNs() >= ask_until_ns_ || queue_->HasSignal();
}

void DriverWaker::Sleep(absl::Duration limit) {
  const int64_t sleep_ns = Within(limit, sleep_limit_ns_);
  if (queue_->wait_method() == WaitMethod::kSread && sleep_ns >= kMillisecondNs) {
    queue_->Sleep(static_cast<int>(std::min<int64_t>(sleep_ns / kMillisecondNs, INT_MAX)));
    return;
  }
  DriverWaker* const self = this;
  SleepOnAll(absl::MakeConstSpan(&self, 1), absl::Nanoseconds(sleep_ns));
}

void DriverWaker::SleepOnAll(absl::Span<DriverWaker* const> wakers, absl::Duration limit) {
  absl::InlinedVector<pollfd, 16> waits;
  int64_t sleep_ns = Within(limit, wakers.size() == 1 ? INT64_MAX : kLongestSleepNs);
  for (const DriverWaker* waker : wakers) {
    sleep_ns = std::min(sleep_ns, waker->sleep_limit_ns_);
    waits.push_back({waker->wake_fd_, POLLIN, 0});
    const int queue_fd = waker->queue_->file_descriptor();
    if (queue_fd >= 0) waits.push_back({queue_fd, POLLIN, 0});
    if (waker->flag_ != nullptr) waits.push_back({waker->flag_->file_descriptor(), POLLIN, 0});
  }
  PollFor(absl::MakeSpan(waits), sleep_ns);
}

void DriverWaker::Disarm() {
  asleep_.store(Asleep::kNo, std::memory_order_seq_cst);
  if (flag_ != nullptr && flag_->AfterSleep(MonotonicNs())) waiting_since_ns_ = 0;
  // A signal that has been written and is not announced yet ends the next sleep instead.
  if (signalled_.load(std::memory_order_relaxed) && signalled_.exchange(false)) {
    uint64_t wakes;
    [[maybe_unused]] const ssize_t taken = read(wake_fd_, &wakes, sizeof(wakes));
  }
}

}  // namespace invoker::transport
