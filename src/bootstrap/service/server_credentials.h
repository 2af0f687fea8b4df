// What a server's port does with connections and requests before any service sees them: TLS, with
// certificates as their files are at each handshake, and a caller for every request of every
// service, health checks excepted.
//
// Plaintext ports check callers too, which gRPC's C++ interface has no way for: these credentials
// are of its C interface.

#ifndef INVOKER_SRC_BOOTSTRAP_SERVICE_SERVER_CREDENTIALS_H_
#define INVOKER_SRC_BOOTSTRAP_SERVICE_SERVER_CREDENTIALS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/security/access_control.h"
#include "src/security/certificates.h"

// gRPC's headers cost ten seconds a file: those who need more than the name include them.
namespace grpc {
class ServerCredentials;
}  // namespace grpc

namespace invoker::bootstrap {

struct PortSecurity {
  // No certificate: plaintext. With authorities, clients must have a certificate that one of them
  // has signed.
  security::CertificatePaths tls;
  // Outlives the server; nullptr: nobody is asked who they are.
  security::AccessControl* access = nullptr;
};

// FAILED_PRECONDITION or NOT_FOUND says which file is no good.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const PortSecurity& security);

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_SERVICE_SERVER_CREDENTIALS_H_
