#include "src/accounting/accounting_service.h"

#include <grpcpp/server_context.h>

#include <memory>

#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/convert_accounting.h"
#include "src/bootstrap/convert_lease.h"
#include "src/bootstrap/lease_table.h"
#include "src/bootstrap/service_support.h"

namespace invoker {
namespace {

namespace v1 = bootstrap::v1;

class AccountingService final : public v1::Accounting::Service {
 public:
  AccountingService(bootstrap::SessionHost* host, bootstrap::LeaseTable* leases,
                    UsageAccumulator* accumulator)
      : host_(host), leases_(leases), accumulator_(accumulator) {}

  grpc::Status GetUsage(grpc::ServerContext* context, const v1::GetUsageRequest* request,
                        v1::GetUsageReply* reply) override {
    bootstrap::Mark(context);
    if (request->lease() != 0) return TellOne(request->lease(), reply);
    for (const bootstrap::UsageRecord& record : host_->GetUsage(request->tenant())) {
      *reply->add_records() = bootstrap::ToProto(record);
    }
    if (accumulator_ == nullptr) return grpc::Status::OK;
    for (const bootstrap::UsageRecord& record : accumulator_->Records(request->tenant())) {
      *reply->add_records() = bootstrap::ToProto(record);
    }
    return grpc::Status::OK;
  }

  grpc::Status GetDropped(grpc::ServerContext* context, const v1::GetDroppedRequest*,
                          v1::GetDroppedReply* reply) override {
    bootstrap::Mark(context);
    for (const bootstrap::DropCount& drop : host_->DroppedMessages()) {
      v1::GetDroppedReply::Count* count = reply->add_dropped();
      count->set_reason(drop.reason);
      count->set_count(drop.count);
    }
    return grpc::Status::OK;
  }

  grpc::Status Contribute(grpc::ServerContext* context, const v1::ContributeRequest* request,
                          v1::ContributeReply* reply) override {
    bootstrap::Mark(context);
    if (accumulator_ == nullptr) {
      return bootstrap::ToGrpc(absl::FailedPreconditionError(
          "this server takes no other servers' usage: start it with --usage_counters"));
    }
    absl::StatusOr<bootstrap::Contribution> contribution = bootstrap::FromProto(*request);
    if (!contribution.ok()) return bootstrap::ToGrpc(contribution.status());
    absl::StatusOr<bootstrap::ContributionTarget> target = accumulator_->Contribute(*contribution);
    if (!target.ok()) return bootstrap::ToGrpc(target.status());
    *reply = bootstrap::ToProto(*target);
    return grpc::Status::OK;
  }

 private:
  grpc::Status TellOne(uint64_t lease, v1::GetUsageReply* reply) {
    const absl::StatusOr<bootstrap::LeaseTable::Use> use = leases_->Acquire(lease);
    if (!use.ok()) return bootstrap::ToGrpc(use.status());
    const absl::StatusOr<bootstrap::Usage> usage = host_->LeaseUsage(lease);
    if (!usage.ok()) return bootstrap::ToGrpc(usage.status());
    *reply->mutable_lease_usage() = bootstrap::ToProto(*usage);
    return grpc::Status::OK;
  }

  bootstrap::SessionHost* const host_;
  bootstrap::LeaseTable* const leases_;
  UsageAccumulator* const accumulator_;
};

}  // namespace

bootstrap::ServiceFactory MakeAccountingService(UsageAccumulator* accumulator) {
  return [accumulator](bootstrap::SessionHost* host, bootstrap::LeaseTable* leases) {
    return std::make_unique<AccountingService>(host, leases, accumulator);
  };
}

}  // namespace invoker
