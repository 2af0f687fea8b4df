#include "src/lease/lease_policy.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace invoker {
namespace {

// 0 is the worker's most.
absl::Status ResolveLimit(absl::string_view what, absl::Duration most, absl::Duration* value) {
  if (*value <= absl::ZeroDuration()) *value = most;
  if (*value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the lease asks for a ", what, " of ", absl::FormatDuration(*value),
                   "; this worker grants ", absl::FormatDuration(most), " at most"));
}

void ResolvePolling(const LeasePolicy& policy, LeaseTerms* terms) {
  switch (terms->polling) {
    case Polling::kDefault:
      if (terms->hot_timeout <= absl::ZeroDuration()) terms->hot_timeout = policy.hot_timeout;
      break;
    case Polling::kHot:
      terms->hot_timeout = absl::InfiniteDuration();
      break;
    case Polling::kWarm:
      terms->hot_timeout = absl::ZeroDuration();
      break;
    case Polling::kAdaptive:
      return;
  }
  if (terms->hot_timeout == absl::InfiniteDuration()) {
    terms->polling = Polling::kHot;
  } else if (terms->hot_timeout == absl::ZeroDuration()) {
    terms->polling = Polling::kWarm;
  } else {
    terms->polling = Polling::kAdaptive;
  }
}

}  // namespace

absl::StatusOr<LeaseTerms> ResolveTerms(const LeaseTerms& asked, const LeasePolicy& policy) {
  LeaseTerms terms = asked;
  // Without executors of its own a lease keeps nothing from others: it ends with its client, and by
  // itself only if the client wants that.
  const bool endless = terms.executors == 0 && terms.ttl <= absl::ZeroDuration();
  const absl::Duration longest = endless ? absl::InfiniteDuration() : policy.max_ttl;
  if (absl::Status status = ResolveLimit("ttl", longest, &terms.ttl); !status.ok()) return status;
  if (terms.executors == 0) {
    if (terms.kind != ExecutorKind::kNative || terms.memory_bytes != 0 ||
        terms.polling != Polling::kDefault || terms.hot_timeout != absl::ZeroDuration() ||
        terms.call_limit != absl::ZeroDuration()) {
      return absl::InvalidArgumentError(
          "kind, memory, polling, hot timeout and call limit are those of a lease's own executors, "
          "and the lease asks for none: ask for one or more");
    }
    return terms;
  }
  if (policy.total.cores == 0) {
    return absl::FailedPreconditionError(
        "this worker leases no executors: it was started with --lease-cores=0, or its log says "
        "why");
  }
  if (terms.kind == ExecutorKind::kPython && !policy.python) {
    return absl::FailedPreconditionError(
        "this worker has no executors for Python functions: start it with --python=PATH");
  }
  if (absl::Status status = ResolveLimit("call limit", policy.max_call, &terms.call_limit);
      !status.ok()) {
    return status;
  }
  if (terms.memory_bytes == 0) terms.memory_bytes = policy.executor_memory_bytes;
  if (terms.memory_bytes > std::numeric_limits<uint64_t>::max() / terms.executors) {
    return absl::InvalidArgumentError(absl::StrCat("the lease asks for ", terms.memory_bytes,
                                                   " bytes of memory for each of ", terms.executors,
                                                   " executors"));
  }
  ResolvePolling(policy, &terms);
  return terms;
}

Resources ResourcesOf(const LeaseTerms& terms) {
  return {terms.executors, terms.memory_bytes * terms.executors};
}

ExecutorTerms ExecutorTermsOf(const LeaseTerms& terms) {
  return {terms.memory_bytes, terms.call_limit, terms.hot_timeout};
}

}  // namespace invoker
