#include "src/accounting/accounting_service.h"

#include <grpcpp/server_context.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/conversion/convert_accounting.h"
#include "src/bootstrap/conversion/convert_lease.h"
#include "src/bootstrap/lease/lease_table.h"
#include "src/bootstrap/service/caller.h"
#include "src/bootstrap/service/service_support.h"
#include "src/security/tenant.h"

namespace invoker {
namespace {

namespace v1 = bootstrap::v1;

class AccountingService final : public v1::Accounting::Service {
 public:
  AccountingService(const bootstrap::ServiceParts& parts, UsageAccumulator* accumulator)
      : parts_(parts), accumulator_(accumulator) {}

  grpc::Status GetUsage(grpc::ServerContext* context, const v1::GetUsageRequest* request,
                        v1::GetUsageReply* reply) override {
    bootstrap::Mark(context);
    if (request->lease() != 0) return TellOne(*context, request->lease(), reply);
    const absl::StatusOr<std::string> tenant = WhoseUsage(*context, request->tenant());
    if (!tenant.ok()) return bootstrap::ToGrpc(tenant.status());
    for (const bootstrap::UsageRecord& record : parts_.host->GetUsage(*tenant)) {
      *reply->add_records() = bootstrap::ToProto(record);
    }
    if (accumulator_ == nullptr) return grpc::Status::OK;
    for (const bootstrap::UsageRecord& record : accumulator_->Records(*tenant)) {
      *reply->add_records() = bootstrap::ToProto(record);
    }
    return grpc::Status::OK;
  }

  grpc::Status GetDropped(grpc::ServerContext* context, const v1::GetDroppedRequest*,
                          v1::GetDroppedReply* reply) override {
    bootstrap::Mark(context);
    const absl::StatusOr<security::Caller> caller = bootstrap::CallerOf(*context, parts_.access);
    if (!caller.ok()) return bootstrap::ToGrpc(caller.status());
    if (absl::Status sees = security::CheckSeesOthers(*caller); !sees.ok()) {
      return bootstrap::ToGrpc(sees);
    }
    for (const bootstrap::DropCount& drop : parts_.host->DroppedMessages()) {
      v1::GetDroppedReply::Count* count = reply->add_dropped();
      count->set_reason(drop.reason);
      count->set_count(drop.count);
    }
    return grpc::Status::OK;
  }

  grpc::Status Contribute(grpc::ServerContext* context, const v1::ContributeRequest* request,
                          v1::ContributeReply* reply) override {
    bootstrap::Mark(context);
    const absl::StatusOr<security::Caller> caller = bootstrap::CallerOf(*context, parts_.access);
    if (!caller.ok()) return bootstrap::ToGrpc(caller.status());
    if (caller->tenant != nullptr && !caller->tenant->contributes_usage) {
      return bootstrap::ToGrpc(absl::PermissionDeniedError(
          absl::StrCat("this server's policy lets tenant \"", caller->name,
                       "\" add no usage to its counters (contributes_usage)")));
    }
    if (accumulator_ == nullptr) {
      return bootstrap::ToGrpc(absl::FailedPreconditionError(
          "this server takes no other servers' usage: start it with --usage-counters"));
    }
    absl::StatusOr<bootstrap::Contribution> contribution = bootstrap::FromProto(*request);
    if (!contribution.ok()) return bootstrap::ToGrpc(contribution.status());
    absl::StatusOr<bootstrap::ContributionTarget> target = accumulator_->Contribute(*contribution);
    if (!target.ok()) return bootstrap::ToGrpc(target.status());
    *reply = bootstrap::ToProto(*target);
    return grpc::Status::OK;
  }

 private:
  // The tenant to tell of; empty: everybody.
  absl::StatusOr<std::string> WhoseUsage(const grpc::ServerContext& context,
                                         const std::string& asked) {
    const absl::StatusOr<security::Caller> caller = bootstrap::CallerOf(context, parts_.access);
    if (!caller.ok()) return caller.status();
    absl::Status sees = security::CheckSeesOthers(*caller);
    if (sees.ok()) return asked;
    if (asked.empty() || asked == caller->name) return caller->name;
    return sees;
  }

  grpc::Status TellOne(const grpc::ServerContext& context, uint64_t lease,
                       v1::GetUsageReply* reply) {
    const absl::StatusOr<bootstrap::LeaseTable::Use> use =
        bootstrap::AcquireFor(context, parts_.access, parts_.leases, lease);
    if (!use.ok()) return bootstrap::ToGrpc(use.status());
    const absl::StatusOr<ResourceUsage> usage = parts_.host->LeaseUsage(lease);
    if (!usage.ok()) return bootstrap::ToGrpc(usage.status());
    *reply->mutable_lease_usage() = bootstrap::ToProto(*usage);
    return grpc::Status::OK;
  }

  const bootstrap::ServiceParts parts_;
  UsageAccumulator* const accumulator_;
};

}  // namespace

bootstrap::ServiceFactory MakeAccountingService(UsageAccumulator* accumulator) {
  return [accumulator](const bootstrap::ServiceParts& parts) {
    return std::make_unique<AccountingService>(parts, accumulator);
  };
}

}  // namespace invoker
