// Who has sent a request, as a service sees it. Any thread.
//
// Only source files of services include this header: gRPC's own are slow to compile.

#ifndef INVOKER_SRC_BOOTSTRAP_SERVICE_CALLER_H_
#define INVOKER_SRC_BOOTSTRAP_SERVICE_CALLER_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/bootstrap/lease/lease_table.h"
#include "src/security/access_control.h"

struct grpc_auth_context;

namespace invoker::bootstrap {

// What the connection's certificate says, once the server has verified it; empty without one.
security::Shown CertificateOf(const grpc_auth_context* connection);
security::Shown CertificateOf(const grpc::AuthContext& connection);

// `access` may be nullptr: nobody is asked.
absl::StatusOr<security::Caller> CallerOf(const grpc::ServerContextBase& context,
                                          security::AccessControl* access);

// LeaseTable::Acquire, for the caller.
absl::StatusOr<LeaseTable::Use> AcquireFor(const grpc::ServerContextBase& context,
                                           security::AccessControl* access, LeaseTable* leases,
                                           uint64_t lease);

// The machine at the other end, as MachineOf names it.
std::string PeerMachine(const grpc::ServerContextBase& context);

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_SERVICE_CALLER_H_
