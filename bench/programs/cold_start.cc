// What it takes from nothing to the first result: starting a server, connecting to it step by step,
// the first call. Each round starts a server of its own, and connects clients to it of two kinds:
// new clients in this process, where libfabric and gRPC are ready, and new processes
// (bench/peers/cold_client), which pay for all of it. Then executors of a lease's own, from a pool
// and without (lease_start.h).

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/harness/client_options.h"
#include "bench/harness/distribution.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/harness/server_process.h"
#include "bench/programs/lease_start.h"
#include "invoker/client.h"
#include "src/invoke/connect/connect_times.h"
#include "src/transport/reactor/reactor.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "cold_start";
constexpr char kColdClient[] = "bench/peers/cold_client";

// What a process pays for libfabric alone: its own program, which lists its providers and ends.
constexpr char kFabricProgram[] = "/usr/bin/fi_info";

constexpr size_t kBytes = 64;

// The number of each kind, for each server.
constexpr int kClients = 5;

// In the order in which they happen.
enum Phase {
  kServerStart,
  kExec,
  kWorkerInfo,
  kDiscovery,
  kLease,
  kEndpoint,
  kSession,
  kProbe,
  kFirstCall,
  kPhases
};

struct Meaning {
  const char* name;
  const char* text;
};
constexpr std::array<Meaning, kPhases> kMeanings = {{
    {"server_start", "invoker_server from its start to its ready line"},
    {"exec", "the client's process from its start to main"},
    {"worker_info", "the gRPC channel, and what the worker tells of itself"},
    {"discovery", "which of the worker's fabrics this machine has (fi_getinfo)"},
    {"lease", "a lease's stream, up to the grant"},
    {"endpoint", "our endpoint, and our windows' memory registered"},
    {"session", "OpenSession: the worker allocates and registers its half"},
    {"probe", "the first bytes through the data path and back"},
    {"first_call", "the first call of noop, 64 B"},
}};

// What one client took, by phase; 0 where it has none.
using Steps = std::array<int64_t, kPhases>;

// One kind of client's, round by round.
struct Series {
  std::array<Rounds, kPhases> phases;
  Rounds total;

  void BeginRound() {
    for (Rounds& rounds : phases) rounds.emplace_back();
    total.emplace_back();
  }
  // `total_ns` holds what lies between the steps, too.
  void Add(const Steps& steps, int64_t total_ns) {
    for (size_t i = 0; i < kPhases; ++i) phases[i].back().push_back(steps[i]);
    total.back().push_back(total_ns);
  }
};

struct Results {
  Series running;  // new clients in this process
  Series process;  // new processes
  Rounds server;
  Rounds everything;  // a server's start, and the first client process of it
  Rounds fabric;      // libfabric's own program
};

void TakeTimes(const ConnectTimes& times, Steps* steps) {
  (*steps)[kWorkerInfo] = absl::ToInt64Nanoseconds(times.worker_info);
  (*steps)[kDiscovery] = absl::ToInt64Nanoseconds(times.discovery);
  (*steps)[kLease] = absl::ToInt64Nanoseconds(times.lease);
  (*steps)[kEndpoint] = absl::ToInt64Nanoseconds(times.endpoint);
  (*steps)[kSession] = absl::ToInt64Nanoseconds(times.session);
  (*steps)[kProbe] = absl::ToInt64Nanoseconds(times.probe);
}

absl::Status ConnectHere(const std::string& target, const std::string& provider, Series* series) {
  ConnectTimes times;
  ClientOptions options = OptionsFor(provider);
  options.times = &times;
  const std::string input(kBytes, 'x');
  const int64_t began_ns = transport::MonotonicNs();
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(target, options);
  const int64_t connected_ns = transport::MonotonicNs();
  if (!client.ok()) return client.status();
  const absl::StatusOr<RemoteFunction> noop = (*client)->Function("noop");
  if (!noop.ok()) return noop.status();
  const absl::Status called = (*client)->Invoke(*noop, input).status();
  const int64_t result_ns = transport::MonotonicNs();
  if (!called.ok()) return called;
  if (series == nullptr) return absl::OkStatus();
  Steps steps = {};
  TakeTimes(times, &steps);
  steps[kFirstCall] = result_ns - connected_ns;
  series->Add(steps, result_ns - began_ns);
  return absl::OkStatus();
}

// Returns its total.
absl::StatusOr<int64_t> StartClient(const CommonOptions& options, const std::string& target,
                                    const std::string& provider, Series* series) {
  ServerProcess::Options process;
  process.command = {kColdClient, target, provider};
  process.core = options.client_core;
  const int64_t began_ns = transport::MonotonicNs();
  const absl::StatusOr<std::unique_ptr<ServerProcess>> client = ServerProcess::Start(process);
  if (!client.ok()) return client.status();
  // What cold_client prints: two moments around the steps of connecting, and one more.
  std::array<int64_t, 9> numbers;
  const std::vector<absl::string_view> words = absl::StrSplit((*client)->first_line(), ' ');
  bool valid = words.size() == numbers.size();
  for (size_t i = 0; valid && i < words.size(); ++i) {
    valid = absl::SimpleAtoi(words[i], &numbers[i]);
  }
  if (!valid) {
    return absl::InternalError(absl::StrCat("cold_client printed \"", (*client)->first_line(),
                                            "\", and not ", numbers.size(), " integers"));
  }
  Steps steps = {};
  steps[kExec] = numbers[0] - began_ns;
  for (size_t i = 0; i < 6; ++i) steps[kWorkerInfo + i] = numbers[1 + i];
  steps[kFirstCall] = numbers[8] - numbers[7];
  const int64_t total_ns = numbers[8] - began_ns;
  series->Add(steps, total_ns);
  return total_ns;
}

