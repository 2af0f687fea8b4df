// How many calls a second, and how long do they take, when many are under way? A closed loop,
// beside the raw fabric's own message rate.

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/harness/distribution.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/harness/server_process.h"
#include "bench/programs/closed_loop.h"
#include "bench/programs/throughput.h"
#include "src/log/log.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "parallel_invocations";
constexpr int64_t kTurnNs = 100'000'000;
constexpr size_t kHeaderBytes = 32;  // an Invoker message's (docs/reference/wire_format.md)
constexpr size_t kSlotBytes = 64;    // messages of the raw fabric begin at multiples of it

struct Settings {
  CommonOptions common;
  std::vector<int> executors = {1};
  std::vector<int> outstanding = {1, 4, 16, 64};
  size_t bytes = 64;
  bool default_room = false;
  std::vector<std::string> ways = {"future", "callback", "raw"};

  bool Has(absl::string_view way) const {
    return std::find(ways.begin(), ways.end(), way) != ways.end();
  }
};

struct Tables {
  Table* closed;
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
    std::set<uint32_t> reached;
    for (const Caller& caller : callers_) reached.insert(caller.client->executor());
    if (reached.size() != callers_.size()) {
      return absl::InternalError(absl::StrCat(executors_, " clients share ", reached.size(),
                                              " executors; each ought to have one of its own"));
    }
    absl::StatusOr<RawPair> raw = StartRawPair(
        provider_, common.address,
        Shape(StreamPattern::kAnswered, Most()).slot_bytes * InFlight(Most()), common.server_core);
    if (!raw.ok()) return raw.status();
    raw_ = *std::move(raw);
    futures_.resize(settings_.outstanding.size());
    callbacks_.resize(settings_.outstanding.size());
    answered_.resize(settings_.outstanding.size());
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

  absl::Status ClosedTurn(int round, Api api, int outstanding, RatedTimes* cell) {
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

  absl::Status RawTurnOf(int round, StreamPattern pattern, int outstanding, RatedTimes* cell) {
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

  void AddClosedRows(Api api, const std::vector<RatedTimes>& cells, Table* table) const {
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

  void AddRawRows(Table* table) const {
    const auto add = [&](absl::string_view pattern, int outstanding, const RatedTimes& cell) {
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
  std::vector<RatedTimes> futures_;
  std::vector<RatedTimes> callbacks_;
  std::vector<RatedTimes> answered_;
  RatedTimes one_way_;
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
                "do not ask for as much as comes back");
  app->add_option("--ways", settings->ways, "what to measure; a profiler wants only one of them")
      ->delimiter(',')
      ->check(CLI::IsMember({"future", "callback", "raw"}))
      ->type_name("WAY,...")
      ->capture_default_str();
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
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Calls per second of clients that keep many calls under way, beside the raw fabric's message "
      "rate.",
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
  Tables tables;
  tables.closed =
      &report.AddTable("closed_loop", "Closed loop: calls per second, and each call's time");
  tables.raw = &report.AddTable("raw_rate", "The raw fabric: messages per second, in the same run");
  AddPlots(&report);
  report.Note(
      "closed_loop: one client thread; \"outstanding\" is for each executor. calls_per_s is the "
      "median of the rounds, ratio the median of the rounds' own ratios to the raw fabric's "
      "answered "
      "messages with as many under way.");
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
