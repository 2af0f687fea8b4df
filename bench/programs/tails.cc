// How long do the slowest calls take under load? An open loop at fractions of the most that it can
// do, against a call that is alone.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/harness/distribution.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/harness/server_process.h"
#include "bench/programs/closed_loop.h"
#include "bench/programs/open_loop.h"
#include "bench/programs/throughput.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "tails";
constexpr int64_t kTurnNs = 100'000'000;
constexpr size_t kBytes = 64;
// A closed loop with so many calls under way does more than an open loop can: it starts them in
// groups.
constexpr int kOutstanding = 64;
// The share of the offered calls that a system completes within the turn if it keeps up.
constexpr double kKeptUp = 0.98;

struct Settings {
  CommonOptions common;
  std::vector<int> loads = {25, 50, 70, 75, 90};
  std::string arrivals = "poisson";
  uint64_t seed = 1;
};

// Everything on one fabric.
class Measurement {
 public:
  Measurement(const Settings& settings, std::string provider)
      : settings_(settings),
        provider_(std::move(provider)),
        loads_(settings.loads.size()),
        offered_(settings.loads.size()) {}

  absl::Status Run(Table* table) {
    if (absl::Status status = Start(); !status.ok()) return status;
    for (int round = 0; round <= settings_.common.rounds; ++round) {
      absl::Status status = ClosedTurn(round, 1, &alone_);
      if (status.ok()) status = ClosedTurn(round, kOutstanding, &closed_);
      if (!status.ok()) return status;
    }
    for (int round = 0; round <= settings_.common.rounds; ++round) {
      const Open most = {BandOf(closed_.rates).median, &most_, nullptr};
      if (absl::Status status = OpenTurn(round, most); !status.ok()) return status;
    }
    for (int round = 0; round <= settings_.common.rounds; ++round) {
      if (absl::Status status = OpenRound(round); !status.ok()) return status;
    }
    AddRows(table);
    return absl::OkStatus();
  }

 private:
  absl::Status Start() {
    const CommonOptions& common = settings_.common;
    absl::StatusOr<InvokerServer> server =
        StartInvokerServer(common.server_core, provider_, common.address, {});
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    absl::StatusOr<std::vector<Caller>> callers = ConnectCallers(server_, provider_, 1, "noop");
    if (!callers.ok()) return callers.status();
    callers_ = *std::move(callers);
    return absl::OkStatus();
  }

  // The first round warms up, here and below.
  absl::Status ClosedTurn(int round, int outstanding, RatedTimes* result) {
    ClosedLoop loop;
    loop.bytes = kBytes;
    loop.outstanding = outstanding;
    times_ns_.clear();
    const absl::StatusOr<double> rate = RunClosedLoop(callers_, loop, kTurnNs, &times_ns_);
    if (rate.ok() && round > 0) result->Add(*rate, times_ns_);
    return rate.status();
  }

