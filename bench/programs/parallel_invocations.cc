// How many calls a second, and how long do they take, when many are under way? A closed loop,
// beside the raw fabric's own message rate, and an open loop at fractions of the closed loop's
// rate.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/harness/distribution.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/harness/server_process.h"
#include "bench/programs/closed_loop.h"
#include "bench/programs/open_loop.h"
#include "bench/programs/throughput.h"
#include "src/log/log.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "parallel_invocations";
constexpr int64_t kTurnNs = 100'000'000;
constexpr size_t kHeaderBytes = 32;  // an Invoker message's (docs/reference/wire_format.md)
constexpr size_t kSlotBytes = 64;    // messages of the raw fabric begin at multiples of it
// Times that are kept of a turn.
constexpr size_t kTimesPerTurn = 50'000;
constexpr int kLoadPercents[] = {10, 25, 50, 75, 90};
// The share of the offered calls that a system completes within the turn if it keeps up.
constexpr double kKeptUp = 0.98;

struct Settings {
  CommonOptions common;
  std::vector<int> executors = {1};
  std::vector<int> outstanding = {1, 4, 16, 64};
  size_t bytes = 64;
  bool default_room = false;
  std::vector<std::string> ways = {"future", "callback", "raw", "open"};
  std::string arrivals = "poisson";
  uint64_t seed = 1;

  bool Has(absl::string_view way) const {
    return std::find(ways.begin(), ways.end(), way) != ways.end();
  }
};

// One line of a table, as it grows round by round.
struct Cell {
  std::vector<double> rates;
  Rounds times;

  void Add(double rate, const std::vector<int64_t>& times_ns) {
    rates.push_back(rate);
    std::vector<int64_t> kept;
    const size_t step = times_ns.size() / kTimesPerTurn + 1;
    for (size_t i = 0; i < times_ns.size(); i += step) kept.push_back(times_ns[i]);
    times.push_back(std::move(kept));
  }
};

struct Tables {
  Table* closed;
  Table* open;
  Table* raw;
};

// Everything on one fabric with one number of executors.
class Measurement {
 public:
  Measurement(const Settings& settings, std::string provider, int executors)
      : settings_(settings), provider_(std::move(provider)), executors_(executors) {}

  absl::Status Run(Tables* tables) {
    if (absl::Status status = Start(); !status.ok()) return status;
    for (int round = 0; round <= settings_.common.rounds; ++round) {
      if (absl::Status status = ClosedRound(round); !status.ok()) return status;
    }
    if (settings_.Has("future")) AddClosedRows(Api::kFuture, futures_, tables->closed);
    if (settings_.Has("callback")) AddClosedRows(Api::kCallback, callbacks_, tables->closed);
    if (settings_.Has("raw")) AddRawRows(tables->raw);
    if (!settings_.Has("future") || !settings_.Has("open")) return absl::OkStatus();
    const double most = BandOf(futures_.back().rates).median;
    for (int round = 0; round <= settings_.common.rounds; ++round) {
      if (absl::Status status = OpenRound(round, most); !status.ok()) return status;
    }
    AddOpenRows(tables->open, most);
    return absl::OkStatus();
  }

 private:
  absl::Status Start() {
    const CommonOptions& common = settings_.common;
    absl::StatusOr<InvokerServer> server = StartInvokerServer(
        common.server_core, provider_, common.address, {absl::StrCat("--executors=", executors_)});
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    absl::StatusOr<std::vector<Caller>> callers =
        ConnectCallers(server_, provider_, executors_, "noop");
    if (!callers.ok()) return callers.status();
    callers_ = *std::move(callers);
    absl::StatusOr<RawPair> raw = StartRawPair(
        provider_, common.address,
        Shape(StreamPattern::kAnswered, Most()).slot_bytes * InFlight(Most()), common.server_core);
    if (!raw.ok()) return raw.status();
    raw_ = *std::move(raw);
    futures_.resize(settings_.outstanding.size());
    callbacks_.resize(settings_.outstanding.size());
    answered_.resize(settings_.outstanding.size());
    loads_.resize(std::size(kLoadPercents));
    return absl::OkStatus();
  }

