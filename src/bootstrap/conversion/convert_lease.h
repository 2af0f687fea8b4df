// Between the messages about leases and the plain structs, as convert.h does it for sessions.
//
// Durations travel as microseconds; the largest number stands for one that never ends. Pure: any
// thread.

#ifndef INVOKER_SRC_BOOTSTRAP_CONVERSION_CONVERT_LEASE_H_
#define INVOKER_SRC_BOOTSTRAP_CONVERSION_CONVERT_LEASE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/bootstrap.pb.h"
#include "src/bootstrap/messages/messages.h"

namespace invoker::bootstrap {

// More executors than this are a mistake, whatever the worker.
inline constexpr uint32_t kMaxLeaseExecutors = 4096;
// So is a finite duration that is longer.
inline constexpr absl::Duration kLongestTerm = absl::Hours(10 * 365 * 24);

v1::LeaseTerms ToProto(const LeaseTerms& terms);
// INVALID_ARGUMENT names the field.
absl::StatusOr<LeaseTerms> FromProto(const v1::LeaseTerms& message);

v1::Usage ToProto(const ResourceUsage& usage);
// Whatever numbers came: the largest that a duration holds, at most.
ResourceUsage FromProto(const v1::Usage& message);

v1::LeaseEvent::Ended ToProto(const LeaseEnd& end);
// A cause that this release does not know is kServer.
LeaseEnd FromProto(const v1::LeaseEvent::Ended& message);

v1::UsageRecord ToProto(const UsageRecord& record);
UsageRecord FromProto(const v1::UsageRecord& message);

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_CONVERSION_CONVERT_LEASE_H_
