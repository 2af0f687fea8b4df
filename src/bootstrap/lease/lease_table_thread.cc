// The table's thread: sees what is due, and has leases that have ended closed.

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/bootstrap/lease/lease_table.h"
#include "src/transport/base/shared_files.h"

namespace invoker::bootstrap {

struct LeaseTable::Work {
  std::vector<std::shared_ptr<LeaseStream>> cancelled;
  std::vector<uint64_t> retired;
  std::vector<uint64_t> closing;
  Clock::time_point next = Clock::time_point::max();
  bool Empty() const { return cancelled.empty() && retired.empty() && closing.empty(); }
};

// One whose deadline has passed.
void LeaseTable::EndLate(Entry* entry) {
  if (entry->phase == Phase::kNew) {
    const std::string reason =
        absl::StrCat("the client has not said for ", expiry_text_, " what it wants");
    EndEntry(entry, LeaseEndCause::kExpired, reason, absl::DeadlineExceededError(reason));
    return;
  }
  const std::string reason = absl::StrCat("no heartbeat arrived for ", expiry_text_);
  entry->client_gone = true;
  EndEntry(entry, LeaseEndCause::kExpired, reason,
           absl::DeadlineExceededError(absl::StrCat("the lease expired: ", reason)));
}

LeaseTable::Work LeaseTable::Collect(Clock::time_point now) {
  Work work;
  for (auto& [lease, entry] : entries_) {
    if (entry.live && entry.deadline <= now) {
      EndLate(&entry);
    } else if (entry.live && entry.over_at <= now) {
      const std::string reason =
          absl::StrCat("its time of ", absl::FormatDuration(entry.ttl), " is over");
      EndEntry(&entry, LeaseEndCause::kTtl, reason, absl::DeadlineExceededError(reason));
    } else if (entry.closed && entry.deadline <= now) {
      if (entry.stream != nullptr) work.cancelled.push_back(entry.stream);
      entry.deadline = Clock::time_point::max();
    }
    if (!entry.live && entry.phase != Phase::kNew && !entry.retired) {
      entry.retired = true;
      work.retired.push_back(lease);
    }
    if (!entry.live && entry.uses == 0 && !entry.closing) {
      entry.closing = true;
      work.closing.push_back(lease);
    }
    work.next = std::min({work.next, entry.deadline, entry.over_at});
  }
  return work;
}

// This thread has not been there for so long, and does not hold it against anybody.
void LeaseTable::Forgive(Clock::duration absence) {
  for (auto& [lease, entry] : entries_) {
    if (entry.live && entry.deadline != Clock::time_point::max()) entry.deadline += absence;
  }
}

void LeaseTable::Close(uint64_t lease) {
  std::unique_lock<std::mutex> lock(mutex_);
  Entry& entry = entries_.at(lease);  // erased only after this
  const std::vector<std::weak_ptr<LeaseWatch>> watches = std::exchange(entry.watches, {});
  lock.unlock();
  for (const std::weak_ptr<LeaseWatch>& watch : watches) {
    if (const std::shared_ptr<LeaseWatch> there = watch.lock()) there->OnLeaseEnded();
  }
  lock.lock();
  if (entry.phase != Phase::kNew) {
    lock.unlock();
    const ResourceUsage usage = host_->CloseLease(lease);
    lock.lock();
    entry.end.usage = usage;
  }
  if (entry.client_gone && entry.has_files) {
    lock.unlock();
    transport::RemoveFilesOfTheDead(geteuid());
    lock.lock();
  }
  // A client that hears of the end may take another lease at once. It counts for its machine until
  // its stream has ended too.
  GiveBackToTenant(entry);
  if (const std::shared_ptr<LeaseStream> stream = entry.stream; stream != nullptr) {
    lock.unlock();
    if (entry.announced) stream->SendEnded(entry.end);
    stream->End(entry.status);
    lock.lock();
  }
  entry.closed = true;
  entry.deadline = now_() + expiry_;
  changed_.notify_one();
  EraseIfOver(lease);
}

void LeaseTable::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  Clock::time_point due_back = now_();
  while (true) {
    const Clock::time_point now = now_();
    if (now > due_back) Forgive(now - due_back);
    due_back = now;
    const Work work = Collect(now);
    if (work.Empty()) {
      const bool all_closed = std::all_of(entries_.begin(), entries_.end(),
                                          [](const auto& e) { return e.second.closed; });
      if (stopping_ && all_closed) return;
      if (work.next == Clock::time_point::max()) {
        changed_.wait(lock);
        due_back = now_();
      } else {
        due_back = std::min(work.next, now + longest_sleep_);
        changed_.wait_for(lock, due_back - now);
      }
      continue;
    }
    lock.unlock();
    for (const auto& stream : work.cancelled) stream->Cancel();
    // Before they are closed, which takes up to a function's time.
    for (const uint64_t lease : work.retired) host_->RetireLease(lease);
    for (const uint64_t lease : work.closing) {
      closers_.Run([this, lease] { Close(lease); });
    }
    lock.lock();
  }
}

void LeaseTable::Join() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace invoker::bootstrap
