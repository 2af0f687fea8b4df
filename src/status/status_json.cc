#include "src/status/status_json.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/clock.h"

namespace invoker::status {
namespace {

using bootstrap::Refusals;
using Json = nlohmann::ordered_json;

// The calls in each bucket, up to the last one that has some.
Json TimesOf(const LatencyHistogram& times) {
  size_t size = times.counts.size();
  while (size > 0 && times.counts[size - 1] == 0) --size;
  return Json(std::vector<uint64_t>(times.counts.begin(), times.counts.begin() + size));
}

// Where each bucket ends, but for the last one, which has no end.
Json BucketEnds() {
  Json ends = Json::array();
  for (size_t i = 0; i + 1 < LatencyBuckets::kCount; ++i) {
    ends.push_back(static_cast<double>(LatencyBuckets::EndNs(i)) / 1e3);
  }
  return ends;
}

Json FunctionsOf(const bootstrap::FunctionTable& table, const char* executors) {
  Json rows = Json::array();
  for (const auto& [key, counts] : table.rows()) {
    Json row;
    row["function"] = key.first;
    row["fabric"] = key.second;
    row["executors"] = executors;
    row["calls"] = counts.calls;
    row["failures"] = counts.failures;
    row["bytes_in"] = counts.bytes_in;
    row["bytes_out"] = counts.bytes_out;
    row["p50_us"] = QuantileSeconds(counts.time, 0.5) * 1e6;
    row["p99_us"] = QuantileSeconds(counts.time, 0.99) * 1e6;
    row["times"] = TimesOf(counts.time);
    rows.push_back(std::move(row));
  }
  return rows;
}

Json ExecutorsOf(const bootstrap::ExecutorsStatus& executors) {
  return {{"starting", executors.starting},
          {"idle", executors.idle},
          {"busy", executors.busy},
          {"starts", executors.starts},
          {"cold_starts", executors.cold_starts},
          {"sessions", executors.sessions},
          {"requests_waiting", executors.requests_waiting}};
}

Json LostOf(const std::vector<bootstrap::LostLease>& leases) {
  Json rows = Json::array();
  for (const bootstrap::LostLease& each : leases) {
    rows.push_back({{"lease", each.lease},
                    {"tenant", each.tenant},
                    {"at", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", each.at, absl::UTCTimeZone())},
                    {"reason", each.reason}});
  }
  return rows;
}

Json ReasonsOf(const Refusals& refusals) {
  Json reasons = Json::object();
  for (const auto& [reason, count] : refusals) reasons[reason] = count;
  return reasons;
}

}  // namespace

Json LeasesJson(const std::vector<bootstrap::UsageRecord>& open) {
  Json leases = Json::array();
  for (const bootstrap::UsageRecord& record : open) {
    leases.push_back({{"lease", record.lease},
                      {"tenant", record.tenant},
                      {"executors", record.executors},
                      {"held_s", absl::ToDoubleSeconds(record.held())},
                      {"cpu_s", absl::ToDoubleSeconds(record.usage.cpu_time)},
                      {"calls", record.usage.calls}});
  }
  return leases;
}

double QuantileSeconds(const LatencyHistogram& times, double quantile) {
  const double rank = quantile * static_cast<double>(times.total());
  if (rank <= 0) return 0;
  double before = 0;
  for (size_t i = 0; i < times.counts.size(); ++i) {
    const auto count = static_cast<double>(times.counts[i]);
    if (before + count < rank) {
      before += count;
      continue;
    }
    const double from = i == 0 ? 0 : static_cast<double>(LatencyBuckets::EndNs(i - 1));
    // The last bucket has no end.
    if (i + 1 == times.counts.size()) return from / 1e9;
    const double to = static_cast<double>(LatencyBuckets::EndNs(i));
    return (from + (to - from) * (rank - before) / count) / 1e9;
  }
  return 0;
}

std::string StatusJson(const bootstrap::ServerStatus& status) {
  const bootstrap::WorkerStatus& worker = status.worker;
  Json json;
  json["server"] = status.address;
  json["version"] = status.version;
  json["uptime_s"] = absl::ToInt64Seconds(absl::Now() - status.started);
  json["draining"] = status.draining;
  json["fabrics"] = status.fabrics;
  json["executors"] = {{"shared", ExecutorsOf(worker.shared)},
                       {"leased", ExecutorsOf(worker.leased)}};
  json["leases"] = {{"shared", worker.leases_shared},   {"own", worker.leases_own},
                    {"waiting", worker.leases_waiting}, {"open", LeasesJson(status.open_leases)},
                    {"lost", worker.leases_lost},       {"last_lost", LostOf(worker.last_lost)}};
  json["capacity"] = {{"cores", status.capacity.cores},
                      {"free_cores", status.capacity.free_cores},
                      {"memory", status.capacity.memory_bytes},
                      {"free_memory", status.capacity.free_memory_bytes}};
  json["bucket_ends_us"] = BucketEnds();
  json["functions"] = FunctionsOf(worker.shared.functions, "shared");
  for (Json& row : FunctionsOf(worker.leased.functions, "leased")) {
    json["functions"].push_back(std::move(row));
  }
  json["dropped"] = Json::object();
  for (const bootstrap::DropCount& drop : worker.drops) json["dropped"][drop.reason] = drop.count;
  json["refused_connections"] = ReasonsOf(status.refused_connections);
  json["refused_sessions"] = status.refused_sessions;
  json["refused_requests"] = status.refused_requests;
  json["certificates"] = Json::array();
  for (const auto& [subject, end] : status.certificates) {
    json["certificates"].push_back(
        {{"subject", subject}, {"ends", absl::FormatTime(end, absl::UTCTimeZone())}});
  }
  // A name with bytes that are not UTF-8 must not end the server.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace invoker::status
