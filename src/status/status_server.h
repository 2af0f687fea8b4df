// A server's metrics for Prometheus (/metrics), its status for programs (/status.json), and a page
// for people (/).

#ifndef INVOKER_SRC_STATUS_STATUS_SERVER_H_
#define INVOKER_SRC_STATUS_STATUS_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "src/security/access_control.h"
#include "src/security/certificates.h"
#include "src/status/http_server.h"
#include "src/status/status_service.h"

namespace invoker::status {

struct StatusOptions {
  std::string listen;              // HOST:PORT; port 0 picks a free one
  security::CertificatePaths tls;  // the bootstrap's
  bool allow_plaintext = false;
  security::AccessControl* access = nullptr;  // outlives what is returned
};

// Errors as HttpServer::Start's.
absl::StatusOr<std::unique_ptr<HttpServer>> StartStatusServer(const StatusOptions& options,
                                                              StatusReader reader);

}  // namespace invoker::status

#endif  // INVOKER_SRC_STATUS_STATUS_SERVER_H_
