// The service Memory of proto/bootstrap.proto, in front of a SessionHost: clients say which of
// their memory the executor of a session may read and write.

#ifndef INVOKER_SRC_BOOTSTRAP_MEMORY_SERVICE_H_
#define INVOKER_SRC_BOOTSTRAP_MEMORY_SERVICE_H_

#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/lease_table.h"
#include "src/bootstrap/session_host.h"

namespace invoker::bootstrap {

// Methods run on gRPC's threads, several at a time, and may block for as long as the host does.
class MemoryService final : public v1::Memory::Service {
 public:
  // Both outlive the service.
  MemoryService(SessionHost* host, LeaseTable* table) : host_(host), table_(table) {}

  grpc::Status RegisterWindow(grpc::ServerContext* context,
                              const v1::RegisterWindowRequest* message,
                              v1::RegisterWindowReply* reply) override;
  grpc::Status ForgetWindow(grpc::ServerContext* context, const v1::ForgetWindowRequest* message,
                            v1::ForgetWindowReply* reply) override;

 private:
  SessionHost* const host_;
  LeaseTable* const table_;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_MEMORY_SERVICE_H_