  int Most() const { return settings_.outstanding.back(); }
  uint32_t InFlight(int outstanding) const {
    return static_cast<uint32_t>(outstanding * executors_);
  }

  StreamShape Shape(StreamPattern pattern, int outstanding) const {
    StreamShape shape;
    shape.pattern = pattern;
    shape.bytes = kHeaderBytes + settings_.bytes;
    shape.answer_bytes = shape.bytes;
    shape.slot_bytes = (shape.bytes + kSlotBytes - 1) / kSlotBytes * kSlotBytes;
    shape.in_flight = InFlight(outstanding);
    return shape;
  }

  // The first round warms up. In each, another number of calls and another contender begin.
  absl::Status ClosedRound(int round) {
    const size_t numbers = settings_.outstanding.size();
    for (size_t i = 0; i < numbers; ++i) {
      const size_t at = (i + static_cast<size_t>(round)) % numbers;
      const int outstanding = settings_.outstanding[at];
      for (int contender = 0; contender < 3; ++contender) {
        absl::Status status;
        switch ((contender + round) % 3) {
          case 0:
            status = ClosedTurn(round, Api::kFuture, outstanding, &futures_[at]);
            break;
          case 1:
            status = ClosedTurn(round, Api::kCallback, outstanding, &callbacks_[at]);
            break;
          default:
            status = RawTurnOf(round, StreamPattern::kAnswered, outstanding, &answered_[at]);
            break;
        }
        if (!status.ok()) return status;
      }
    }
    return RawTurnOf(round, StreamPattern::kOutward, Most(), &one_way_);
  }

  absl::Status ClosedTurn(int round, Api api, int outstanding, Cell* cell) {
    if (!settings_.Has(ApiName(api))) return absl::OkStatus();
    ClosedLoop loop;
    loop.api = api;
    loop.bytes = settings_.bytes;
    loop.exact_room = !settings_.default_room;
    loop.outstanding = outstanding;
    times_ns_.clear();
    absl::StatusOr<double> rate = RunClosedLoop(callers_, loop, kTurnNs, &times_ns_);
    if (!rate.ok()) return rate.status();
    if (round > 0) cell->Add(*rate, times_ns_);
    return absl::OkStatus();
  }

  absl::Status RawTurnOf(int round, StreamPattern pattern, int outstanding, Cell* cell) {
    if (!settings_.Has("raw")) return absl::OkStatus();
    if (absl::Status status = server_.process->Pause(); !status.ok()) return status;
    times_ns_.clear();
    const absl::StatusOr<double> rate =
        RawTurn(raw_, Shape(pattern, outstanding), kTurnNs, 0, &times_ns_);
    if (absl::Status status = server_.process->Resume(); !status.ok()) return status;
    if (!rate.ok()) return rate.status();
    if (round > 0) cell->Add(*rate, times_ns_);
    return absl::OkStatus();
  }

  absl::Status OpenRound(int round, double most) {
    const size_t loads = loads_.size();
    for (size_t i = 0; i < loads; ++i) {
      const size_t at = (i + static_cast<size_t>(round)) % loads;
      const std::vector<int64_t> schedule =
          MakeSchedule(most * kLoadPercents[at] / 100, settings_.arrivals == "poisson",
                       settings_.seed + static_cast<uint64_t>(round), kTurnNs);
      times_ns_.clear();
      absl::StatusOr<OpenLoopResult> result =
          RunOpenLoop(callers_, settings_.bytes, schedule, kTurnNs, &times_ns_);
      if (!result.ok()) return result.status();
      if (round == 0) continue;
      offered_[at].push_back(static_cast<double>(schedule.size()) * 1e9 / kTurnNs);
      loads_[at].Add(static_cast<double>(result->completed) * 1e9 / static_cast<double>(result->ns),
                     times_ns_);
    }
    return absl::OkStatus();
  }

