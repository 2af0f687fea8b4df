// A server's metrics for Prometheus (/metrics), its status for programs (/status.json), and a page
// for people (/).

#ifndef INVOKER_SRC_STATUS_STATUS_SERVER_H_
#define INVOKER_SRC_STATUS_STATUS_SERVER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "src/status/http_server.h"
#include "src/status/status_service.h"

namespace invoker::status {

// `options` without pages, which this adds. Errors as HttpServer::Start's.
absl::StatusOr<std::unique_ptr<HttpServer>> StartStatusServer(HttpOptions options,
                                                              StatusReader reader);

}  // namespace invoker::status

#endif  // INVOKER_SRC_STATUS_STATUS_SERVER_H_
