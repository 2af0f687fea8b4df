#include "src/bootstrap/lease/lease_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/random.h"
#include "src/transport/base/shared_files.h"

namespace invoker::bootstrap {
namespace {

constexpr size_t kClosers = 8;

// How often the table looks, at least, in the time that a client may be silent for: an absence of
// its own that is shorter than the time between two looks may go unnoticed.
constexpr int kLooksPerExpiry = 8;

absl::Status StatusOf(const LeaseEnd& end) {
  switch (end.cause) {
    case LeaseEndCause::kReleased:
      return absl::OkStatus();
    case LeaseEndCause::kExpired:
    case LeaseEndCause::kTtl:
      return absl::DeadlineExceededError(end.reason);
    case LeaseEndCause::kCrashed:
    case LeaseEndCause::kExited:
    case LeaseEndCause::kMemoryLimit:
    case LeaseEndCause::kCallLimit:
      return absl::AbortedError(end.reason);
    case LeaseEndCause::kServer:
      break;
  }
  return absl::UnavailableError(end.reason);
}

void TakeOne(const std::string& name, std::unordered_map<std::string, uint32_t>* counts) {
  const auto found = counts->find(name);
  if (--found->second == 0) counts->erase(found);
}

}  // namespace

// What the host tells of one lease. Kept by the host until CloseLease returns, for which the table
// waits.
class LeaseTable::Observer final : public SessionHost::LeaseObserver {
 public:
  Observer(LeaseTable* table, uint64_t lease) : table_(table), lease_(lease) {}

  void OnQueued(uint32_t ahead) override { table_->OnQueued(lease_, ahead); }
  void OnGranted(const absl::StatusOr<LeaseTerms>& terms) override {
    if (terms.ok()) {
      table_->OnGranted(lease_, *terms);
    } else {
      table_->Refuse(lease_, terms.status());
    }
  }
  void OnEnded(const LeaseEnd& end) override { table_->OnEnded(lease_, end); }

 private:
  LeaseTable* const table_;
  const uint64_t lease_;
};

absl::StatusOr<uint64_t> LeaseTable::DrawId() {
  while (true) {
    const absl::StatusOr<uint64_t> id = transport::DrawRandom();
    if (!id.ok() || *id != 0) return id;
  }
}

LeaseTable::LeaseTable(absl::Duration expiry, SessionHost* host,
                       std::function<Clock::time_point()> now)
    : expiry_(absl::ToChronoNanoseconds(expiry)),
      longest_sleep_(expiry_ / kLooksPerExpiry),
      expiry_text_(absl::FormatDuration(expiry)),
      host_(host),
      now_(std::move(now)),
      closers_(kClosers),
      thread_([this] { Run(); }) {}

LeaseTable::~LeaseTable() {
  EndAll(absl::UnavailableError("the server is stopping"));
  Join();
}

absl::Status LeaseTable::Add(uint64_t lease, std::shared_ptr<LeaseStream> stream,
                             LeaseHolder holder) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (absl::Status status = AdmissionLocked(); !status.ok()) return status;
  if (const auto held = of_machine_.find(holder.machine);
      held != of_machine_.end() && held->second >= kMostOfMachine) {
    return absl::ResourceExhaustedError(
        absl::StrCat("clients on your machine hold ", kMostOfMachine,
                     " leases here, which is as many as those of one machine may; give some back"));
  }
  if (const auto held = of_tenant_.find(holder.tenant);
      (held != of_tenant_.end() ? held->second : 0) >= holder.max_leases) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "tenant \"", holder.tenant, "\" has ", holder.max_leases,
        " leases here, which is as many as this server's policy allows it; give some back"));
  }
  const auto [it, added] = entries_.try_emplace(lease);
  if (!added) return absl::AlreadyExistsError("the lease id is taken");
  ++of_machine_[holder.machine];
  ++of_tenant_[holder.tenant];
  it->second.stream = std::move(stream);
  it->second.holder = std::move(holder);
  it->second.deadline = now_() + expiry_;
  changed_.notify_one();
  return absl::OkStatus();
}

void LeaseTable::Ask(uint64_t lease, const LeaseTerms& terms) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Entry* entry = FindLive(lease);
    if (entry == nullptr) return;
    entry->phase = Phase::kAsked;
    entry->deadline = Clock::time_point::max();
    ++entry->uses;  // CloseLease comes after OpenLease has returned
  }
  host_->OpenLease(lease, terms, std::make_shared<Observer>(this, lease));
  EndUse(lease);
}