  absl::Status OpenRound(int round) {
    const double most = BandOf(most_.rates).median;
    for (size_t i = 0; i < loads_.size(); ++i) {
      // In each round, another load begins.
      const size_t at = (i + static_cast<size_t>(round)) % loads_.size();
      const Open load = {most * settings_.loads[at] / 100, &loads_[at], &offered_[at]};
      if (absl::Status status = OpenTurn(round, load); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // So many calls a second are offered, and where what came of it goes.
  struct Open {
    double calls_per_s;
    RatedTimes* achieved;
    std::vector<double>* offered;  // or nullptr
  };
  absl::Status OpenTurn(int round, const Open& open) {
    const std::vector<int64_t> schedule =
        MakeSchedule(open.calls_per_s, settings_.arrivals == "poisson",
                     settings_.seed + static_cast<uint64_t>(round), kTurnNs);
    times_ns_.clear();
    const absl::StatusOr<OpenLoopResult> result =
        RunOpenLoop(callers_, kBytes, schedule, kTurnNs, &times_ns_);
    if (!result.ok() || round == 0) return result.status();
    if (open.offered != nullptr) {
      open.offered->push_back(static_cast<double>(schedule.size()) * 1e9 / kTurnNs);
    }
    open.achieved->Add(
        static_cast<double>(result->completed) * 1e9 / static_cast<double>(result->ns), times_ns_);
    return absl::OkStatus();
  }

  void AddRows(Table* table) const {
    const Distribution alone = Summarize(alone_.times);
    table->rows.emplace_back()
        .Label("provider", provider_)
        .Label("load_percent", 0)
        .Label("arrivals", "one by one")
        .Value("achieved_calls_per_s", BandOf(alone_.rates).median)
        .Value("p999_over_alone_p50", alone.p999 / alone.p50)
        .Times(alone);
    for (size_t i = 0; i < loads_.size(); ++i) {
      const Distribution times = Summarize(loads_[i].times);
      table->rows.emplace_back()
          .Label("provider", provider_)
          .Label("load_percent", int64_t{settings_.loads[i]})
          .Label("arrivals", settings_.arrivals)
          .Value("most_calls_per_s", BandOf(most_.rates).median)
          .Value("offered_calls_per_s", BandOf(offered_[i]).median)
          .Value("achieved_calls_per_s", BandOf(loads_[i].rates).median)
          .Value("kept_up", RatioOf(loads_[i].rates, offered_[i]).median >= kKeptUp ? 1 : 0)
          .Value("p999_over_alone_p50", times.p999 / alone.p50)
          .Times(times);
    }
  }

  const Settings& settings_;
  const std::string provider_;
  InvokerServer server_;
  std::vector<Caller> callers_;  // ends before the server does
  RatedTimes alone_;
  RatedTimes closed_;
  RatedTimes most_;  // open loop, when more is offered than it can do
  // By load.
  std::vector<RatedTimes> loads_;
  std::vector<std::vector<double>> offered_;
  std::vector<int64_t> times_ns_;
};

absl::Status Run(const Settings& settings, Report* report) {
  if (absl::Status status = PinToCore(settings.common.client_core); !status.ok()) return status;
  GatherConditions(settings.common, report);
  report->Condition("payload", absl::StrCat(kBytes, " B there and back, function noop"));
  report->Condition("turn", absl::StrCat(kTurnNs / 1'000'000, " ms"));
  report->Condition("arrivals", absl::StrCat(settings.arrivals, ", seed ", settings.seed));
  Table& table = report->AddTable("open_loop",
                                  "Open loop: each call's time from when it was to start, at "
                                  "fractions of the most that an open "
                                  "loop can do");
  for (const char* percentile : {"p50_us", "p999_us"}) {
    Plot plot = {absl::StrCat("Latency under load: ", percentile),
                 "open_loop",
                 "load_percent",
                 percentile,
                 {"provider"}};
    plot.log_x = false;
    report->AddPlot(std::move(plot));
  }
  report->Note(
      absl::StrCat("load_percent is of what the open loop does when it is offered the rate of a "
                   "closed loop with ",
                   kOutstanding,
                   " calls under way; 0: one call at a time, in a closed loop. kept_up is 1 if the "
                   "median round completed 98 % of the calls within its turn; if not, the times "
                   "say how far the calls fell behind in one turn, and would grow with a longer "
                   "one."));
  report->Note(absl::StrCat("Times are those of at most ", kTimesPerTurn,
                            " calls of a turn, taken evenly."));
  return MeasureEach(settings.common, [&](const std::string& provider) {
    return Measurement(settings, provider).Run(&table);
  });
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) {
  using namespace invoker;
  CLI::App app("How long the slowest calls take under load, in an open loop", bench::kProgram);
  bench::Settings settings;
  bench::AddCommonOptions(&app, &settings.common);
  app.add_option("--loads", settings.loads, "percent of the most that the open loop can do")
      ->delimiter(',')
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--arrivals", settings.arrivals,
                 "when calls are to start: after exponentially distributed gaps, or equal ones")
      ->check(CLI::IsMember({"poisson", "uniform"}))
      ->capture_default_str();
  app.add_option("--seed", settings.seed, "of the gaps")->capture_default_str();
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  bench::Report report(bench::kProgram, "How long do the slowest calls take under load?");
  return bench::Finish(settings.common, report, bench::Run(settings, &report));
}
