// `invoker status`: what a worker does and has, in lines of at most 80 characters. Asks the
// bootstrap only, so it needs no fabric, and waits for no executor.

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "src/status/status_json.h"
#include "tools/invoker_cli.h"
#include "tools/status_text.h"

namespace invoker::tools {
namespace {

using bootstrap::ExecutorsStatus;
using bootstrap::ServerStatus;

constexpr char kRow[] = "%-21s %-12s %-6s %8s %8s %9s %9s\n";

struct Settings {
  ServerSettings server;
  bool json = false;
};

std::string Describe(const ExecutorsStatus& executors) {
  const uint32_t all = executors.busy + executors.idle;
  return absl::StrCat(
      executors.busy, " of ", all, " busy",
      executors.starting == 0 ? "" : absl::StrCat(", ", executors.starting, " starting"));
}

void AppendFunctions(const ExecutorsStatus& executors, const char* kind, std::string* text) {
  for (const auto& [key, counts] : executors.functions.rows()) {
    absl::StrAppendFormat(text, kRow, ShowName(key.first, 21), ShowName(key.second, 12), kind,
                          ShowCount(counts.calls), ShowCount(counts.failures),
                          ShowTime(status::QuantileSeconds(counts.time, 0.5)),
                          ShowTime(status::QuantileSeconds(counts.time, 0.99)));
  }
}

std::string AsText(const ServerStatus& status) {
  const bootstrap::WorkerStatus& worker = status.worker;
  const bootstrap::Capacity& capacity = status.capacity;
  const absl::Duration up = absl::Trunc(absl::Now() - status.started, absl::Seconds(1));
  std::string text = absl::StrCat(
      ShowName(status.address, 60), ": ", status.draining ? "draining" : "serving", ", started ",
      absl::FormatDuration(up), " ago\n", "invoker     ", ShowName(status.version, 60), "\n",
      "fabrics     ", ShowName(absl::StrJoin(status.fabrics, ", "), 68), "\n",
      "executors   shared: ", Describe(worker.shared), "; leased: ", Describe(worker.leased), "\n",
      "requests    ", worker.shared.requests_waiting, " wait at shared executors, ",
      worker.leased.requests_waiting, " at leased ones\n", "sessions    ", worker.shared.sessions,
      " on shared executors, ", worker.leased.sessions, " on leased ones\n", "leases      ",
      worker.leases_own, " with executors, ", worker.leases_shared, " without, ",
      worker.leases_waiting, " waiting, ", worker.leases_lost, " lost\n");
  if (capacity.cores > 0) {
    absl::StrAppend(&text, "to lease    ", capacity.free_cores, " of ", capacity.cores,
                    " cores and ", ShowBytes(capacity.free_memory_bytes), " of ",
                    ShowBytes(capacity.memory_bytes), " are free\n");
  }
  for (const auto& [subject, end] : status.certificates) {
    absl::StrAppend(&text, "certificate ", ShowName(subject, 40), " ends ",
                    absl::FormatTime("%Y-%m-%d", end, absl::UTCTimeZone()), "\n");
  }
  text += '\n';
  absl::StrAppendFormat(&text, kRow, "FUNCTION", "FABRIC", "BY", "CALLS", "FAILED", "P50", "P99");
  AppendFunctions(worker.shared, "shared", &text);
  AppendFunctions(worker.leased, "leased", &text);
  return text;
}

absl::StatusOr<std::string> Ask(const Settings& settings, bootstrap::BootstrapClient* client,
                                absl::Duration timeout) {
  absl::StatusOr<ServerStatus> status = client->GetStatus(timeout);
  if (!status.ok()) return status.status();
  return settings.json ? status::StatusJson(*status) : AsText(*status);
}

}  // namespace

Command AddStatusCommand(CLI::App* app, CLI::App** command) {
  auto settings = std::make_shared<Settings>();
  *command = app->add_subcommand(
      "status",
      "Prints what a server does and has: fabrics, executors, sessions, leases, and for each "
      "function the calls that ran, those that failed, and how long one takes.");
  AddServerOptions(*command, &settings->server);
  (*command)->add_flag("--json", settings->json, "print one line of JSON instead");
  return [settings] { return PrintAnswer(*settings, Ask); };
}

}  // namespace invoker::tools