void LeaseTable::OnQueued(uint64_t lease, uint32_t ahead) {
  std::shared_ptr<LeaseStream> stream;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const Entry* entry = FindLive(lease);
    if (entry == nullptr || entry->phase != Phase::kAsked) return;
    stream = entry->stream;
  }
  stream->SendQueued(ahead);
}

void LeaseTable::OnGranted(uint64_t lease, const LeaseTerms& terms) {
  LeaseTerms granted = terms;
  std::shared_ptr<LeaseStream> stream;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Entry* entry = FindLive(lease);
    if (entry == nullptr || entry->phase != Phase::kAsked) return;
    const Clock::time_point now = now_();
    entry->phase = Phase::kGranted;
    entry->deadline = now + expiry_;
    if (granted.ttl <= absl::ZeroDuration() || granted.ttl > entry->holder.max_ttl) {
      if (entry->holder.max_ttl < absl::InfiniteDuration()) granted.ttl = entry->holder.max_ttl;
    }
    entry->ttl = granted.ttl;
    entry->own_executors = granted.executors > 0;
    if (granted.ttl > absl::ZeroDuration() && granted.ttl < absl::InfiniteDuration()) {
      entry->over_at = now + absl::ToChronoNanoseconds(granted.ttl);
    }
    ++entry->uses;  // nothing may overtake the grant
    stream = entry->stream;
    changed_.notify_one();
  }
  stream->SendGranted(granted);
  // The client may be quick: what happened to the lease meanwhile is told in its order.
  while (true) {
    std::vector<std::function<void(LeaseStream*)>> held;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      Entry& entry = entries_.at(lease);
      held.swap(entry.held);
      if (held.empty()) {
        entry.announced = true;
        EndUseLocked(&entry);
        return;
      }
    }
    for (const auto& send : held) send(stream.get());
  }
}

void LeaseTable::OnEnded(uint64_t lease, const LeaseEnd& end) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Entry* entry = FindLive(lease); entry != nullptr) {
    EndEntry(entry, end.cause, end.reason, StatusOf(end));
  }
}

void LeaseTable::Renew(uint64_t lease) {
  std::lock_guard<std::mutex> lock(mutex_);
  // A later deadline needs no wake-up: the thread looks at the old one and waits again.
  if (Entry* entry = FindLive(lease); entry != nullptr && entry->phase == Phase::kGranted) {
    entry->deadline = now_() + expiry_;
  }
}

void LeaseTable::Release(uint64_t lease) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Entry* entry = FindLive(lease); entry != nullptr) {
    EndEntry(entry, LeaseEndCause::kReleased, "its client gave it back", absl::OkStatus());
  }
}

void LeaseTable::End(uint64_t lease) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Entry* entry = FindLive(lease); entry != nullptr) EndGone(entry);
}

void LeaseTable::EndGone(Entry* entry) {
  if (!entry->live) return;
  entry->client_gone = true;
  EndEntry(entry, LeaseEndCause::kReleased, "its client went away", absl::OkStatus());
}

void LeaseTable::Refuse(uint64_t lease, const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Entry* entry = FindLive(lease); entry != nullptr) {
    EndEntry(entry, LeaseEndCause::kServer, status.message(), status);
  }
}

LeaseTable::Entry* LeaseTable::FindLive(uint64_t lease) {
  const auto it = entries_.find(lease);
  return it != entries_.end() && it->second.live ? &it->second : nullptr;
}

void LeaseTable::EndEntry(Entry* entry, LeaseEndCause cause, absl::string_view reason,
                          absl::Status status) {
  if (!entry->live) return;
  entry->live = false;
  entry->deadline = Clock::time_point::max();
  entry->over_at = Clock::time_point::max();
  entry->end.cause = cause;
  entry->end.reason = std::string(reason);
  entry->status = std::move(status);
  changed_.notify_one();
  knows_end_.notify_all();
}

void LeaseTable::StreamDone(uint64_t lease) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(lease);
  if (it == entries_.end()) return;
  EndGone(&it->second);
  it->second.stream = nullptr;
  EraseIfOver(lease);
}

void LeaseTable::GiveBackToTenant(const Entry& entry) { TakeOne(entry.holder.tenant, &of_tenant_); }

void LeaseTable::EraseIfOver(uint64_t lease) {
  const auto it = entries_.find(lease);
  if (it == entries_.end() || !it->second.closed || it->second.stream != nullptr) return;
  TakeOne(it->second.holder.machine, &of_machine_);
  entries_.erase(it);
}

