#include "src/bootstrap/conversion/convert_lease.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/bootstrap/conversion/convert.h"

namespace invoker::bootstrap {
namespace {

constexpr uint64_t kForever = std::numeric_limits<uint64_t>::max();

uint64_t ToMicroseconds(absl::Duration duration) {
  if (duration == absl::InfiniteDuration()) return kForever;
  if (duration <= absl::ZeroDuration()) return 0;
  // What is shorter than can be said is the shortest that can: a limit must not become none.
  return std::max<uint64_t>(static_cast<uint64_t>(absl::ToInt64Microseconds(duration)), 1);
}

absl::Duration FromMicroseconds(uint64_t us) {
  if (us > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return absl::InfiniteDuration();
  }
  return absl::Microseconds(static_cast<int64_t>(us));
}

absl::Duration FromNanoseconds(uint64_t ns) {
  if (ns > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return absl::InfiniteDuration();
  }
  return absl::Nanoseconds(static_cast<int64_t>(ns));
}

uint64_t ToNanoseconds(absl::Duration duration) {
  if (duration <= absl::ZeroDuration()) return 0;
  return static_cast<uint64_t>(absl::ToInt64Nanoseconds(duration));
}

absl::Status GetDuration(absl::string_view field, uint64_t us, absl::Duration* duration) {
  if (us != kForever && us > static_cast<uint64_t>(absl::ToInt64Microseconds(kLongestTerm))) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is ", us, "; at most ", absl::ToInt64Microseconds(kLongestTerm),
                     " (ten years) are accepted, or ", kForever, " for no end"));
  }
  *duration = us == kForever ? absl::InfiniteDuration() : FromMicroseconds(us);
  return absl::OkStatus();
}

absl::Status GetTenant(const std::string& text, std::string* tenant) {
  if (text.size() > kMaxTenantBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the tenant's name has ", text.size(),
                                                   " bytes; at most ", kMaxTenantBytes,
                                                   " are accepted"));
  }
  if (PrintableText(text, kMaxTenantBytes) != text) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tenant's name \"", PrintableText(text, kMaxTenantBytes),
                     "\" has bytes that are not printable ASCII characters"));
  }
  *tenant = text;
  return absl::OkStatus();
}

absl::Status GetPolling(v1::Polling message, Polling* polling) {
  switch (message) {
    case v1::POLLING_UNSPECIFIED:
      *polling = Polling::kDefault;
      return absl::OkStatus();
    case v1::POLLING_HOT:
      *polling = Polling::kHot;
      return absl::OkStatus();
    case v1::POLLING_WARM:
      *polling = Polling::kWarm;
      return absl::OkStatus();
    case v1::POLLING_ADAPTIVE:
      *polling = Polling::kAdaptive;
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("polling has the unknown value ", static_cast<int>(message)));
  }
}

absl::Status GetKind(v1::ExecutorKind message, ExecutorKind* kind) {
  switch (message) {
    case v1::EXECUTOR_KIND_UNSPECIFIED:
    case v1::EXECUTOR_KIND_NATIVE:
      *kind = ExecutorKind::kNative;
      return absl::OkStatus();
    case v1::EXECUTOR_KIND_PYTHON:
      *kind = ExecutorKind::kPython;
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("kind has the unknown value ", static_cast<int>(message)));
  }
}

v1::Polling ToProto(Polling polling) {
  switch (polling) {
    case Polling::kDefault:
      return v1::POLLING_UNSPECIFIED;
    case Polling::kHot:
      return v1::POLLING_HOT;
    case Polling::kWarm:
      return v1::POLLING_WARM;
    case Polling::kAdaptive:
      return v1::POLLING_ADAPTIVE;
  }
  return v1::POLLING_UNSPECIFIED;
}

v1::LeaseEvent::Ended::Cause ToProto(LeaseEndCause cause) {
  using Ended = v1::LeaseEvent::Ended;
  switch (cause) {
    case LeaseEndCause::kReleased:
      return Ended::RELEASED;
    case LeaseEndCause::kExpired:
      return Ended::EXPIRED;
    case LeaseEndCause::kTtl:
      return Ended::TTL;
    case LeaseEndCause::kCrashed:
      return Ended::CRASHED;
    case LeaseEndCause::kExited:
      return Ended::EXITED;
    case LeaseEndCause::kMemoryLimit:
      return Ended::MEMORY_LIMIT;
    case LeaseEndCause::kCallLimit:
      return Ended::CALL_LIMIT;
    case LeaseEndCause::kServer:
      return Ended::SERVER;
  }
  return Ended::CAUSE_UNSPECIFIED;
}

