// A server's status for the status page and for programs.

#ifndef INVOKER_SRC_STATUS_STATUS_JSON_H_
#define INVOKER_SRC_STATUS_STATUS_JSON_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "src/base/latency_histogram.h"
#include "src/bootstrap/messages/worker_status.h"

namespace invoker::status {

// One line. docs/guide/watching.md says what is in it.
std::string StatusJson(const bootstrap::ServerStatus& status);

// An array: open leases, by the numbers that people know.
nlohmann::ordered_json LeasesJson(const std::vector<bootstrap::UsageRecord>& open);

// The duration that a share `quantile` of the counts stays within, in seconds, as Prometheus would
// estimate it; 0: nothing was counted.
double QuantileSeconds(const LatencyHistogram& times, double quantile);

}  // namespace invoker::status

#endif  // INVOKER_SRC_STATUS_STATUS_JSON_H_