absl::StatusOr<LeaseTable::Entry*> LeaseTable::FindGranted(uint64_t lease,
                                                           absl::string_view tenant) {
  Entry* entry = FindLive(lease);
  // Another tenant's is as good as unknown: nobody is told that it exists.
  if (entry == nullptr || entry->phase != Phase::kGranted || entry->holder.tenant != tenant) {
    return absl::NotFoundError(
        "the lease is not known here: it was released, it expired, or the server was restarted; "
        "take a new one");
  }
  return entry;
}

absl::StatusOr<LeaseTable::Use> LeaseTable::Acquire(uint64_t lease, absl::string_view tenant) {
  std::lock_guard<std::mutex> lock(mutex_);
  const absl::StatusOr<Entry*> entry = FindGranted(lease, tenant);
  if (!entry.ok()) return entry.status();
  if ((*entry)->uses >= kMostUses) {
    return absl::ResourceExhaustedError(absl::StrCat(
        kMostUses, " requests to the server are under way under this lease, which is as many as a ",
        "lease may have; wait for some of them"));
  }
  ++(*entry)->uses;
  return Use(this, lease, (*entry)->own_executors);
}

absl::Status LeaseTable::Watch(uint64_t lease, std::weak_ptr<LeaseWatch> watch,
                               absl::string_view tenant) {
  std::lock_guard<std::mutex> lock(mutex_);
  const absl::StatusOr<Entry*> entry = FindGranted(lease, tenant);
  if (!entry.ok()) return entry.status();
  std::vector<std::weak_ptr<LeaseWatch>>& watches = (*entry)->watches;
  watches.erase(std::remove_if(watches.begin(), watches.end(),
                               [](const auto& other) { return other.expired(); }),
                watches.end());
  watches.push_back(std::move(watch));
  return absl::OkStatus();
}

void LeaseTable::NoteEndpoint(const Use& use, absl::string_view address) {
  if (!transport::NamesSharedFile(address)) return;
  std::lock_guard<std::mutex> lock(mutex_);
  entries_.at(use.lease_).has_files = true;
}

void LeaseTable::EndUse(uint64_t lease) {
  std::lock_guard<std::mutex> lock(mutex_);
  EndUseLocked(&entries_.at(lease));  // an entry in use is never erased
}

void LeaseTable::EndUseLocked(Entry* entry) {
  if (--entry->uses == 0 && !entry->live) changed_.notify_one();
}

void LeaseTable::NotifySessionClosed(uint64_t lease, uint64_t handle, absl::string_view reason) {
  std::shared_ptr<LeaseStream> stream;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Entry* entry = FindLive(lease);
    if (entry == nullptr || entry->phase != Phase::kGranted) return;
    if (!entry->announced) {
      entry->held.push_back([handle, text = std::string(reason)](LeaseStream* to) {
        to->SendSessionClosed(handle, text);
      });
      return;
    }
    stream = entry->stream;
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
    const absl::Status refusal = AdmissionLocked();
    for (auto& [lease, entry] : entries_) {
      if (!entry.live) continue;
      if (entry.phase != Phase::kGranted) {
        EndEntry(&entry, LeaseEndCause::kServer, refusal.message(), refusal);
      } else if (entry.announced) {
        streams.push_back(entry.stream);
      } else {
        entry.held.push_back([text = drain_reason_](LeaseStream* to) { to->SendDraining(text); });
      }
    }
  }
  for (const auto& stream : streams) stream->SendDraining(reason);
}

void LeaseTable::CloseToCalls(std::chrono::nanoseconds limit) {
  std::vector<std::shared_ptr<LeaseStream>> streams;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [lease, entry] : entries_) {
      if (!entry.live || !entry.announced) continue;
      entry.knows_end = false;
      streams.push_back(entry.stream);
    }
  }
  for (const auto& stream : streams) stream->SendClosing();
  std::unique_lock<std::mutex> lock(mutex_);
  knows_end_.wait_for(lock, limit, [this] {
    return std::all_of(entries_.begin(), entries_.end(), [](const auto& entry) {
      return !entry.second.live || entry.second.knows_end;
    });
  });
}

void LeaseTable::NoteClosingSeen(uint64_t lease) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Entry* entry = FindLive(lease); entry != nullptr) entry->knows_end = true;
  knows_end_.notify_all();
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
  std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  for (auto& [lease, entry] : entries_) {
    EndEntry(&entry, LeaseEndCause::kServer, status.message(), status);
  }
  changed_.notify_one();
}

}  // namespace invoker::bootstrap
