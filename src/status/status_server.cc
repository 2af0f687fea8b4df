#include "src/status/status_server.h"

#include <utility>

#include "src/status/metrics_text.h"
#include "src/status/status_json.h"
#include "src/status/status_page.h"

namespace invoker::status {

absl::StatusOr<std::unique_ptr<HttpServer>> StartStatusServer(HttpOptions options,
                                                              StatusReader reader) {
  options.pages["/"] = {kPageContentType, [] { return std::string(StatusPage()); }};
  options.pages[kJsonPath] = {kJsonContentType, [reader] { return StatusJson(reader()); }};
  options.pages["/metrics"] = {kMetricsContentType, [reader] { return MetricsText(reader()); }};
  return HttpServer::Start(std::move(options));
}

}  // namespace invoker::status