LeaseEndCause FromProto(v1::LeaseEvent::Ended::Cause cause) {
  using Ended = v1::LeaseEvent::Ended;
  switch (cause) {
    case Ended::RELEASED:
      return LeaseEndCause::kReleased;
    case Ended::EXPIRED:
      return LeaseEndCause::kExpired;
    case Ended::TTL:
      return LeaseEndCause::kTtl;
    case Ended::CRASHED:
      return LeaseEndCause::kCrashed;
    case Ended::EXITED:
      return LeaseEndCause::kExited;
    case Ended::MEMORY_LIMIT:
      return LeaseEndCause::kMemoryLimit;
    case Ended::CALL_LIMIT:
      return LeaseEndCause::kCallLimit;
    default:
      return LeaseEndCause::kServer;
  }
}

}  // namespace

v1::LeaseTerms ToProto(const LeaseTerms& terms) {
  v1::LeaseTerms message;
  message.set_executors(terms.executors);
  message.set_kind(terms.kind == ExecutorKind::kPython ? v1::EXECUTOR_KIND_PYTHON
                                                       : v1::EXECUTOR_KIND_NATIVE);
  message.set_memory_bytes(terms.memory_bytes);
  message.set_polling(ToProto(terms.polling));
  message.set_hot_timeout_us(ToMicroseconds(terms.hot_timeout));
  message.set_ttl_us(ToMicroseconds(terms.ttl));
  message.set_call_limit_us(ToMicroseconds(terms.call_limit));
  message.set_wait_us(ToMicroseconds(terms.wait));
  message.set_tenant(terms.tenant);
  message.set_peer_timeout_us(ToMicroseconds(terms.peer_timeout));
  return message;
}

absl::StatusOr<LeaseTerms> FromProto(const v1::LeaseTerms& message) {
  LeaseTerms terms;
  if (message.executors() > kMaxLeaseExecutors) {
    return absl::InvalidArgumentError(absl::StrCat("executors is ", message.executors(),
                                                   "; a lease has at most ", kMaxLeaseExecutors));
  }
  terms.executors = message.executors();
  terms.memory_bytes = message.memory_bytes();
  absl::Status status = GetKind(message.kind(), &terms.kind);
  status.Update(GetPolling(message.polling(), &terms.polling));
  status.Update(GetDuration("hot_timeout_us", message.hot_timeout_us(), &terms.hot_timeout));
  status.Update(GetDuration("ttl_us", message.ttl_us(), &terms.ttl));
  status.Update(GetDuration("call_limit_us", message.call_limit_us(), &terms.call_limit));
  status.Update(GetDuration("wait_us", message.wait_us(), &terms.wait));
  status.Update(GetTenant(message.tenant(), &terms.tenant));
  status.Update(GetDuration("peer_timeout_us", message.peer_timeout_us(), &terms.peer_timeout));
  if (!status.ok()) return status;
  return terms;
}

v1::Usage ToProto(const ResourceUsage& usage) {
  v1::Usage message;
  message.set_lease_us(ToMicroseconds(usage.lease_time));
  message.set_cpu_us(ToMicroseconds(usage.cpu_time));
  message.set_memory_byte_seconds(usage.memory_byte_seconds);
  message.set_calls(usage.calls);
  message.set_function_ns(ToNanoseconds(usage.function_time));
  message.set_polling_ns(ToNanoseconds(usage.polling_time));
  message.set_bytes_in(usage.bytes_in);
  message.set_bytes_out(usage.bytes_out);
  return message;
}

ResourceUsage FromProto(const v1::Usage& message) {
  ResourceUsage usage;
  usage.lease_time = FromMicroseconds(message.lease_us());
  usage.cpu_time = FromMicroseconds(message.cpu_us());
  usage.memory_byte_seconds = message.memory_byte_seconds();
  usage.calls = message.calls();
  usage.function_time = FromNanoseconds(message.function_ns());
  usage.polling_time = FromNanoseconds(message.polling_ns());
  usage.bytes_in = message.bytes_in();
  usage.bytes_out = message.bytes_out();
  return usage;
}

v1::LeaseEvent::Ended ToProto(const LeaseEnd& end) {
  v1::LeaseEvent::Ended message;
  message.set_cause(ToProto(end.cause));
  message.set_reason(PrintableText(end.reason, kMaxReasonBytes));
  *message.mutable_usage() = ToProto(end.usage);
  return message;
}

LeaseEnd FromProto(const v1::LeaseEvent::Ended& message) {
  return LeaseEnd{FromProto(message.cause()), PrintableText(message.reason(), kMaxReasonBytes),
                  FromProto(message.usage())};
}

v1::UsageRecord ToProto(const UsageRecord& record) {
  v1::UsageRecord message;
  message.set_tenant(record.tenant);
  message.set_lease(record.lease);
  message.set_executors(record.executors);
  message.set_open(record.open);
  *message.mutable_usage() = ToProto(record.usage);
  message.set_contributed(record.contributed);
  return message;
}

UsageRecord FromProto(const v1::UsageRecord& message) {
  return UsageRecord{PrintableText(message.tenant(), kMaxTenantBytes),
                     message.lease(),
                     message.executors(),
                     message.open(),
                     FromProto(message.usage()),
                     message.contributed()};
}

}  // namespace invoker::bootstrap