  void AddClosedRows(Api api, const std::vector<Cell>& cells, Table* table) const {
    for (size_t i = 0; i < cells.size(); ++i) {
      const Band rate = BandOf(cells[i].rates);
      Row row;
      row.Label("provider", provider_)
          .Label("api", ApiName(api))
          .Label("executors", int64_t{executors_})
          .Label("outstanding", int64_t{settings_.outstanding[i]})
          .Label("bytes", static_cast<int64_t>(settings_.bytes))
          .Value("calls_per_s", rate.median)
          .Value("round_low_per_s", rate.lowest)
          .Value("round_high_per_s", rate.highest);
      if (settings_.Has("raw")) {
        row.Value("raw_calls_per_s", BandOf(answered_[i].rates).median)
            .Value("ratio", RatioOf(cells[i].rates, answered_[i].rates).median);
      }
      row.Times(Summarize(cells[i].times));
      table->rows.push_back(std::move(row));
    }
  }

  void AddOpenRows(Table* table, double most) const {
    for (size_t i = 0; i < loads_.size(); ++i) {
      const double offered = BandOf(offered_[i]).median;
      const Band achieved = RatioOf(loads_[i].rates, offered_[i]);
      Row row;
      row.Label("provider", provider_)
          .Label("executors", int64_t{executors_})
          .Label("load_percent", int64_t{kLoadPercents[i]})
          .Label("arrivals", settings_.arrivals)
          .Value("closed_calls_per_s", most)
          .Value("offered_calls_per_s", offered)
          .Value("achieved_calls_per_s", BandOf(loads_[i].rates).median)
          .Value("kept_up", achieved.median >= kKeptUp ? 1 : 0)
          .Times(Summarize(loads_[i].times));
      table->rows.push_back(std::move(row));
    }
  }

  void AddRawRows(Table* table) const {
    const auto add = [&](absl::string_view pattern, int outstanding, const Cell& cell) {
      const Band rate = BandOf(cell.rates);
      Row row;
      row.Label("provider", provider_)
          .Label("pattern", pattern)
          .Label("outstanding", int64_t{InFlight(outstanding)})
          .Label("bytes", static_cast<int64_t>(kHeaderBytes + settings_.bytes))
          .Value("messages_per_s", rate.median)
          .Value("round_low_per_s", rate.lowest)
          .Value("round_high_per_s", rate.highest);
      if (pattern == "answered") row.Times(Summarize(cell.times));
      table->rows.push_back(std::move(row));
    };
    for (size_t i = 0; i < answered_.size(); ++i) {
      add("answered", settings_.outstanding[i], answered_[i]);
    }
    add("one_way", Most(), one_way_);
  }

  const Settings& settings_;
  const std::string provider_;
  const int executors_;
  InvokerServer server_;
  std::vector<Caller> callers_;  // end before the server does
  RawPair raw_;
  // By number of calls outstanding.
  std::vector<Cell> futures_;
  std::vector<Cell> callbacks_;
  std::vector<Cell> answered_;
  Cell one_way_;
  // By load.
  std::vector<Cell> loads_;
  std::vector<double> offered_[std::size(kLoadPercents)];
  std::vector<int64_t> times_ns_;
};

void AddOptions(CLI::App* app, Settings* settings) {
  AddCommonOptions(app, &settings->common);
  app->add_option("--executors", settings->executors,
                  "executors of the server, all on its core, with a client each")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->type_name("N,...")
      ->capture_default_str();
  app->add_option("--outstanding", settings->outstanding,
                  "calls under way at a time, on each executor")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->type_name("M,...")
      ->capture_default_str();
  app->add_option("--bytes", settings->bytes, "payload, there and back")
      ->check(CLI::Range(0, 8192))
      ->capture_default_str();
  app->add_flag("--default-room", settings->default_room,
                "closed loop: leave the room for responses to the default (1/64 of the window) and "
                "do not ask for as much as comes back, which lets responses share messages");
  app->add_option("--ways", settings->ways,
                  "what to measure; a profiler wants only one of them. open needs future")
      ->delimiter(',')
      ->check(CLI::IsMember({"future", "callback", "raw", "open"}))
      ->type_name("WAY,...")
      ->capture_default_str();
  app->add_option("--arrivals", settings->arrivals,
                  "when calls of the open loop are to start: after exponentially distributed gaps, "
                  "or equal ones")
      ->check(CLI::IsMember({"poisson", "uniform"}))
      ->capture_default_str();
  app->add_option("--seed", settings->seed, "of the gaps")->capture_default_str();
}

