#include "src/status/metrics_text.h"

#include <utility>

#include "src/status/metric_families.h"

namespace invoker::status {
namespace {

using bootstrap::Refusals;
using bootstrap::ServerStatus;

constexpr char kShared[] = "shared";
constexpr char kLeased[] = "leased";

void AddFunctions(const bootstrap::WorkerStatus& worker, Families* families) {
  CallFamilies calls({"invoker_", "Functions run.", "Functions run that said that they failed.",
                      "Payloads of the requests that ran.", "Payloads of the responses to these.",
                      "Time that an executor spent on a call, from its turning to it to the "
                      "function's end; of calls that are answered later, from when their function "
                      "put them off."});
  calls.Add(worker.shared.functions, {{"executors", kShared}});
  calls.Add(worker.leased.functions, {{"executors", kLeased}});
  families->Add(std::move(calls));
}

void AddExecutors(const bootstrap::WorkerStatus& worker, Families* families) {
  Family executors("invoker_executors", "Executors, by what they do now.", Family::Type::Gauge);
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
}

// A gauge with a value for each kind of executors.
void AddOfBoth(const char* name, const char* help, uint64_t shared, uint64_t leased,
               Families* families) {
  Family family(name, help, Family::Type::Gauge);
  family.Add(shared, {{"executors", kShared}});
  family.Add(leased, {{"executors", kLeased}});
  families->Add(std::move(family));
}

void AddHoldings(const bootstrap::WorkerStatus& worker, Families* families) {
  AddOfBoth("invoker_sessions", "Sessions that are open.", worker.shared.sessions,
            worker.leased.sessions, families);
  AddOfBoth("invoker_requests_waiting",
            "Writes of requests that executors have taken from their fabrics, and not turned to "
            "yet.",
            worker.shared.requests_waiting, worker.leased.requests_waiting, families);
  AddOfBoth("invoker_registered_bytes",
            "Memory registered with fabrics: by the server's own process, and by executors of "
            "leases.",
            worker.shared.registered_bytes, worker.leased.registered_bytes, families);
}

void AddLeases(const ServerStatus& status, Families* families) {
  AddOfBoth("invoker_leases", "Leases that are open.", status.worker.leases_shared,
            status.worker.leases_own, families);
  families->AddGauge("invoker_leases_waiting", "Leases that wait in line.",
                     status.worker.leases_waiting);
  families->AddCounter("invoker_leases_lost_total", "Leases that an executor's end has ended.",
                       status.worker.leases_lost);
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
  Family family(name, help, Family::Type::Counter);
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
  Family build("invoker_build_info", "Always 1.", Family::Type::Gauge);
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
                       "Endpoints of shared executors that take no more sessions; replaced where "
                       "that is possible.",
                       status.worker.endpoints_given_up);
  families->AddGauge("invoker_bulk_bytes",
                     "Memory in use for payloads that are larger than the windows.",
                     static_cast<double>(status.bulk_bytes));
  Family ends("invoker_certificate_expiry_timestamp_seconds",
              "When a certificate of the server ends, in Unix time.", Family::Type::Gauge);
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
  AddHoldings(status.worker, &families);
  AddLeases(status, &families);
  AddRefusals(status, &families);
  AddServer(status, &families);
  return families.Text();
}

}  // namespace invoker::status
