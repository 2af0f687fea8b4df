// The service Bootstrap of proto/bootstrap.proto, in front of a SessionHost.
//
// Unary methods have threads of their own, since the host may block in them; lease streams have
// none, since there may be thousands.

#ifndef INVOKER_SRC_BOOTSTRAP_SERVICE_BOOTSTRAP_SERVICE_H_
#define INVOKER_SRC_BOOTSTRAP_SERVICE_BOOTSTRAP_SERVICE_H_

#include "absl/status/statusor.h"
#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/lease/lease_table.h"
#include "src/bootstrap/messages/session_host.h"
#include "src/bootstrap/service/lease_reactor.h"
#include "src/bootstrap/service/session_tokens.h"
#include "src/security/access_control.h"

namespace invoker::bootstrap {

class BootstrapService final
    : public v1::Bootstrap::WithCallbackMethod_Lease<v1::Bootstrap::Service> {
 public:
  // All must outlive the service; `access` may be nullptr.
  BootstrapService(const LeaseTimes& times, SessionHost* host, LeaseTable* table,
                   SessionTokens* tokens, security::AccessControl* access)
      : times_(times), host_(host), table_(table), tokens_(tokens), access_(access) {}

  grpc::Status GetWorkerInfo(grpc::ServerContext* context, const v1::GetWorkerInfoRequest* message,
                             v1::GetWorkerInfoReply* reply) override;
  grpc::ServerBidiReactor<v1::LeaseRequest, v1::LeaseEvent>* Lease(
      grpc::CallbackServerContext* context) override;
  grpc::Status OpenSession(grpc::ServerContext* context, const v1::OpenSessionRequest* message,
                           v1::OpenSessionReply* reply) override;
  grpc::Status SwitchNotification(grpc::ServerContext* context,
                                  const v1::SwitchNotificationRequest* message,
                                  v1::SwitchNotificationReply* reply) override;
  grpc::Status FindRequest(grpc::ServerContext* context, const v1::FindRequestRequest* message,
                           v1::FindRequestReply* reply) override;
  grpc::Status CloseSession(grpc::ServerContext* context, const v1::CloseSessionRequest* message,
                            v1::CloseSessionReply* reply) override;

 private:
  absl::StatusOr<OpenSessionReply> Open(const grpc::ServerContext& context,
                                        const v1::OpenSessionRequest& message);

  const LeaseTimes times_;
  SessionHost* const host_;
  LeaseTable* const table_;
  SessionTokens* const tokens_;
  security::AccessControl* const access_;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_SERVICE_BOOTSTRAP_SERVICE_H_
