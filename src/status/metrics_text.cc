#include "src/status/metrics_text.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cstddef>
#include <limits>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "src/base/latency_histogram.h"

namespace invoker::status {
namespace {

using bootstrap::FunctionCounts;
using bootstrap::FunctionTable;
using bootstrap::Refusals;
using bootstrap::ServerStatus;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

using Labels = std::vector<std::pair<std::string, std::string>>;

ClientMetric Labelled(const Labels& labels) {
  ClientMetric metric;
  for (const auto& [name, value] : labels) metric.label.push_back({name, value});
  return metric;
}

// One metric: its name, what it means, and its values.
class Family {
 public:
  Family(std::string name, std::string help, MetricType type) {
    family_.name = std::move(name);
    family_.help = std::move(help);
    family_.type = type;
  }

  void Add(double value, const Labels& labels = {}) {
    ClientMetric metric = Labelled(labels);
    if (family_.type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    family_.metric.push_back(std::move(metric));
  }
  void Add(uint64_t value, const Labels& labels = {}) { Add(static_cast<double>(value), labels); }

  void Add(const LatencyHistogram& times, const Labels& labels) {
    ClientMetric metric = Labelled(labels);
    uint64_t sum = 0;
    for (size_t i = 0; i < times.counts.size(); ++i) {
      sum += times.counts[i];
      const bool last = i + 1 == times.counts.size();
      metric.histogram.bucket.push_back(
          {sum, last ? std::numeric_limits<double>::infinity()
                     : static_cast<double>(LatencyBuckets::EndNs(i)) / 1e9});
    }
    metric.histogram.sample_count = sum;
    metric.histogram.sample_sum = static_cast<double>(times.sum_ns) / 1e9;
    family_.metric.push_back(std::move(metric));
  }

  MetricFamily Take() { return std::move(family_); }

 private:
  MetricFamily family_;
};

class Families {
 public:
  void Add(Family family) { all_.push_back(family.Take()); }
  void AddCounter(const char* name, const char* help, uint64_t value) {
    Family family(name, help, MetricType::Counter);
    family.Add(value);
    Add(std::move(family));
  }
  void AddGauge(const char* name, const char* help, double value) {
    Family family(name, help, MetricType::Gauge);
    family.Add(value);
    Add(std::move(family));
  }

  std::string Text() const {
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, all_);
    return text.str();
  }

