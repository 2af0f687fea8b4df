// LeaseHost: what each tenant's leases have, against what a policy allows it.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/lease/lease_host.h"
#include "src/security/tenant.h"

namespace invoker {

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
