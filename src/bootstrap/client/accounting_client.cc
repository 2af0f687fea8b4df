// BootstrapClient: what it asks of the service Accounting.

#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/unary_call.h"
#include "src/bootstrap/conversion/convert_accounting.h"
#include "src/bootstrap/conversion/convert_lease.h"

namespace invoker::bootstrap {

absl::StatusOr<std::vector<UsageRecord>> BootstrapClient::GetUsage(absl::string_view tenant,
                                                                   absl::Duration timeout) {
  UnaryCall call(*channel_, "tell about usage", timeout);
  v1::GetUsageRequest request;
  request.set_tenant(std::string(tenant));
  v1::GetUsageReply reply;
  absl::Status status = call.Run<v1::Accounting>(&v1::Accounting::Stub::GetUsage, request, &reply);
  if (!status.ok()) return status;
  std::vector<UsageRecord> records;
  records.reserve(static_cast<size_t>(reply.records_size()));
  for (const v1::UsageRecord& record : reply.records()) records.push_back(FromProto(record));
  return records;
}

absl::StatusOr<Usage> BootstrapClient::GetLeaseUsage(uint64_t lease, absl::Duration timeout) {
  UnaryCall call(*channel_, "tell about usage", timeout);
  v1::GetUsageRequest request;
  request.set_lease(lease);
  v1::GetUsageReply reply;
  absl::Status status = call.Run<v1::Accounting>(&v1::Accounting::Stub::GetUsage, request, &reply);
  if (!status.ok()) return status;
  if (!reply.has_lease_usage()) {
    return call.BadReply(absl::UnimplementedError("it does not tell of a single lease"));
  }
  return FromProto(reply.lease_usage());
}

absl::StatusOr<std::vector<DropCount>> BootstrapClient::GetDropped(absl::Duration timeout) {
  UnaryCall call(*channel_, "tell what it has dropped", timeout);
  v1::GetDroppedReply reply;
  absl::Status status =
      call.Run<v1::Accounting>(&v1::Accounting::Stub::GetDropped, v1::GetDroppedRequest(), &reply);
  if (!status.ok()) return status;
  std::vector<DropCount> counts;
  counts.reserve(static_cast<size_t>(reply.dropped_size()));
  for (const auto& drop : reply.dropped()) counts.push_back({drop.reason(), drop.count()});
  return counts;
}

absl::StatusOr<ContributionTarget> BootstrapClient::Contribute(const Contribution& contribution,
                                                               absl::Duration timeout) {
  UnaryCall call(*channel_, "take usage", timeout);
  v1::ContributeReply reply;
  absl::Status status =
      call.Run<v1::Accounting>(&v1::Accounting::Stub::Contribute, ToProto(contribution), &reply);
  if (!status.ok()) return status;
  absl::StatusOr<ContributionTarget> target = FromProto(reply, contribution.tenants.size());
  if (!target.ok()) return call.BadReply(target.status());
  return target;
}

}  // namespace invoker::bootstrap