 private:
  std::vector<MetricFamily> all_;
};

constexpr char kShared[] = "shared";
constexpr char kLeased[] = "leased";

void AddFunctions(const bootstrap::WorkerStatus& worker, Families* families) {
  Family calls("invoker_calls_total", "Functions run.", MetricType::Counter);
  Family failures("invoker_call_failures_total", "Functions run that said that they failed.",
                  MetricType::Counter);
  Family bytes_in("invoker_request_bytes_total", "Payloads of the requests that ran.",
                  MetricType::Counter);
  Family bytes_out("invoker_response_bytes_total", "Payloads of the responses to these.",
                   MetricType::Counter);
  Family times("invoker_call_duration_seconds",
               "Time that an executor spent on a call, from its turning to it to the function's "
               "end.",
               MetricType::Histogram);
  const auto add = [&](const FunctionTable& table, const char* executors) {
    for (const auto& [key, counts] : table.rows()) {
      const Labels labels = {
          {"function", key.first}, {"fabric", key.second}, {"executors", executors}};
      calls.Add(counts.calls, labels);
      failures.Add(counts.failures, labels);
      bytes_in.Add(counts.bytes_in, labels);
      bytes_out.Add(counts.bytes_out, labels);
      times.Add(counts.time, labels);
    }
  };
  add(worker.shared.functions, kShared);
  add(worker.leased.functions, kLeased);
  for (Family* family : {&calls, &failures, &bytes_in, &bytes_out, &times}) {
    families->Add(std::move(*family));
  }
}

void AddExecutors(const bootstrap::WorkerStatus& worker, Families* families) {
  Family executors("invoker_executors", "Executors, by what they do now.", MetricType::Gauge);
  const auto add = [&executors](const bootstrap::ExecutorsStatus& status, const char* kind) {
    for (const auto& [state, count] :
         {std::pair("starting", status.starting), std::pair("idle", status.idle),
          std::pair("busy", status.busy)}) {
      executors.Add(uint64_t{count}, {{"executors", kind}, {"state", state}});
    }
  };
  add(worker.shared, kShared);
  add(worker.leased, kLeased);
  families->Add(std::move(executors));
  families->AddCounter("invoker_executor_starts_total",
                       "Executors' processes that leases have got.", worker.leased.starts);
  families->AddCounter("invoker_executor_cold_starts_total",
                       "Of these, how many had to be started first.", worker.leased.cold_starts);
  families->AddGauge("invoker_sessions", "Sessions that are open on shared executors.",
                     worker.sessions);
}

void AddLeases(const ServerStatus& status, Families* families) {
  Family leases("invoker_leases", "Leases that are open.", MetricType::Gauge);
  leases.Add(uint64_t{status.worker.leases_shared}, {{"executors", kShared}});
  leases.Add(uint64_t{status.worker.leases_own}, {{"executors", kLeased}});
  families->Add(std::move(leases));
  families->AddGauge("invoker_leases_waiting", "Leases that wait in line.",
                     status.worker.leases_waiting);
  const bootstrap::Capacity& capacity = status.capacity;
  families->AddGauge("invoker_lease_cores", "Cores that clients may lease, all together.",
                     capacity.cores);
  families->AddGauge("invoker_lease_cores_free", "Of these, how many are free.",
                     capacity.free_cores);
  families->AddGauge("invoker_lease_memory_bytes", "Memory that clients may lease.",
                     static_cast<double>(capacity.memory_bytes));
  families->AddGauge("invoker_lease_memory_free_bytes", "Of this, how much is free.",
                     static_cast<double>(capacity.free_memory_bytes));
}

void AddReasons(const char* name, const char* help, const Refusals& refusals, Families* families) {
  Family family(name, help, MetricType::Counter);
  for (const auto& [reason, count] : refusals) family.Add(count, {{"reason", reason}});
  families->Add(std::move(family));
}

void AddRefusals(const ServerStatus& status, Families* families) {
  Refusals drops;
  for (const bootstrap::DropCount& drop : status.worker.drops) {
    drops.emplace_back(drop.reason, drop.count);
  }
  AddReasons("invoker_dropped_messages_total", "Messages of peers that led to nothing.", drops,
             families);
  AddReasons("invoker_refused_connections_total", "Connections that were closed at once.",
             status.refused_connections, families);
  AddReasons("invoker_refused_session_tokens_total", "Tokens of sessions that were refused.",
             status.refused_session_tokens, families);
  families->AddCounter("invoker_refused_sessions_total",
                       "Sessions that were refused because of a limit or of their endpoint.",
                       status.refused_sessions);
  families->AddCounter("invoker_refused_requests_total",
                       "Requests that were refused for want of a token or a tenant.",
                       status.refused_requests);
}

void AddServer(const ServerStatus& status, Families* families) {
  Family build("invoker_build_info", "Always 1.", MetricType::Gauge);
  build.Add(1.0, {{"version", status.version}});
  families->Add(std::move(build));
  families->AddGauge("invoker_start_time_seconds", "When the server started, in Unix time.",
                     absl::ToDoubleSeconds(status.started - absl::UnixEpoch()));
  families->AddGauge("invoker_draining", "1 if the server takes no more calls.",
                     status.draining ? 1 : 0);
  families->AddCounter("invoker_downgrades_total",
                       "Sessions whose clients gave up write-with-immediate.",
                       status.worker.downgrades);
  families->AddCounter("invoker_endpoints_given_up_total",
                       "Endpoints that take no more sessions; replaced where that is possible.",
                       status.worker.endpoints_given_up);
  families->AddGauge("invoker_registered_bytes",
                     "Memory that the server's own process has registered with fabrics.",
                     static_cast<double>(status.worker.registered_bytes));
  families->AddGauge("invoker_bulk_bytes",
                     "Memory in use for payloads that are larger than the windows.",
                     static_cast<double>(status.bulk_bytes));
  Family ends("invoker_certificate_expiry_timestamp_seconds",
              "When a certificate of the server ends, in Unix time.", MetricType::Gauge);
  for (const auto& [subject, end] : status.certificates) {
    ends.Add(absl::ToDoubleSeconds(end - absl::UnixEpoch()), {{"subject", subject}});
  }
  families->Add(std::move(ends));
}

}  // namespace

std::string MetricsText(const ServerStatus& status) {
  Families families;
  AddFunctions(status.worker, &families);
  AddExecutors(status.worker, &families);
  AddLeases(status, &families);
  AddRefusals(status, &families);
  AddServer(status, &families);
  return families.Text();
}

}  // namespace invoker::status
