// The service Memory of proto/bootstrap.proto, in front of a SessionHost: clients say which of
// their memory the executor of a session may read and write.

#ifndef INVOKER_SRC_BOOTSTRAP_SERVICE_MEMORY_SERVICE_H_
#define INVOKER_SRC_BOOTSTRAP_SERVICE_MEMORY_SERVICE_H_

#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/lease/lease_table.h"
#include "src/bootstrap/messages/session_host.h"
#include "src/security/access_control.h"

namespace invoker::bootstrap {

// Methods run on gRPC's threads, several at a time, and may block for as long as the host does.
class MemoryService final : public v1::Memory::Service {
 public:
  // All outlive the service; `access` may be nullptr.
  MemoryService(SessionHost* host, LeaseTable* table, security::AccessControl* access)
      : host_(host), table_(table), access_(access) {}

  grpc::Status RegisterWindow(grpc::ServerContext* context,
                              const v1::RegisterWindowRequest* message,
                              v1::RegisterWindowReply* reply) override;
  grpc::Status ForgetWindow(grpc::ServerContext* context, const v1::ForgetWindowRequest* message,
                            v1::ForgetWindowReply* reply) override;

 private:
  SessionHost* const host_;
  LeaseTable* const table_;
  security::AccessControl* const access_;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_SERVICE_MEMORY_SERVICE_H_
