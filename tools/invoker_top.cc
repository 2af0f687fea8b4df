// `invoker top`: which functions run how often and how long, on one server or several, again and
// again. Rates and times are those since the look before.

#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "src/bootstrap/client/client.h"
#include "src/cluster/member_watch.h"
#include "src/status/status_json.h"
#include "tools/interrupt.h"
#include "tools/invoker_cli.h"
#include "tools/status_text.h"

namespace invoker::tools {
namespace {

using bootstrap::BootstrapClient;
using bootstrap::FunctionCounts;
using bootstrap::FunctionTable;
using bootstrap::ServerStatus;

constexpr char kRow[] = "%-29s %-14s %8s %8s %8s %8s\n";

struct Settings {
  ServerSettings server;
  absl::Duration interval = absl::Seconds(1);
  std::string sort = "rate";
  uint32_t looks = 0;  // 0: until it is interrupted
};

// One server, and what it said last.
struct Watched {
  std::unique_ptr<BootstrapClient> client;
  FunctionTable functions;
};
using Servers = std::map<std::string, Watched>;  // by address

struct Row {
  FunctionTable::Key key;
  FunctionCounts since;  // the look before
  double rate = 0;
};

// What has been counted since. A server that was started again begins at 0.
uint64_t Since(uint64_t now, uint64_t before) { return now >= before ? now - before : now; }

FunctionCounts Since(const FunctionCounts& now, const FunctionCounts& before) {
  FunctionCounts since;
  since.calls = Since(now.calls, before.calls);
  since.failures = Since(now.failures, before.failures);
  for (size_t i = 0; i < now.time.counts.size(); ++i) {
    since.time.counts[i] = Since(now.time.counts[i], before.time.counts[i]);
  }
  return since;
}

// The status of a server; connects again if it has to. nullopt, and in `trouble` why not.
absl::optional<ServerStatus> Look(const Settings& settings, const std::string& name,
                                  Watched* server, std::string* trouble) {
  const absl::Duration timeout = settings.server.client.connect_timeout;
  if (server->client == nullptr) {
    auto client = BootstrapClient::Connect(name, timeout, settings.server.client.credentials);
    if (client.ok()) {
      server->client = *std::move(client);
    } else {
      absl::StrAppend(trouble, ShowName(client.status().message(), 80), "\n");
      return absl::nullopt;
    }
  }
  absl::StatusOr<ServerStatus> status = server->client->GetStatus(timeout);
  if (status.ok()) return *std::move(status);
  absl::StrAppend(trouble, ShowName(status.status().message(), 80), "\n");
  server->client.reset();
  return absl::nullopt;
}

void Sort(const std::string& by, std::vector<Row>* rows) {
  const auto key = [&by](const Row& row) {
    if (by == "failed") return static_cast<double>(row.since.failures);
    if (by == "p50") return status::QuantileSeconds(row.since.time, 0.5);
    if (by == "p99") return status::QuantileSeconds(row.since.time, 0.99);
    return by == "name" ? 0 : row.rate;
  };
  std::stable_sort(rows->begin(), rows->end(),
                   [&key](const Row& a, const Row& b) { return key(a) > key(b); });
}

// One screen.
std::string Compose(const Settings& settings, Servers* servers, double seconds) {
  std::string trouble;
  bootstrap::WorkerStatus sum;
  size_t answered = 0;
  std::map<FunctionTable::Key, FunctionCounts> since;
  for (auto& [name, server] : *servers) {
    const absl::optional<ServerStatus> status = Look(settings, name, &server, &trouble);
    if (!status.has_value()) continue;
    ++answered;
    const bootstrap::WorkerStatus& worker = status->worker;
    for (const auto& [part, all] :
         {std::pair(&worker.shared, &sum.shared), std::pair(&worker.leased, &sum.leased)}) {
      all->busy += part->busy;
      all->idle += part->idle;
    }
    sum.sessions += worker.sessions;
    sum.leases_own += worker.leases_own;
    sum.leases_waiting += worker.leases_waiting;
    FunctionTable now = worker.shared.functions;
    now.Add(worker.leased.functions);
    for (const auto& [key, counts] : now.rows()) {
      const auto before = server.functions.rows().find(key);
      since[key].Add(before == server.functions.rows().end() ? counts
                                                             : Since(counts, before->second));
    }
    server.functions = std::move(now);
  }
  std::vector<Row> rows;
  for (auto& [key, counts] : since) {
    const double rate = seconds > 0 ? static_cast<double>(counts.calls) / seconds : 0;
    rows.push_back({key, counts, rate});
  }
  Sort(settings.sort, &rows);
  std::string text = absl::StrFormat(
      "%d of %d servers; executors busy: %d of %d shared, %d of %d leased\n"
      "%d sessions, %d leases with executors, %d waiting\n\n",
      answered, servers->size(), sum.shared.busy, sum.shared.busy + sum.shared.idle,
      sum.leased.busy, sum.leased.busy + sum.leased.idle, sum.sessions, sum.leases_own,
      sum.leases_waiting);
  absl::StrAppendFormat(&text, kRow, "FUNCTION", "FABRIC", "CALLS/S", "FAILED", "P50", "P99");
  for (const Row& row : rows) {
    absl::StrAppendFormat(&text, kRow, ShowName(row.key.first, 29), ShowName(row.key.second, 14),
                          ShowCount(row.rate), ShowCount(static_cast<double>(row.since.failures)),
                          ShowTime(status::QuantileSeconds(row.since.time, 0.5)),
                          ShowTime(status::QuantileSeconds(row.since.time, 0.99)));
  }
  return text + trouble;
}

// Those that there are now; what was seen of them before stays.
void Keep(const std::vector<cluster::Member>& members, Servers* servers) {
  Servers now;
  for (const cluster::Member& member : members) {
    now[member.server] = std::move((*servers)[member.server]);
  }
  *servers = std::move(now);
}

int Run(const Settings& settings) {
  absl::StatusOr<std::unique_ptr<cluster::MemberWatch>> watch =
      cluster::MemberWatch::Start(settings.server.server, settings.server.client.cluster);
  if (!watch.ok()) return FailConnect(watch.status());
  Servers servers;
  const absl::StatusOr<std::vector<cluster::Member>> members =
      (*watch)->AwaitMembers(settings.server.client.connect_timeout);
  if (!members.ok()) return FailConnect(members.status());
  Keep(*members, &servers);
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  Interrupt interrupt;
  Compose(settings, &servers, 0);
  absl::Time before = absl::Now();
  for (uint32_t looks = 0; settings.looks == 0 || looks < settings.looks; ++looks) {
    if (interrupt.WaitFor(settings.interval)) break;
    Keep((*watch)->Now(), &servers);
    const absl::Time now = absl::Now();
    std::string text = Compose(settings, &servers, absl::ToDoubleSeconds(now - before));
    before = now;
    // Home, and then each line over the one that is there: without a flicker.
    if (terminal) {
      text = absl::StrCat("\x1b[H", absl::StrReplaceAll(text, {{"\n", "\x1b[K\n"}}), "\x1b[J");
      if (looks == 0) text = absl::StrCat("\x1b[2J", text);
    } else {
      text += '\n';
    }
    if (absl::Status status = Print(text); !status.ok()) return Fail(status);
  }
  return kExitOk;
}

}  // namespace

Command AddTopCommand(CLI::App* app, CLI::App** command) {
  auto settings = std::make_shared<Settings>();
  *command = app->add_subcommand(
      "top",
      "Shows, again and again, how often each function runs and how long it takes, on one server "
      "or on several together. On a terminal each screen replaces the one before. Ctrl-C ends it.");
  AddServersOption(*command, &settings->server);
  AddDuration(*command, "--interval", &settings->interval, "how long to wait between two looks");
  (*command)
      ->add_option("--sort", settings->sort, "what the first function has most of")
      ->check(CLI::IsMember({"rate", "failed", "p50", "p99", "name"}))
      ->type_name("rate|failed|p50|p99|name")
      ->capture_default_str();
  (*command)
      ->add_option("--looks", settings->looks, "how many screens to show; 0: until Ctrl-C")
      ->type_name("N")
      ->capture_default_str();
  return [settings] { return Run(*settings); };
}

}  // namespace invoker::tools
