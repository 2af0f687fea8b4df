#include "src/status/status_server.h"

#include <utility>

#include "src/status/metrics_text.h"
#include "src/status/status_json.h"
#include "src/status/status_page.h"

namespace invoker::status {

absl::StatusOr<std::unique_ptr<HttpServer>> StartStatusServer(const StatusOptions& options,
                                                              StatusReader reader) {
  HttpOptions http;
  http.listen = options.listen;
  http.tls = options.tls;
  http.allow_plaintext = options.allow_plaintext;
  http.access = options.access;
  http.pages["/"] = {kPageContentType, [] { return std::string(StatusPage()); }};
  http.pages[kJsonPath] = {kJsonContentType, [reader] { return StatusJson(reader()); }};
  http.pages["/metrics"] = {kMetricsContentType, [reader] { return MetricsText(reader()); }};
  return HttpServer::Start(std::move(http));
}

}  // namespace invoker::status
