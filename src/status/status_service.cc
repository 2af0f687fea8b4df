#include "src/status/status_service.h"

#include <grpcpp/server_context.h>

#include <memory>
#include <utility>

#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/conversion/convert_status.h"
#include "src/bootstrap/service/caller.h"
#include "src/bootstrap/service/service_support.h"
#include "src/security/access_control.h"

namespace invoker::status {
namespace {

namespace v1 = bootstrap::v1;

class StatusService final : public v1::Status::Service {
 public:
  StatusService(const bootstrap::ServiceParts& parts, StatusReader reader)
      : parts_(parts), reader_(std::move(reader)) {}

  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest*,
                         v1::GetStatusReply* reply) override {
    bootstrap::Mark(context);
    const absl::StatusOr<security::Caller> caller = bootstrap::CallerOf(*context, parts_.access);
    if (!caller.ok()) return bootstrap::ToGrpc(caller.status());
    if (absl::Status sees = security::CheckSeesOthers(*caller); !sees.ok()) {
      return bootstrap::ToGrpc(sees);
    }
    *reply = bootstrap::ToProto(reader_());
    return grpc::Status::OK;
  }

 private:
  const bootstrap::ServiceParts parts_;
  const StatusReader reader_;
};

}  // namespace

bootstrap::ServiceFactory MakeStatusService(StatusReader reader) {
  return [reader = std::move(reader)](const bootstrap::ServiceParts& parts) {
    return std::make_unique<StatusService>(parts, reader);
  };
}

}  // namespace invoker::status
