// What a port that speaks TLS without gRPC needs from OpenSSL: certificates as their files are at
// each handshake, and what a client's certificate says.

#ifndef INVOKER_SRC_STATUS_TLS_CONTEXT_H_
#define INVOKER_SRC_STATUS_TLS_CONTEXT_H_

#include <openssl/ssl.h>

#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "src/security/certificates.h"
#include "src/security/policy.h"

namespace invoker::status {

// Any thread.
class TlsContext {
 public:
  explicit TlsContext(security::CertificatePaths paths) : paths_(std::move(paths)) {}

  // Reads the files for the first time. FAILED_PRECONDITION or NOT_FOUND says which is no good.
  absl::Status Load();
  // Has `context` ask here at each handshake. This outlives it.
  void Use(SSL_CTX* context);

 private:
  // 1: the handshake goes on.
  static int OnHandshake(SSL* connection, void* self);
  absl::Status Apply(const security::Certificates& certificates, SSL* connection) const;
  std::shared_ptr<const security::Certificates> Current();

  const security::CertificatePaths paths_;
  std::mutex mutex_;
  std::vector<security::FileStamp> stamps_;  // the files that were read, or are no good
  std::shared_ptr<const security::Certificates> current_;  // the last that could be used
};

// Empty if the client has shown no certificate, or none that was verified.
security::Shown ShownOn(const SSL* connection);

}  // namespace invoker::status

#endif  // INVOKER_SRC_STATUS_TLS_CONTEXT_H_
