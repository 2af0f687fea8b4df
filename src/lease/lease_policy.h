// What a worker leases at most, and what it gives to who leaves the choice. Pure: any thread.

#ifndef INVOKER_SRC_LEASE_LEASE_POLICY_H_
#define INVOKER_SRC_LEASE_LEASE_POLICY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/bootstrap/messages/messages.h"
#include "src/isolation/process/executor_process.h"
#include "src/lease/capacity.h"

namespace invoker {

struct LeasePolicy {
  Resources total;                             // no cores: no executors of a lease's own
  uint64_t executor_memory_bytes = 256 << 20;  // where the client does not say
  // The longest that a lease may live; what one with executors gets if its client does not say.
  absl::Duration max_ttl = absl::InfiniteDuration();
  absl::Duration max_call = absl::InfiniteDuration();
  absl::Duration hot_timeout = absl::InfiniteDuration();  // where the client does not say
  uint32_t max_waiting = kDefaultMaxWaiting;              // in line, at a time
  bool python = false;                                    // has executors for Python functions
  bool allow_upload = false;                              // told to clients
};

// The terms with the policy's values where the client left the choice. INVALID_ARGUMENT for terms
// that this worker never grants, FAILED_PRECONDITION if it has no such executors.
//
// Polling by default with a hot timeout is adaptive polling. Granted terms say hot, warm or
// adaptive; hot_timeout says the same in numbers: infinite, zero, or in between.
absl::StatusOr<LeaseTerms> ResolveTerms(const LeaseTerms& asked, const LeasePolicy& policy);

// What all executors take together. The terms are resolved.
Resources ResourcesOf(const LeaseTerms& terms);

ExecutorTerms ExecutorTermsOf(const LeaseTerms& terms);

}  // namespace invoker

#endif  // INVOKER_SRC_LEASE_LEASE_POLICY_H_
