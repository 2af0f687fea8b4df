// Conversions like those of convert.h, for the service Accounting.

#ifndef INVOKER_SRC_BOOTSTRAP_CONVERSION_CONVERT_ACCOUNTING_H_
#define INVOKER_SRC_BOOTSTRAP_CONVERSION_CONVERT_ACCOUNTING_H_

#include "absl/status/statusor.h"
#include "proto/bootstrap.pb.h"
#include "src/bootstrap/messages/messages.h"

namespace invoker::bootstrap {

v1::ContributeRequest ToProto(const Contribution& contribution);
absl::StatusOr<Contribution> FromProto(const v1::ContributeRequest& message);

v1::ContributeReply ToProto(const ContributionTarget& target);
// Also checks that every row lies within the counters.
absl::StatusOr<ContributionTarget> FromProto(const v1::ContributeReply& message, size_t tenants);

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_CONVERSION_CONVERT_ACCOUNTING_H_