absl::StatusOr<int64_t> StartFabricProgram(const CommonOptions& options) {
  ServerProcess::Options process;
  process.command = {kFabricProgram, "-l"};
  process.core = options.client_core;
  const int64_t began_ns = transport::MonotonicNs();
  const absl::Status started = ServerProcess::Start(process).status();
  if (!started.ok()) return started;
  return transport::MonotonicNs() - began_ns;
}

absl::Status MeasureRound(const CommonOptions& options, const std::string& provider,
                          Results* results) {
  const int64_t began_ns = transport::MonotonicNs();
  const absl::StatusOr<InvokerServer> server =
      StartInvokerServer(options.server_core, provider, options.address, {});
  const int64_t server_ns = transport::MonotonicNs() - began_ns;
  if (!server.ok()) return server.status();
  results->server.push_back({server_ns});
  const absl::StatusOr<int64_t> fabric_ns = StartFabricProgram(options);
  if (!fabric_ns.ok()) return fabric_ns.status();
  results->fabric.push_back({*fabric_ns});
  results->running.BeginRound();
  results->process.BeginRound();
  for (int i = 0; i < kClients; ++i) {
    const absl::StatusOr<int64_t> total_ns =
        StartClient(options, server->target, provider, &results->process);
    if (!total_ns.ok()) return total_ns.status();
    if (i == 0) results->everything.push_back({server_ns + *total_ns});
  }
  for (int i = 0; i < kClients; ++i) {
    // The first one in this process finds libfabric unready.
    const bool counts = i > 0 || results->server.size() > 1;
    absl::Status status =
        ConnectHere(server->target, provider, counts ? &results->running : nullptr);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void AddPhases(const std::string& provider, absl::string_view client, const Series& series,
               Table* table) {
  for (size_t i = kExec; i < kPhases; ++i) {
    const Distribution times = Summarize(series.phases[i]);
    if (times.max == 0) continue;
    table->rows.emplace_back()
        .Label("provider", provider)
        .Label("client", client)
        .Label("step", static_cast<int64_t>(i))
        .Label("phase", kMeanings[i].name)
        .Times(times);
  }
}

void AddResults(const std::string& provider, const Results& results, Table* phases, Table* totals) {
  phases->rows.emplace_back()
      .Label("provider", provider)
      .Label("client", "none")
      .Label("step", int64_t{kServerStart})
      .Label("phase", kMeanings[kServerStart].name)
      .Times(Summarize(results.server));
  AddPhases(provider, "new_process", results.process, phases);
  AddPhases(provider, "running_process", results.running, phases);
  const auto add = [&](absl::string_view what, const Rounds& rounds) {
    totals->rows.emplace_back()
        .Label("provider", provider)
        .Label("from", what)
        .Times(Summarize(rounds));
  };
  add("running_process", results.running.total);
  add("new_process", results.process.total);
  add("new_server_and_process", results.everything);
  add("libfabric_alone", results.fabric);
}

absl::Status Run(const CommonOptions& options, Report* report) {
  if (absl::Status status = PinToCore(options.client_core); !status.ok()) return status;
  GatherConditions(options, report);
  report->Condition("clients of each server", absl::StrCat(kClients, " of each kind"));
  Table& phases = report->AddTable("phases", "Each step, in its order");
  Table& totals = report->AddTable("totals", "All steps together, up to the first result");
  Table& lease_phases = report->AddTable("lease_phases", "An executor of one's own, step by step");
  Table& lease_totals =
      report->AddTable("lease_totals", "An executor of one's own, up to its first result");
  for (const std::string& provider : options.providers) {
    Results results;
    for (int round = 0; round < options.rounds; ++round) {
      if (absl::Status status = MeasureRound(options, provider, &results); !status.ok()) {
        return absl::Status(status.code(), absl::StrCat(provider, ": ", status.message()));
      }
    }
    AddResults(provider, results, &phases, &totals);
    absl::Status leases = MeasureLeaseStarts(options, provider, &lease_phases, &lease_totals);
    if (!leases.ok()) {
      return absl::Status(leases.code(), absl::StrCat(provider, ": ", leases.message()));
    }
  }
  for (size_t i = 0; i < kPhases; ++i) {
    report->Note(absl::StrCat(i, " ", kMeanings[i].name, ": ", kMeanings[i].text));
  }
  report->Note(
      "running_process: a new client in a process that has had others. new_process: a new process "
      "with its first client. new_server_and_process: a server, and then such a process. "
      "libfabric_alone: `fi_info -l` up to its first line, which is what exec and discovery are "
      "made of.");
  report->Note(
      "rFaaS's authors publish about 25 ms from a cold start to the first result. That is their "
      "figure, on their hardware, and was not measured here.");
  ExplainLeaseStarts(report);
  Plot plot;
  plot.title = "From nothing to the first result, step by step (p50, us)";
  plot.table = "phases";
  plot.x = "step";
  plot.y = "p50_us";
  plot.series = {"provider", "client"};
  plot.log_x = false;
  report->AddPlot(std::move(plot));
  return absl::OkStatus();
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) {
  using namespace invoker;
  CLI::App app("What it takes from nothing to the first result, step by step", bench::kProgram);
  bench::CommonOptions options;
  bench::AddCommonOptions(&app, &options);
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  bench::Report report(bench::kProgram, "How long from nothing to the first result?");
  return bench::Finish(options, report, bench::Run(options, &report));
}
