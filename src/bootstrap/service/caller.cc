#include "src/bootstrap/service/caller.h"

#include <grpc/grpc_security.h>
#include <grpc/grpc_security_constants.h>

#include "src/bootstrap/service/machine.h"
#include "src/security/token.h"

namespace invoker::bootstrap {
namespace {

constexpr char kSubject[] = "x509_subject";  // has no constant of gRPC's

void Add(absl::string_view name, absl::string_view value, security::Shown* shown) {
  if (name == kSubject) {
    shown->certificate_subject = std::string(value);
  } else if (name == GRPC_X509_SAN_PROPERTY_NAME) {
    shown->certificate_names.emplace_back(value);
  }
}

}  // namespace

security::Shown CertificateOf(const grpc_auth_context* connection) {
  security::Shown shown;
  // Without a verified certificate the server has asked for none.
  if (grpc_auth_context_peer_is_authenticated(connection) == 0) return shown;
  grpc_auth_property_iterator properties = grpc_auth_context_property_iterator(connection);
  while (const grpc_auth_property* each = grpc_auth_property_iterator_next(&properties)) {
    Add(each->name, absl::string_view(each->value, each->value_length), &shown);
  }
  return shown;
}

security::Shown CertificateOf(const grpc::AuthContext& connection) {
  security::Shown shown;
  if (!connection.IsPeerAuthenticated()) return shown;
  for (const auto& [name, value] : connection) {
    Add({name.data(), name.size()}, {value.data(), value.size()}, &shown);
  }
  return shown;
}

absl::StatusOr<security::Caller> CallerOf(const grpc::ServerContextBase& context,
                                          security::AccessControl* access) {
  if (access == nullptr || !access->required()) return security::Caller();
  const auto [first, end] = context.client_metadata().equal_range(security::kTokenMetadata);
  // Neither of two is to be believed: somebody on the way may look at the other one.
  absl::string_view authorization;
  if (first != end) {
    authorization = std::next(first) == end
                        ? absl::string_view(first->second.data(), first->second.size())
                        : absl::string_view("twice");
  }
  const std::shared_ptr<const grpc::AuthContext> connection = context.auth_context();
  return access->Identify(authorization,
                          connection == nullptr ? security::Shown() : CertificateOf(*connection));
}

absl::StatusOr<LeaseTable::Use> AcquireFor(const grpc::ServerContextBase& context,
                                           security::AccessControl* access, LeaseTable* leases,
                                           uint64_t lease) {
  const absl::StatusOr<security::Caller> caller = CallerOf(context, access);
  if (!caller.ok()) return caller.status();
  return leases->Acquire(lease, caller->name);
}

std::string PeerMachine(const grpc::ServerContextBase& context) {
  return MachineOf(context.peer());
}

}  // namespace invoker::bootstrap
