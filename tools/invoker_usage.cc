// `invoker usage`: who has used what of a worker. Asks the bootstrap only, so it needs no fabric.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/invoker_cli.h"

namespace invoker::tools {
namespace {

using bootstrap::UsageRecord;

struct Settings {
  ServerSettings server;
  std::string tenant;
  bool json = false;
};

std::string Seconds(absl::Duration time) {
  return absl::StrFormat("%.3fs", absl::ToDoubleSeconds(time));
}

// What the first column says of a record that is no open lease's, and in JSON "kind".
const char* KindOf(const UsageRecord& record) {
  if (record.contributed) return "elsewhere";
  return record.open ? "open" : "ended";
}

std::string ExecutorsOf(const UsageRecord& record) {
  if (!record.open) return "-";
  return record.executors == 0 ? "shared" : absl::StrCat(record.executors);
}

// Columns as wide as their widest entry; the first two are text, the others numbers.
std::string Align(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - row[i].size(), ' ');
      absl::StrAppend(&text, i == 0 ? "" : "  ", i < 2 ? row[i] : gap, i < 2 ? gap : row[i]);
    }
    text += '\n';
  }
  return text;
}

std::string AsTable(const std::vector<UsageRecord>& records) {
  std::vector<std::vector<std::string>> rows = {
      {"LEASE", "TENANT", "EXECUTORS", "LEASE-SECONDS", "CPU TIME", "GIB-SECONDS", "CALLS",
       "FUNCTION TIME", "POLLING TIME", "BYTES IN", "BYTES OUT"}};
  for (const UsageRecord& record : records) {
    const ResourceUsage& usage = record.usage;
    rows.push_back({record.open ? absl::StrCat(record.lease) : KindOf(record),
                    record.tenant.empty() ? "-" : record.tenant, ExecutorsOf(record),
                    Seconds(usage.lease_time), Seconds(usage.cpu_time),
                    absl::StrFormat("%.3f", static_cast<double>(usage.memory_byte_seconds) /
                                                static_cast<double>(1 << 30)),
                    absl::StrCat(usage.calls), Seconds(usage.function_time),
                    Seconds(usage.polling_time), absl::StrCat(usage.bytes_in),
                    absl::StrCat(usage.bytes_out)});
  }
  return Align(rows);
}

nlohmann::ordered_json AsJson(const UsageRecord& record) {
  const ResourceUsage& usage = record.usage;
  nlohmann::ordered_json entry;
  entry["kind"] = KindOf(record);
  if (record.open) {
    entry["lease"] = record.lease;
    entry["executors"] = record.executors;
  }
  entry["tenant"] = record.tenant;
  entry["lease_us"] = absl::ToInt64Microseconds(usage.lease_time);
  entry["cpu_us"] = absl::ToInt64Microseconds(usage.cpu_time);
  entry["memory_byte_seconds"] = usage.memory_byte_seconds;
  entry["calls"] = usage.calls;
  entry["function_ns"] = absl::ToInt64Nanoseconds(usage.function_time);
  entry["polling_ns"] = absl::ToInt64Nanoseconds(usage.polling_time);
  entry["bytes_in"] = usage.bytes_in;
  entry["bytes_out"] = usage.bytes_out;
  return entry;
}

std::string AsJson(const std::string& server, const std::vector<UsageRecord>& records) {
  nlohmann::ordered_json line;
  line["server"] = server;
  line["usage"] = nlohmann::json::array();
  for (const UsageRecord& record : records) line["usage"].push_back(AsJson(record));
  // A name with bytes that are not UTF-8 must not end the program.
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::StatusOr<std::string> Ask(const Settings& settings, bootstrap::BootstrapClient* client,
                                absl::Duration timeout) {
  absl::StatusOr<std::vector<UsageRecord>> records = client->GetUsage(settings.tenant, timeout);
  if (!records.ok()) return records.status();
  return settings.json ? AsJson(client->target(), *records) : AsTable(*records);
}

}  // namespace

Command AddUsageCommand(CLI::App* app, CLI::App** command) {
  auto settings = std::make_shared<Settings>();
  *command = app->add_subcommand(
      "usage",
      "Prints who used what: open leases first, then what each tenant's ended leases used in all, "
      "then what other servers have added here.");
  AddServerOptions(*command, &settings->server);
  (*command)
      ->add_option("--tenant", settings->tenant, "this one's only; by default everybody's")
      ->type_name("NAME");
  (*command)->add_flag("--json", settings->json, "print one line of JSON instead");
  return [settings] { return PrintAnswer(*settings, Ask); };
}

}  // namespace invoker::tools
