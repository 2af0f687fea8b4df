// What many sessions of one executor cost its calls: hundreds that idle, and a thousand that are
// all in use, by one process.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "bench/harness/distribution.h"
#include "bench/harness/interleave.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/harness/server_process.h"
#include "bench/programs/closed_loop.h"
#include "bench/programs/crowd.h"
#include "bench/programs/throughput.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "many_sessions";
constexpr size_t kBytes = 64;
constexpr int64_t kTurnNs = 200'000'000;

struct Settings {
  CommonOptions common;
  int active = 1000;
  uint32_t idle = 800;
};

class Study {
 public:
  Study(const Settings& settings, Report* report)
      : settings_(settings),
        report_(report),
        idle_(report->AddTable("idle", "A blocking call while other sessions idle")),
        active_(report->AddTable("active", "Sessions in use, each with one call at a time")) {}

  // One client calls; the others are another process's.
  absl::Status Idle(const std::string& provider) {
    std::vector<std::unique_ptr<Crowd>> crowds;
    // The larger first: to open it takes longest, and the other's worker polls on the same core.
    for (const uint32_t idle : {settings_.idle, 0u}) {
      absl::StatusOr<std::unique_ptr<Crowd>> crowd =
          Crowd::Start({provider, settings_.common.address, settings_.common.client_core,
                        settings_.common.server_core, idle});
      if (!crowd.ok()) return crowd.status();
      if (!(*crowd)->refused().empty()) {
        report_->Note(absl::StrCat(provider, ": of ", idle, " idle sessions there are ",
                                   (*crowd)->idle(), ": ", (*crowd)->refused()));
      }
      crowds.push_back(*std::move(crowd));
    }
    std::reverse(crowds.begin(), crowds.end());
    std::vector<Contender*> contenders;
    for (const std::unique_ptr<Crowd>& crowd : crowds) {
      crowd->End();
      contenders.push_back(crowd.get());
    }
    InterleavePlan plan;
    plan.sizes = {kBytes};
    plan.rounds = settings_.common.rounds;
    const absl::StatusOr<std::vector<Measured>> measured = Interleave(contenders, plan);
    if (!measured.ok()) return measured.status();
    const Rounds& none = measured->front().rounds;
    for (size_t i = 0; i < measured->size(); ++i) {
      const Rounds& rounds = (*measured)[i].rounds;
      idle_.rows.emplace_back()
          .Label("provider", provider)
          .Label("idle_sessions", int64_t{crowds[i]->idle()})
          .Value("p50_over_none", Compare(rounds, none, 50).median)
          .Value("p99_over_none", Compare(rounds, none, 99).median)
          .Times(Summarize(rounds));
    }
    return absl::OkStatus();
  }

  // All are this process's. They call by turns, and each has a call under way all the time.
  absl::Status Active(const std::string& provider) {
    const CommonOptions& common = settings_.common;
    const absl::StatusOr<InvokerServer> server =
        StartInvokerServer(common.server_core, provider, common.address, {});
    if (!server.ok()) return server.status();
    std::vector<Caller> callers;
    while (callers.size() < static_cast<size_t>(settings_.active)) {
      absl::StatusOr<std::vector<Caller>> one = ConnectCallers(*server, provider, 1, "noop");
      if (!one.ok() && callers.empty()) return one.status();
      if (!one.ok()) {
        report_->Note(absl::StrCat(provider, ": of ", settings_.active, " sessions there are ",
                                   callers.size(), ": ", one.status().message()));
        break;
      }
      callers.push_back(std::move(one->front()));
    }
    std::vector<size_t> counts;
    for (size_t count = 1; count < callers.size(); count *= 10) counts.push_back(count);
    counts.push_back(callers.size());
    std::vector<RatedTimes> results(counts.size());
    std::vector<int64_t> times_ns;
    for (int round = 0; round <= common.rounds; ++round) {
      for (size_t i = 0; i < counts.size(); ++i) {
        const size_t at = (i + static_cast<size_t>(round)) % counts.size();
        ClosedLoop loop;
        loop.bytes = kBytes;
        times_ns.clear();
        const absl::StatusOr<double> rate =
            RunClosedLoop(absl::MakeConstSpan(callers).first(counts[at]), loop, kTurnNs, &times_ns);
        if (!rate.ok()) return rate.status();
        if (round > 0) results[at].Add(*rate, times_ns);  // the first one warms up
      }
    }
    for (size_t i = 0; i < counts.size(); ++i) {
      active_.rows.emplace_back()
          .Label("provider", provider)
          .Label("sessions", static_cast<int64_t>(counts[i]))
          .Value("calls_per_s", BandOf(results[i].rates).median)
          .Value("over_one", RatioOf(results[i].rates, results.front().rates).median)
          .Times(Summarize(results[i].times));
    }
    return absl::OkStatus();
  }

 private:
  const Settings& settings_;
  Report* const report_;
  Table& idle_;
  Table& active_;
};

absl::Status Run(const Settings& settings, Report* report) {
  if (absl::Status status = PinToCore(settings.common.client_core); !status.ok()) return status;
  GatherConditions(settings.common, report);
  report->Condition("payload", absl::StrCat(kBytes, " B there and back, function noop"));
  Study study(settings, report);
  for (const auto& [title, table, x, y] :
       {std::tuple("A call while other sessions idle (p50, us)", "idle", "idle_sessions", "p50_us"),
        std::tuple("Calls per second of all sessions", "active", "sessions", "calls_per_s")}) {
    report->AddPlot({title, table, x, y, {"provider"}});
  }
  report->Note(
      "idle: in a turn the idle clients' process is stopped, since it shares a core with the "
      "client that calls; their heartbeats come between the turns.");
  report->Note(
      "active: one thread starts a call on each session and then takes each one's result and "
      "starts the next. Each client has a lease, whose heartbeats go on.");
  return MeasureEach(settings.common, [&](const std::string& provider) {
    absl::Status status = study.Idle(provider);
    if (status.ok()) status = study.Active(provider);
    return status;
  });
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) {
  using namespace invoker;
  CLI::App app("What many sessions of one executor cost its calls", bench::kProgram);
  bench::Settings settings;
  bench::AddCommonOptions(&app, &settings.common);
  app.add_option("--active", settings.active, "sessions in use")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--idle", settings.idle, "sessions that idle")
      ->check(CLI::Range(1u, 10'000u))
      ->capture_default_str();
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  bench::AllowDescriptors();
  bench::Report report(bench::kProgram, "What do many sessions cost the calls of an executor?");
  return bench::Finish(settings.common, report, bench::Run(settings, &report));
}