void AddPlots(Report* report) {
  report->AddPlot({"Calls per second, closed loop",
                   "closed_loop",
                   "outstanding",
                   "calls_per_s",
                   {"provider", "api", "executors"}});
  report->AddPlot({"Messages per second of the raw fabric",
                   "raw_rate",
                   "outstanding",
                   "messages_per_s",
                   {"provider", "pattern"}});
  for (const char* percentile : {"p50_us", "p99_us"}) {
    Plot plot = {absl::StrCat("Latency under load, open loop: ", percentile),
                 "open_loop",
                 "load_percent",
                 percentile,
                 {"provider", "executors"}};
    plot.log_x = false;
    report->AddPlot(std::move(plot));
  }
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Calls per second of clients that keep many calls under way, and their latency: in a closed "
      "loop, beside the raw fabric's message rate, and in an open loop.",
      kProgram);
  Settings settings;
  AddOptions(&app, &settings);
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  std::sort(settings.outstanding.begin(), settings.outstanding.end());
  if (absl::Status status = PinToCore(settings.common.client_core); !status.ok()) {
    LogError(status.message());
    return tools::kExitUsage;
  }
  Report report(kProgram, "How many calls a second, and how long do they take under load?");
  GatherConditions(settings.common, &report);
  report.Condition("payload", absl::StrCat(settings.bytes, " B there and back, function noop"));
  report.Condition("room for responses", settings.default_room ? "default" : "the payload");
  report.Condition("raw message", absl::StrCat(kHeaderBytes + settings.bytes, " B"));
  report.Condition("turn", absl::StrCat(kTurnNs / 1'000'000, " ms"));
  report.Condition("arrivals", absl::StrCat(settings.arrivals, ", seed ", settings.seed));
  Tables tables;
  tables.closed =
      &report.AddTable("closed_loop", "Closed loop: calls per second, and each call's time");
  tables.raw = &report.AddTable("raw_rate", "The raw fabric: messages per second, in the same run");
  tables.open =
      &report.AddTable("open_loop",
                       "Open loop: each call's time from when it was to start, at fractions of the "
                       "closed loop's rate");
  AddPlots(&report);
  report.Note(
      "closed_loop: one client thread; \"outstanding\" is for each executor. calls_per_s is the "
      "median of the rounds, ratio the median of the rounds' own ratios to the raw fabric's "
      "answered "
      "messages with as many under way.");
  report.Note(
      "open_loop: load_percent is of the closed loop's rate with futures and the most calls "
      "outstanding. kept_up is 1 if the median round completed 98 % of the calls within its turn; "
      "if "
      "not, the times say how far the calls fell behind in one turn, and would grow with a longer "
      "one.");
  report.Note(absl::StrCat("Times are those of at most ", kTimesPerTurn,
                           " calls of a turn, taken evenly."));
  if (settings.executors != std::vector<int>{1}) {
    report.Note(
        "All executors share one core, and all clients another: threads that busy-poll then wait "
        "for each other's time slices, which a machine with more cores would not show.");
  }
  bool failed = false;
  for (const std::string& provider : settings.common.providers) {
    for (int executors : settings.executors) {
      const absl::Status status = Measurement(settings, provider, executors).Run(&tables);
      if (status.ok()) continue;
      LogError(absl::StrCat(provider, ", ", executors, " executors: ", status.message()));
      failed = true;
    }
  }
  const int code = Finish(settings.common, report);
  return failed ? tools::kExitFailed : code;
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) { return invoker::bench::Main(argc, argv); }
