// `invoker ping`: round trips through an executor, without a function.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "src/transport/reactor/reactor.h"
#include "tools/interrupt.h"
#include "tools/invoker_cli.h"
#include "tools/latency_summary.h"

namespace invoker::tools {
namespace {

constexpr uint32_t kMaxCount = 100'000'000;
// More pings than this are not worth a line each.
constexpr uint32_t kMostLines = 100;

struct Settings {
  ServerSettings server;
  uint32_t count = 10;
  uint64_t size = 64;
  absl::Duration interval = absl::ZeroDuration();
  absl::Duration timeout = absl::Seconds(5);
  bool quiet = false;
  bool json = false;
};

struct Outcome {
  uint32_t sent = 0;
  uint32_t timed_out = 0;
  std::vector<int64_t> round_trips_ns;
};

// Pings until the count is reached, the user interrupts, or something other than a timeout goes
// wrong.
absl::Status PingAll(const Settings& settings, Client* client, Interrupt* interrupt,
                     Outcome* outcome) {
  const bool lines = !settings.quiet && !settings.json && settings.count <= kMostLines;
  std::vector<std::byte> payload(settings.size);
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i);
  outcome->round_trips_ns.reserve(settings.count);
  CallOptions options;
  options.timeout = settings.timeout;
  while (outcome->sent < settings.count) {
    if (outcome->sent > 0 && interrupt->WaitFor(settings.interval)) break;
    ++outcome->sent;
    const int64_t start_ns = transport::MonotonicNs();
    const absl::Status status = client->Ping(payload, options);
    const int64_t round_trip_ns = transport::MonotonicNs() - start_ns;
    std::string line;
    if (status.ok()) {
      outcome->round_trips_ns.push_back(round_trip_ns);
      line = absl::StrFormat("%d bytes from %s: seq=%d time=%.1f us\n", settings.size,
                             settings.server.server, outcome->sent, round_trip_ns / 1e3);
    } else if (absl::IsDeadlineExceeded(status)) {
      ++outcome->timed_out;
      line = absl::StrFormat("no answer from %s: seq=%d after %s\n", settings.server.server,
                             outcome->sent, absl::FormatDuration(settings.timeout));
    } else {
      return status;
    }
    if (!lines) continue;
    if (absl::Status printed = Print(line); !printed.ok()) return printed;
  }
  return absl::OkStatus();
}

std::string AsText(const Settings& settings, const Client& client, const Outcome& outcome,
                   const LatencySummary& latency) {
  std::string text = absl::StrFormat(
      "--- %s, provider %s, notification %s, %d bytes ---\n%d sent, %d answered, %d timed out\n",
      settings.server.server, client.provider(),
      std::string(NotificationName(client.notification())), settings.size, outcome.sent,
      outcome.round_trips_ns.size(), outcome.timed_out);
  if (!client.downgrade_reason().empty()) {
    absl::StrAppend(&text, "note: ", client.downgrade_reason(), "\n");
  }
  if (!outcome.round_trips_ns.empty()) {
    absl::StrAppendFormat(&text, "min/p50/p99/max = %.1f/%.1f/%.1f/%.1f us\n", latency.min_us,
                          latency.p50_us, latency.p99_us, latency.max_us);
  }
  return text;
}

std::string AsJson(const Settings& settings, const Client& client, const Outcome& outcome,
                   const LatencySummary& latency) {
  nlohmann::ordered_json line;
  line["server"] = settings.server.server;
  line["provider"] = client.provider();
  line["fabric_choice"] = client.fabric_choice();
  line["notification"] = NotificationName(client.notification());
  line["downgrade_reason"] = client.downgrade_reason();
  line["executor"] = client.executor();
  line["size"] = settings.size;
  line["sent"] = outcome.sent;
  line["count"] = outcome.round_trips_ns.size();
  line["timed_out"] = outcome.timed_out;
  if (!outcome.round_trips_ns.empty()) {
    line["min_us"] = latency.min_us;
    line["p50_us"] = latency.p50_us;
    line["p99_us"] = latency.p99_us;
    line["max_us"] = latency.max_us;
  }
  // A reason may quote bytes that are not UTF-8, which must not end the program.
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int Run(const Settings& settings) {
  int exit_code = kExitOk;
  const std::unique_ptr<Client> client = Connect(settings.server, &exit_code);
  if (client == nullptr) return exit_code;
  if (settings.size > client->max_payload()) {
    return Fail(absl::InvalidArgumentError(absl::StrCat("a ping of ", settings.size,
                                                        " bytes is more than the session's window "
                                                        "takes: at most ",
                                                        client->max_payload(),
                                                        " (--window on the server)")));
  }
  // After connecting, which an interrupt ends in the usual way.
  Interrupt interrupt;
  if (!settings.json && !settings.quiet) {
    const absl::Status printed = Print(
        absl::StrCat("PING ", settings.server.server, " over ", client->fabric_choice(), "\n"));
    if (!printed.ok()) return Fail(printed);
  }
  Outcome outcome;
  const absl::Status status = PingAll(settings, client.get(), &interrupt, &outcome);
  const LatencySummary latency = Summarize(&outcome.round_trips_ns);
  const absl::Status printed = Print(settings.json ? AsJson(settings, *client, outcome, latency)
                                                   : AsText(settings, *client, outcome, latency));
  if (!status.ok()) return Fail(status);
  if (!printed.ok()) return Fail(printed);
  return outcome.timed_out == 0 ? kExitOk : kExitTimeout;
}

}  // namespace

Command AddPingCommand(CLI::App* app, CLI::App** command) {
  auto settings = std::make_shared<Settings>();
  *command = app->add_subcommand(
      "ping", "Measures round trips through an executor. Ends early, with the summary, on Ctrl-C.");
  AddServerOptions(*command, &settings->server);
  AddFabricOptions(*command, &settings->server);
  (*command)
      ->add_option("--count", settings->count, "how many pings")
      ->type_name("N")
      ->check(CLI::Range(uint32_t{1}, kMaxCount))
      ->capture_default_str();
  AddBytes(*command, "--size", &settings->size, "bytes there and back");
  AddDuration(*command, "--interval", &settings->interval, "from an answer to the next ping");
  AddDuration(*command, "--timeout", &settings->timeout, "for each ping");
  (*command)->add_flag("--quiet", settings->quiet, "print the summary only");
  (*command)->add_flag("--json", settings->json, "print the summary only, as one line of JSON");
  return [settings] { return Run(*settings); };
}

}  // namespace invoker::tools
