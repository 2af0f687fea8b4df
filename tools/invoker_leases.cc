// `invoker leases` and `invoker drain`: what an operator sees and ends. Both ask the bootstrap
// only, so they need no fabric.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "src/status/status_json.h"
#include "tools/invoker_cli.h"
#include "tools/status_text.h"

namespace invoker::tools {
namespace {

using bootstrap::BootstrapClient;
using bootstrap::UsageRecord;

constexpr char kRow[] = "%-9s %-24s %9s %12s %12s %9s\n";

struct LeasesSettings {
  ServerSettings server;
  bool json = false;
  uint64_t number = 0;
};

struct DrainSettings {
  ServerSettings server;
};

std::string AsTable(const std::vector<UsageRecord>& open) {
  std::string text =
      absl::StrFormat(kRow, "LEASE", "TENANT", "EXECUTORS", "HELD", "CPU TIME", "CALLS");
  for (const UsageRecord& record : open) {
    const auto seconds = [](absl::Duration time) {
      return absl::StrFormat("%.1fs", absl::ToDoubleSeconds(time));
    };
    absl::StrAppendFormat(&text, kRow, absl::StrCat(record.lease),
                          record.tenant.empty() ? "-" : ShowName(record.tenant, 24),
                          record.executors == 0 ? "shared" : absl::StrCat(record.executors),
                          seconds(record.held()), seconds(record.usage.cpu_time),
                          ShowCount(record.usage.calls));
  }
  return text;
}

std::string AsJson(const std::string& server, const std::vector<UsageRecord>& open) {
  const nlohmann::ordered_json all = {{"server", server}, {"leases", status::LeasesJson(open)}};
  return absl::StrCat(all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), "\n");
}

absl::StatusOr<std::string> List(const LeasesSettings& settings, BootstrapClient* client,
                                 absl::Duration timeout) {
  absl::StatusOr<std::vector<UsageRecord>> records = client->GetUsage("", timeout);
  if (!records.ok()) return records.status();
  std::vector<UsageRecord> open;
  for (UsageRecord& record : *records) {
    if (record.open) open.push_back(std::move(record));
  }
  return settings.json ? AsJson(client->target(), open) : AsTable(open);
}

absl::StatusOr<std::string> End(const LeasesSettings& settings, BootstrapClient* client,
                                absl::Duration timeout) {
  absl::Status status = client->EndLease(settings.number, timeout);
  if (!status.ok()) return status;
  return absl::StrCat("lease ", settings.number, " has ended\n");
}

absl::StatusOr<std::string> Drain(const DrainSettings&, BootstrapClient* client,
                                  absl::Duration timeout) {
  absl::Status status = client->Drain(timeout);
  if (!status.ok()) return status;
  return absl::StrCat(client->target(), " takes nothing new, and ends once what runs has run\n");
}

}  // namespace

Command AddLeasesCommand(CLI::App* app, CLI::App** command) {
  auto settings = std::make_shared<LeasesSettings>();
  *command = app->add_subcommand("leases",
                                 "Prints the open leases of a server: numbers, tenants, executors, "
                                 "and what they have used so far.");
  AddServerOptions(*command, &settings->server);
  (*command)->add_flag("--json", settings->json, "print one line of JSON instead");
  CLI::App* const end = (*command)->add_subcommand(
      "end",
      "Ends a lease at once, whatever runs under it; its client hears of it. Options of leases "
      "stand "
      "before the word \"end\". A policy must let the caller (operates), unless the lease is its "
      "own.");
  end->add_option("lease", settings->number, "its number")->required()->type_name("NUMBER");
  return [settings, end] { return PrintAnswer(*settings, end->parsed() ? End : List); };
}

Command AddDrainCommand(CLI::App* app, CLI::App** command) {
  auto settings = std::make_shared<DrainSettings>();
  *command = app->add_subcommand(
      "drain",
      "Ends a server as SIGTERM does: it takes no new leases, sessions and calls, and ends once "
      "what runs has run (invoker_server --drain-timeout). A policy must let the caller "
      "(operates).");
  AddServerOptions(*command, &settings->server);
  return [settings] { return PrintAnswer(*settings, Drain); };
}

}  // namespace invoker::tools
