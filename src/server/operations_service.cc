#include "src/server/operations_service.h"

#include <grpcpp/server_context.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/lease/lease_table.h"
#include "src/bootstrap/service/caller.h"
#include "src/bootstrap/service/machine.h"
#include "src/bootstrap/service/service_support.h"
#include "src/log/log.h"
#include "src/security/access_control.h"

namespace invoker {
namespace {

namespace v1 = bootstrap::v1;

std::string InWords(const std::string& tenant) {
  return tenant.empty() ? "an operator" : absl::StrCat("tenant \"", tenant, "\"");
}

class OperationsService final : public v1::Operations::Service {
 public:
  OperationsService(const bootstrap::ServiceParts& parts, std::function<void()> drain)
      : parts_(parts), drain_(std::move(drain)) {}

  grpc::Status EndLease(grpc::ServerContext* context, const v1::EndLeaseRequest* request,
                        v1::EndLeaseReply*) override {
    bootstrap::Mark(context);
    const absl::StatusOr<security::Caller> caller = bootstrap::CallerOf(*context, parts_.access);
    if (!caller.ok()) return bootstrap::ToGrpc(caller.status());
    const absl::StatusOr<bootstrap::LeaseIdentity> found =
        parts_.host->FindLease(request->number());
    const bool own = found.ok() && caller->tenant != nullptr && found->tenant == caller->name;
    if (absl::Status status = CheckOperates(*context, *caller); !own && !status.ok()) {
      return bootstrap::ToGrpc(status);
    }
    if (!found.ok()) return bootstrap::ToGrpc(found.status());
    LeaseEnd end;
    end.cause = LeaseEndCause::kServer;
    end.reason = absl::StrCat(InWords(caller->name), " has ended it");
    LogInfo(absl::StrCat("a lease ends: ", end.reason), {request->number(), 0});
    parts_.leases->OnEnded(found->lease, end);
    return grpc::Status::OK;
  }

  grpc::Status Drain(grpc::ServerContext* context, const v1::DrainRequest*,
                     v1::DrainReply*) override {
    bootstrap::Mark(context);
    const absl::StatusOr<security::Caller> caller = bootstrap::CallerOf(*context, parts_.access);
    if (!caller.ok()) return bootstrap::ToGrpc(caller.status());
    if (absl::Status status = CheckOperates(*context, *caller); !status.ok()) {
      return bootstrap::ToGrpc(status);
    }
    if (!drain_) {
      return bootstrap::ToGrpc(absl::UnimplementedError(
          "this server is a part of another program, which ends it: end that program"));
    }
    LogInfo(absl::StrCat(InWords(caller->name), " has asked for the end (invoker drain)"));
    drain_();
    return grpc::Status::OK;
  }

 private:
  absl::Status CheckOperates(const grpc::ServerContext& context,
                             const security::Caller& caller) const {
    if (caller.tenant != nullptr) {
      if (caller.tenant->operates) return absl::OkStatus();
      return absl::PermissionDeniedError(absl::StrCat("this server's policy does not let tenant \"",
                                                      caller.name,
                                                      "\" operate the server (operates)"));
    }
    const bool asked = parts_.access != nullptr && parts_.access->required();
    if (asked || bootstrap::PeerMachine(context) == bootstrap::kLoopback) return absl::OkStatus();
    return absl::PermissionDeniedError(
        "this server asks nobody who they are, so it takes this from its own machine only: connect "
        "to it as 127.0.0.1 or ::1 there, or start it with --token-file or --policy");
  }

  const bootstrap::ServiceParts parts_;
  const std::function<void()> drain_;
};

}  // namespace

bootstrap::ServiceFactory MakeOperationsService(std::function<void()> drain) {
  return [drain = std::move(drain)](const bootstrap::ServiceParts& parts) {
    return std::make_unique<OperationsService>(parts, drain);
  };
}

}  // namespace invoker
