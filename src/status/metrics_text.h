// A server's status as Prometheus reads it.

#ifndef INVOKER_SRC_STATUS_METRICS_TEXT_H_
#define INVOKER_SRC_STATUS_METRICS_TEXT_H_

#include <string>

#include "src/bootstrap/messages/worker_status.h"

namespace invoker::status {

inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

// In Prometheus's text format. docs/guide/watching.md lists the metrics.
std::string MetricsText(const bootstrap::ServerStatus& status);

}  // namespace invoker::status

#endif  // INVOKER_SRC_STATUS_METRICS_TEXT_H_
