#include <algorithm>
#include <chrono>
#include <cstdint>

#include "tests/faults/faulty_objects.h"

namespace invoker::faults {
namespace {

constexpr int64_t kLongestHoldNs = 1'000'000;

int64_t MonotonicNs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

FaultyQueue::FaultyQueue(fid_cq* queue, std::shared_ptr<DomainState> state)
    : state_(std::move(state)), queue_(&queue->ops, this), closing_(&queue->fid, this) {
  ++FaultControl::Get().counts.queues;
  queue_.ours().read = &Read;
  queue_.ours().readerr = &ReadError;
}

FaultyQueue::~FaultyQueue() { --FaultControl::Get().counts.queues; }

bool FaultyQueue::MustNotSleep(fid* object) {
  if (object->fclass != FI_CLASS_CQ) return false;
  fi_ops_cq* const ops = reinterpret_cast<fid_cq*>(object)->ops;
  if (ops->read != &Read) return false;
  const FaultyQueue& self = Queue::From(ops);
  return !self.held_.empty() || !self.due_.empty() || !self.errors_.empty();
}

FaultyQueue::Verdict FaultyQueue::Judge(const fi_cq_data_entry& entry) {
  FaultControl& control = FaultControl::Get();
  const FaultPlan* const plan = control.plan();
  const bool received = (entry.flags & FI_RECV) != 0;
  const bool written =
      !received && (entry.flags & (FI_REMOTE_CQ_DATA | FI_WRITE)) == FI_REMOTE_CQ_DATA;
  const bool of_victim =
      received || written ? state_->is_victim : state_->of_victims.erase(entry.op_context) > 0;
  if (plan == nullptr) return Verdict::kDeliver;
  Dice& dice = state_->dice;
  if (of_victim) {
    if (received || written) {
      if (dice.Hits(plan->notification_lost)) {
        ++control.counts.notifications_lost;
        // The buffer of a receive comes back all the same.
        return received ? Verdict::kFail : Verdict::kDrop;
      }
    } else if (dice.Hits(plan->completion_fails)) {
      ++control.counts.completion_fails;
      return Verdict::kFail;
    } else if (dice.Hits(plan->completion_lost)) {
      ++control.counts.completions_lost;
      lost_.push_back(entry);
      return Verdict::kDrop;
    }
  }
  if (!dice.Hits(plan->late)) return Verdict::kDeliver;
  ++control.counts.late;
  held_.push_back({entry, dice.UpTo(plan->latest), MonotonicNs() + kLongestHoldNs});
  return Verdict::kHold;
}

void FaultyQueue::Filter(fi_cq_data_entry* entries, ssize_t count, ssize_t* kept) {
  *kept = 0;
  for (ssize_t i = 0; i < count; ++i) {
    const fi_cq_data_entry entry = entries[i];
    switch (Judge(entry)) {
      case Verdict::kDeliver:
        entries[(*kept)++] = entry;
        break;
      case Verdict::kFail: {
        fi_cq_err_entry error = {};
        error.op_context = entry.op_context;
        error.flags = entry.flags;
        error.err = FI_EIO;
        error.prov_errno = FI_EIO;
        errors_.push_back(error);
        break;
      }
      case Verdict::kHold:
      case Verdict::kDrop:
        break;
    }
  }
}

void FaultyQueue::AgeHeld() {
  const bool all = FaultControl::Get().plan() == nullptr;
  if (all) {
    due_.insert(due_.end(), lost_.begin(), lost_.end());
    lost_.clear();
  }
  const int64_t now_ns = MonotonicNs();
  for (Held& held : held_) {
    --held.reads_left;
    if (all || now_ns >= held.until_ns) held.reads_left = 0;
    if (held.reads_left == 0) due_.push_back(held.entry);
  }
  held_.erase(std::remove_if(held_.begin(), held_.end(),
                             [](const Held& held) { return held.reads_left == 0; }),
              held_.end());
}

ssize_t FaultyQueue::Read(fid_cq* queue, void* buffer, size_t count) {
  FaultyQueue& self = Queue::From(queue->ops);
  if (!self.held_.empty() || !self.lost_.empty()) self.AgeHeld();
  if (!self.errors_.empty()) return -FI_EAVAIL;
  auto* const entries = static_cast<fi_cq_data_entry*>(buffer);
  if (!self.due_.empty()) {
    const size_t handed = std::min(count, self.due_.size());
    std::copy_n(self.due_.begin(), handed, entries);
    self.due_.erase(self.due_.begin(), self.due_.begin() + handed);
    return static_cast<ssize_t>(handed);
  }
  const ssize_t read = self.queue_.provider().read(queue, buffer, count);
  if (read <= 0) return read;
  ssize_t kept = 0;
  self.Filter(entries, read, &kept);
  if (kept > 0) return kept;
  return self.errors_.empty() ? -FI_EAGAIN : -FI_EAVAIL;
}

ssize_t FaultyQueue::ReadError(fid_cq* queue, fi_cq_err_entry* entry, uint64_t flags) {
  FaultyQueue& self = Queue::From(queue->ops);
  if (self.errors_.empty()) return self.queue_.provider().readerr(queue, entry, flags);
  *entry = self.errors_.front();
  self.errors_.pop_front();
  return 1;
}

}  // namespace invoker::faults
