// LeaseHost: what each tenant's leases have, against what a policy allows it, and what the host
// shows of its leases and executors, and of the leases that were lost.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/lease/lease_host.h"
#include "src/security/tenant.h"

namespace invoker {
namespace {

// So many of the leases that were lost are shown, the newest ones.
constexpr size_t kLostKept = 16;

}  // namespace

void LeaseHost::OnLost(uint64_t lease, const std::string& reason) {
  LeaseLost told;
  {
    absl::MutexLock lock(&mutex_);
    const auto entry = entries_.find(lease);
    ++lost_.count;
    lost_.last.insert(lost_.last.begin(),
                      {book_->NumberOf(lease),
                       entry == entries_.end() ? std::string() : entry->second.terms.tenant, reason,
                       absl::Now()});
    if (lost_.last.size() > kLostKept) lost_.last.pop_back();
    told = events_.on_lease_lost;
  }
  if (told) told(lease, reason);
}

std::vector<bootstrap::DropCount> LeaseHost::DroppedMessages() const {
  DropCounters leased;
  {
    absl::MutexLock lock(&mutex_);
    leased = ended_dropped_;
    for (const auto& [lease, entry] : entries_) {
      if (entry.executors != nullptr) LoadShared(entry.executors->Dropped(), &leased);
    }
  }
  std::vector<bootstrap::DropCount> counts = shared_.host->DroppedMessages();
  ForEachDrop(leased, [&counts](absl::string_view reason, uint64_t count) {
    const auto same = std::find_if(
        counts.begin(), counts.end(),
        [reason](const bootstrap::DropCount& other) { return other.reason == reason; });
    if (same != counts.end()) {
      same->count += count;
    } else {
      counts.push_back({std::string(reason), count});
    }
  });
  return counts;
}

void LeaseHost::AddStatus(bootstrap::WorkerStatus* status) const {
  shared_.host->AddStatus(status);
  status->drops = DroppedMessages();
  status->downgrades += downgrades_.load(std::memory_order_relaxed);
  absl::MutexLock lock(&mutex_);
  status->leased.functions.Add(ended_.functions);
  status->leased.starts += ended_.starts;
  status->leased.cold_starts += ended_.cold_starts;
  status->leases_waiting += capacity_.waiting();
  status->leases_lost = lost_.count;
  status->last_lost = lost_.last;
  for (const auto& [lease, entry] : entries_) {
    if (entry.phase == Phase::kShared) ++status->leases_shared;
    if (entry.executors == nullptr) continue;
    ++status->leases_own;
    entry.executors->AddStatus(&status->leased);
  }
}

absl::Status LeaseHost::CountForTenant(Entry* entry) {
  const LeaseTerms& terms = entry->terms;
  if (terms.allowed == nullptr || terms.executors == 0) return absl::OkStatus();
  const Resources most = {
      std::min(terms.allowed->max_cores, capacity_.total().cores),
      std::min(terms.allowed->max_memory_bytes, capacity_.total().memory_bytes)};
  const Resources asked = ResourcesOf(terms);
  const auto found = held_.find(terms.tenant);
  const Resources held = found != held_.end() ? found->second : Resources();
  if (asked.cores > most.cores || asked.memory_bytes > most.memory_bytes) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the lease asks for ", Describe(asked), "; this server's policy allows tenant \"",
        terms.tenant, "\" ", Describe(most), " at most"));
  }
  if (asked.cores + held.cores > most.cores ||
      asked.memory_bytes + held.memory_bytes > most.memory_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the lease asks for ", Describe(asked), "; of ", Describe(most),
                     " that this server's policy allows tenant \"", terms.tenant,
                     "\", its leases have, or wait "
                     "in line for, ",
                     Describe(held), "; give some back"));
  }
  Resources& now = held_[terms.tenant];
  now.cores += asked.cores;
  now.memory_bytes += asked.memory_bytes;
  entry->counted = true;
  return absl::OkStatus();
}

void LeaseHost::Uncount(const Entry& entry) {
  if (!entry.counted) return;
  const auto held = held_.find(entry.terms.tenant);
  const Resources mine = ResourcesOf(entry.terms);
  held->second.cores -= mine.cores;
  held->second.memory_bytes -= mine.memory_bytes;
  if (held->second.cores == 0) held_.erase(held);
}

}  // namespace invoker
