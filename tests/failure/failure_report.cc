// What every kind of failure does to the calls that it meets, on every fabric. See --help.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "src/log/log.h"
#include "src/transport/provider/provider_profile.h"
#include "tests/failure/network_path.h"
#include "tests/failure/scenarios.h"
#include "tests/failure/soft_roce_cable.h"
#include "tests/integration/child_process.h"
#include "tools/options.h"

namespace invoker::failure {
namespace {

struct Options {
  bench::CommonOptions common;
  std::vector<std::string> only;
  size_t outstanding = 256;
  uint64_t warm_calls = 2000;
  absl::Duration peer_timeout = absl::Seconds(1);
  absl::Duration patience = kPatience;
  // Longer is wrong too.
  absl::Duration within;  // peer_timeout, unless given
  absl::Duration next_within = absl::Milliseconds(10);
  absl::Duration others_within = absl::Milliseconds(200);
  bool network = true;
  std::optional<bool> between_posts;  // else where processes share memory
  bool soft_roce = false;
};

int Failed(const absl::Status& status) {
  LogError(status.message());
  return tools::kExitFailed;
}

bool Wanted(const Options& options, const Scenario& scenario) {
  if (options.only.empty()) return true;
  for (const std::string& name : options.only) {
    if (name == scenario.name) return true;
  }
  return false;
}

// What the functions have noted. A worker that was only stopped or cut off has gone on, and every
// worker has ended by now, so that this is final.
struct Judgement {
  uint64_t executed_twice;
  uint64_t untrue;
};

Judgement Judge(const ExecutionMarks& marks, const Outcome& outcome) {
  return {marks.ExecutedTwice(), outcome.calls.unexecuted + marks.Executed(outcome.calls.unsent)};
}

// What must not be, in words; empty if all is well.
std::string Violations(const Options& options, const Outcome& outcome, const Judgement& judgement) {
  std::string text;
  if (outcome.outstanding == 0) absl::StrAppend(&text, " it met no call;");
  if (absl::Milliseconds(outcome.ended_ms) > options.within + outcome.waits) {
    absl::StrAppend(&text, " ended later than --within;");
  }
  if (absl::Milliseconds(outcome.next_call_ms) > options.next_within) {
    absl::StrAppend(&text, " the next call took longer than --next-within;");
  }
  // NaN, if there were no others, compares as false.
  if (outcome.others_slowest_ms > absl::ToDoubleMilliseconds(options.others_within)) {
    absl::StrAppend(&text, " another client waited longer than --others-within;");
  }
  if (!outcome.all_ended) absl::StrAppend(&text, " not all ended;");
  if (judgement.executed_twice > 0) absl::StrAppend(&text, " executed twice;");
  if (outcome.calls.wrong_bytes > 0) absl::StrAppend(&text, " wrong bytes;");
  if (judgement.untrue > 0) absl::StrAppend(&text, " an untrue fate;");
  if (outcome.calls.other_fate > 0) absl::StrAppend(&text, " a call without a fate;");
  if (outcome.next_differ > 0)
    absl::StrAppend(&text, " a later call did not fail, or not like the others;");
  if (outcome.others_failed > 0) absl::StrAppend(&text, " others failed;");
  return text;
}

// What can be cut here. Empty: nothing.
struct Networks {
  std::unique_ptr<NetworkPath> path;
  std::unique_ptr<SoftRoceCable> cable;
};

void CutCable(SoftRoceCable* cable, Cuts cuts, Setup* setup) {
  if (cuts == Cuts::kPackets) {
    setup->cut = [cable] { return cable->DropPackets(); };
    setup->mend = [cable] { return cable->ForwardPackets(); };
  } else {
    setup->cut = [cable] { return cable->Pull(); };
    setup->mend = [cable] { return cable->Plug(); };
  }
}

// Whether it can be done there.
bool HasPlace(const Options& options, Cuts cuts, const std::string& provider) {
  if (options.soft_roce) return cuts != Cuts::kFabricOfOne;
  return cuts == Cuts::kNothing || (options.network && transport::FindRow(provider).address_is_ip);
}

// Where it takes place, and how it cuts what it cuts.
void Place(const Networks& networks, Cuts cuts, Setup* setup) {
  if (networks.cable != nullptr) {
    setup->fabric_address = kSoftRoceServerAddress;
    setup->client_address = kSoftRoceClientAddress;
    // What cuts everything meets a bootstrap that is on the fabric's network.
    const bool together = cuts == Cuts::kNetwork || cuts == Cuts::kPackets;
    if (together) setup->listen_address = kSoftRoceServerAddress;
    if (cuts != Cuts::kNothing) CutCable(networks.cable.get(), cuts, setup);
    return;
  }
  if (cuts == Cuts::kNothing) return;
  NetworkPath* path = networks.path.get();
  setup->network = path;
  const bool bootstrap_stays = cuts == Cuts::kFabric || cuts == Cuts::kFabricOfOne;
  setup->listen_address = bootstrap_stays ? kServerManagementAddress : kServerAddress;
  setup->fabric_address = kServerAddress;
  setup->client_address = kClientAddress;
  if (cuts == Cuts::kPackets) {
    setup->cut = [path] { return path->DropPackets(); };
    setup->mend = [path] { return path->ForwardPackets(); };
  } else {
    setup->cut = [path] { return path->PullCable(); };
    setup->mend = [path] { return path->PlugCable(); };
  }
}

// Those of --failure that cannot be done on any fabric. Empty: none.
std::string WithoutPlace(const Options& options) {
  std::vector<std::string> names;
  for (const Scenario& scenario : Scenarios()) {
    const auto has_place = [&](const std::string& provider) {
      return HasPlace(options, scenario.cuts, provider);
    };
    const std::vector<std::string>& providers = options.common.providers;
    if (options.only.empty() || !Wanted(options, scenario)) continue;
    if (std::none_of(providers.begin(), providers.end(), has_place)) names.push_back(scenario.name);
  }
  return absl::StrJoin(names, ", ");
}

bench::Row RowOf(const Outcome& outcome, const Judgement& judgement) {
  bench::Row row;
  row.Label("next_call", outcome.next_call.empty() ? "-" : outcome.next_call)
      .Value("outstanding", static_cast<double>(outcome.outstanding))
      .Value("ended_ms", outcome.ended_ms)
      .Value("not_sent", static_cast<double>(outcome.calls.not_sent))
      .Value("maybe", static_cast<double>(outcome.calls.maybe_executed))
      .Value("executed_twice", static_cast<double>(judgement.executed_twice))
      .Value("wrong_bytes", static_cast<double>(outcome.calls.wrong_bytes))
      .Value("untrue", static_cast<double>(judgement.untrue))
      .Value("next_ms", outcome.next_call_ms)
      .Value("back_ms", outcome.back_ms)
      .Value("others_failed", static_cast<double>(outcome.others_failed))
      .Value("others_slowest_ms", outcome.others_slowest_ms);
  return row;
}

// Adds a row. False if something was not as promised; then standard error has it in words.
bool RunOne(const Options& options, const Scenario& scenario, const std::string& provider,
            const Networks& networks, bench::Table* table) {
  Setup setup;
  setup.provider = provider;
  setup.outstanding = options.outstanding;
  setup.warm_calls = options.warm_calls;
  setup.peer_timeout = options.peer_timeout;
  setup.patience = options.patience;
  // A client that goes in the middle of a post there may take the endpoint with it that the others
  // have, too.
  setup.between_posts = options.between_posts.value_or(transport::FindRow(provider).same_host_only);
  Place(networks, scenario.cuts, &setup);
  const std::string title = absl::StrCat(scenario.name, ", ", provider, ": ");
  std::fprintf(stderr, "%s%s\n", title.c_str(), scenario.what);
  absl::StatusOr<std::unique_ptr<ExecutionMarks>> marks = ExecutionMarks::Create();
  if (!marks.ok()) return Failed(marks.status()) == tools::kExitOk;
  setup.marks = marks->get();
  const absl::StatusOr<Outcome> outcome = scenario.run(setup);
  if (!outcome.ok()) {
    std::fprintf(stderr, "%s%s\n", title.c_str(), outcome.status().ToString().c_str());
    return false;
  }
  const Judgement judgement = Judge(**marks, *outcome);
  bench::Row row = RowOf(*outcome, judgement);
  row.labels.insert(
      row.labels.begin(),
      {{"failure", scenario.name},
       {"fabric", options.soft_roce ? absl::StrCat(provider, " (Soft-RoCE)") : provider}});
  table->rows.push_back(std::move(row));
  const std::string violations = Violations(options, *outcome, judgement);
  if (violations.empty()) return true;
  std::fprintf(stderr, "%s%s\n", title.c_str(), violations.c_str());
  if (const absl::Status& first = outcome->calls.first_error; !first.ok()) {
    std::fprintf(stderr, "%sfirst error: %s\n", title.c_str(), first.ToString().c_str());
  }
  return false;
}

// Before any thread is started: the process may move into a network of its own.
absl::StatusOr<Networks> MakeNetworks(const Options& options) {
  Networks networks;
  if (options.soft_roce) {
    absl::StatusOr<std::unique_ptr<SoftRoceCable>> cable = SoftRoceCable::Make();
    if (!cable.ok()) return cable.status();
    networks.cable = *std::move(cable);
  } else if (options.network) {
    absl::StatusOr<std::unique_ptr<NetworkPath>> path = NetworkPath::Make();
    if (!path.ok()) return path.status();
    networks.path = *std::move(path);
  }
  return networks;
}

int Run(const Options& options) {
  if (const std::string names = WithoutPlace(options); !names.empty()) {
    LogError(absl::StrCat("--failure=", names, " cannot be done on ",
                          absl::StrJoin(options.common.providers, ", "),
                          options.network ? ": there is no such network there to cut"
                                          : " with --no-network: it cuts one"));
    return tools::kExitUsage;
  }
  absl::StatusOr<Networks> networks = MakeNetworks(options);
  if (!networks.ok()) return Failed(networks.status());
  bench::Report report("failure_report", "what does each failure do to the calls that it meets?");
  bench::GatherConditions(options.common, &report);
  report.Condition("peer_timeout", absl::FormatDuration(options.peer_timeout));
  report.Condition("within", absl::FormatDuration(options.within));
  report.Condition("next_within", absl::FormatDuration(options.next_within));
  report.Condition("others_within", absl::FormatDuration(options.others_within));
  bench::Table& table = report.AddTable(
      "failures", "time until every call under way had ended, and what was wrong (must be 0)");
  bool good = true;
  for (const std::string& provider : options.common.providers) {
    for (const Scenario& scenario : Scenarios()) {
      if (!Wanted(options, scenario) || !HasPlace(options, scenario.cuts, provider)) continue;
      good &= RunOne(options, scenario, provider, *networks, &table);
    }
  }
  report.Note(
      "outstanding: calls that the failure met, of client_killed and client_stopped: the "
      "client; ended_ms: from the failure until the last of them had ended, or the server "
      "had freed the client's session.");
  report.Note(
      "not_sent, maybe: their fates; executed_twice, wrong_bytes and untrue (answered but "
      "not executed, or executed and not sent) must be 0, counted by the functions "
      "themselves in a file.");
  report.Note(
      "next: as many calls again on the same session afterwards, which end alike, and how long the "
      "first took (of a group: one, on the workers that are left); back_ms: from the worker's "
      "return until a call succeeded; others: of another "
      "client meanwhile.");
  const int status = bench::Finish(options.common, report);
  return status != 0 ? status : good ? 0 : 1;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Breaks workers, networks and clients with calls under way, and tells what became of the "
      "calls. Exit status: 0 all as promised, 1 not, 2 bad arguments.");
  CLI::Option* provider =
      app.add_option("--provider", options.common.providers, "libfabric's name; may be repeated")
          ->allow_extra_args(false)
          ->type_name("NAME")
          ->default_str("tcp;ofi_rxm, shm");
  app.add_option("--json", options.common.json, "also write the result to this file")
      ->type_name("FILE");
  std::vector<std::string> names;
  for (const Scenario& scenario : Scenarios()) names.push_back(scenario.name);
  app.add_option("--failure", options.only, "only these")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--outstanding", options.outstanding, "calls under way")->capture_default_str();
  app.add_option("--warm-calls", options.warm_calls, "calls answered before anything is broken")
      ->capture_default_str();
  tools::AddDuration(&app, "--peer-timeout", &options.peer_timeout,
                     "of clients: what all calls must have ended within; of servers, if above 5s");
  tools::AddDuration(&app, "--patience", &options.patience,
                     "for what takes its time where a processor is slow: connecting, and what "
                     "should come within --peer-timeout");
  const CLI::Option* within = tools::AddDuration(
      &app, "--within", &options.within,
      "what all calls must have ended within for the exit status to be 0, and a client that has "
      "gone must have been let go of, after the worker's peer timeout if it was stopped; else "
      "--peer-timeout");
  tools::AddDuration(&app, "--next-within", &options.next_within,
                     "what the next call on the same session must have failed within, or been "
                     "answered on the workers that are left");
  tools::AddDuration(&app, "--others-within", &options.others_within,
                     "what each call of another client must have been answered within, while a "
                     "client goes");
  app.add_flag("--network,!--no-network", options.network,
               "also cut the network, in network namespaces of its own, which needs root");
  const CLI::Option* between_posts = app.add_flag(
      "--between-posts,!--amid_posts", options.between_posts,
      "a client that is killed or stopped does it itself between two calls, as it does anyway on "
      "fabrics of one host: there one that posts at that moment may cost the others their sessions "
      "(docs/design/libfabric.md, Traps)");
  app.add_flag("--soft-roce", options.soft_roce,
               "in the machine of tools/soft_roce, on its devices, whose cable it cuts")
      ->excludes(provider);
  const int parsed = tools::Parse(&app, argc, argv);
  if (within->count() == 0) options.within = options.peer_timeout;
  // A flag that is not given is false to CLI11.
  if (between_posts->count() == 0) options.between_posts.reset();
  if (options.soft_roce) options.common.providers = {kSoftRoceProvider};
  return parsed >= 0 ? parsed : Run(options);
}

}  // namespace
}  // namespace invoker::failure

int main(int argc, char** argv) { return invoker::failure::Main(argc, argv); }
