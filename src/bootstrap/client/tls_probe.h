// What is wrong with TLS between this machine and a port: a handshake of our own, whose failure
// says more than gRPC passes on. Blocks. Any thread.

#ifndef INVOKER_SRC_BOOTSTRAP_CLIENT_TLS_PROBE_H_
#define INVOKER_SRC_BOOTSTRAP_CLIENT_TLS_PROBE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/security/certificates.h"

namespace invoker::bootstrap {

// How the client meets the server.
struct TlsSettings {
  security::Certificates certificates;
  std::string authorities_file;  // for messages
  std::string certificate_file;  // the same; empty: the client has none
  std::string server_name;       // that the certificate must have; empty: the host
};

// OK if a handshake with these settings works, or nothing could be found out within `timeout`.
// UNAUTHENTICATED says what either side holds against the other's certificate;
// FAILED_PRECONDITION: no TLS is spoken there.
absl::Status ProbeTls(const HostPort& target, const TlsSettings& settings, absl::Duration timeout);

// Whether what listens there answers a TLS handshake in TLS.
bool SpeaksTls(const HostPort& target, absl::Duration timeout);

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_CLIENT_TLS_PROBE_H_
