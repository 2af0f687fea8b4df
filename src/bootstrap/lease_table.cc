#include "src/bootstrap/lease_table.h"

#include <errno.h>
#include <sys/random.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace invoker::bootstrap {

struct LeaseTable::Work {
  std::vector<std::shared_ptr<LeaseStream>> expired;
  std::vector<std::shared_ptr<LeaseStream>> cancelled;
  std::vector<uint64_t> closed;
  Clock::time_point next = Clock::time_point::max();
  bool Empty() const { return expired.empty() && cancelled.empty() && closed.empty(); }
};

absl::StatusOr<uint64_t> LeaseTable::DrawId() {
  uint64_t id = 0;
  while (id == 0) {
    const ssize_t got = getrandom(&id, sizeof(id), 0);
    if (got == static_cast<ssize_t>(sizeof(id))) continue;
    if (got < 0 && errno != EINTR) {
      return absl::InternalError(
          absl::StrCat("cannot draw a random lease id: getrandom failed with errno ", errno));
    }
    id = 0;
  }
  return id;
}

LeaseTable::LeaseTable(absl::Duration expiry, SessionHost* host)
    : expiry_(absl::ToChronoNanoseconds(expiry)),
      expired_reason_(absl::StrCat("no heartbeat arrived for ", absl::FormatDuration(expiry))),
      host_(host),
      thread_([this] { Run(); }) {}

LeaseTable::~LeaseTable() {
  EndAll(absl::UnavailableError("the server is stopping"));
  Join();
}

absl::Status LeaseTable::Add(uint64_t lease, std::shared_ptr<LeaseStream> stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (absl::Status status = AdmissionLocked(); !status.ok()) return status;
  const auto [it, added] = entries_.try_emplace(lease);
  if (!added) return absl::AlreadyExistsError("the lease id is taken");
  it->second.stream = std::move(stream);
  it->second.deadline = Clock::now() + expiry_;
  changed_.notify_one();
  return absl::OkStatus();
}

void LeaseTable::Renew(uint64_t lease) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(lease);
  // A later deadline needs no wake-up: the thread looks at the old one and waits again.
  if (it != entries_.end() && it->second.live) it->second.deadline = Clock::now() + expiry_;
}

void LeaseTable::End(uint64_t lease) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(lease);
  if (it != entries_.end()) EndEntry(&it->second);
}

void LeaseTable::EndEntry(Entry* entry) {
  if (!entry->live) return;
  entry->live = false;
  entry->deadline = Clock::now() + expiry_;
  changed_.notify_one();
}

void LeaseTable::StreamDone(uint64_t lease) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(lease);
  if (it == entries_.end()) return;
  EndEntry(&it->second);
  it->second.stream = nullptr;
  EraseIfOver(lease);
}

void LeaseTable::EraseIfOver(uint64_t lease) {
  const auto it = entries_.find(lease);
  if (it != entries_.end() && it->second.closed && it->second.stream == nullptr) entries_.erase(it);
}

absl::StatusOr<LeaseTable::Use> LeaseTable::Acquire(uint64_t lease) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(lease);
  if (it == entries_.end() || !it->second.live) {
    return absl::NotFoundError(
        "the lease is not known here: it was released, it expired, or the server was restarted; "
        "take a new one");
  }
  ++it->second.uses;
  return Use(this, lease);
}

void LeaseTable::EndUse(uint64_t lease) {
  std::lock_guard<std::mutex> lock(mutex_);
  Entry& entry = entries_.at(lease);  // an entry in use is never erased
  if (--entry.uses == 0 && !entry.live) changed_.notify_one();
}

void LeaseTable::NotifySessionClosed(uint64_t lease, uint64_t handle, absl::string_view reason) {
  std::shared_ptr<LeaseStream> stream;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = entries_.find(lease);
    if (it == entries_.end() || !it->second.live) return;
    stream = it->second.stream;
  }
  stream->SendSessionClosed(handle, reason);
}

void LeaseTable::Drain(absl::string_view reason) {
  std::vector<std::shared_ptr<LeaseStream>> streams;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (draining_) return;
    draining_ = true;
    drain_reason_ = std::string(reason);
    for (const auto& [lease, entry] : entries_) {
      if (entry.live) streams.push_back(entry.stream);
    }
  }
  for (const auto& stream : streams) stream->SendDraining(reason);
}

absl::Status LeaseTable::Admission() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return AdmissionLocked();
}

absl::Status LeaseTable::AdmissionLocked() const {
  if (stopping_) return absl::UnavailableError("the server is stopping");
  if (!draining_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the worker is draining: ", drain_reason_));
}

void LeaseTable::EndAll(const absl::Status& status) {
  std::vector<std::shared_ptr<LeaseStream>> streams;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    for (auto& [lease, entry] : entries_) {
      if (!entry.live) continue;
      streams.push_back(entry.stream);
      EndEntry(&entry);
    }
    changed_.notify_one();
  }
  for (const auto& stream : streams) stream->End(status);
}

void LeaseTable::Join() {
  if (thread_.joinable()) thread_.join();
}

LeaseTable::Work LeaseTable::Collect(Clock::time_point now) {
  Work work;
  for (auto& [lease, entry] : entries_) {
    if (entry.deadline <= now) {
      if (entry.live) {
        work.expired.push_back(entry.stream);
        entry.live = false;
        entry.deadline = now + expiry_;
      } else {
        if (entry.stream != nullptr) work.cancelled.push_back(entry.stream);
        entry.deadline = Clock::time_point::max();
      }
    }
    if (!entry.live && entry.uses == 0 && !entry.closing) {
      entry.closing = true;
      work.closed.push_back(lease);
    }
    if (entry.live || entry.stream != nullptr) work.next = std::min(work.next, entry.deadline);
  }
  return work;
}

void LeaseTable::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    const Work work = Collect(Clock::now());
    if (work.Empty()) {
      const bool all_closed = std::all_of(entries_.begin(), entries_.end(),
                                          [](const auto& e) { return e.second.closed; });
      if (stopping_ && all_closed) return;
      if (work.next == Clock::time_point::max()) {
        changed_.wait(lock);
      } else {
        changed_.wait_until(lock, work.next);
      }
      continue;
    }
    lock.unlock();
    for (const auto& stream : work.expired) {
      stream->SendExpired(expired_reason_);
      stream->End(
          absl::DeadlineExceededError(absl::StrCat("the lease expired: ", expired_reason_)));
    }
    for (const auto& stream : work.cancelled) stream->Cancel();
    for (const uint64_t lease : work.closed) host_->CloseLease(lease);
    lock.lock();
    for (const uint64_t lease : work.closed) {
      entries_.at(lease).closed = true;
      EraseIfOver(lease);
    }
  }
}

}  // namespace invoker::bootstrap
