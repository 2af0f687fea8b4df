// How many bytes a second, there, back and both ways, as payloads of calls and as writes of the raw
// fabric?

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/programs/throughput.h"
#include "bench/programs/transfers.h"
#include "src/log/log.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "bandwidth";
// For payloads up to kLong bytes; others get turns of twice the length, to have many calls in them.
constexpr int64_t kTurnNs = 30'000'000;
constexpr int64_t kQuickTurnNs = 20'000'000;
constexpr uint64_t kLong = 1 << 20;
constexpr Direction kDirections[] = {Direction::kRequest, Direction::kResponse, Direction::kBoth};

struct Settings {
  CommonOptions common;
  std::vector<uint64_t> bytes = {64 << 10, 256 << 10, 1 << 20, 4 << 20};
  int outstanding = 4;
  // 4 payloads of 4 MiB, each with its header, are a little more than 16 MiB.
  std::string window = "32M";

  int64_t TurnNs(uint64_t of_bytes) const {
    return (common.quick ? kQuickTurnNs : kTurnNs) * (of_bytes > kLong ? 2 : 1);
  }
};

// The raw fabric, in one direction with one size and number of messages.
struct RawCell {
  StreamShape shape;
  double last_rate = 0;
  std::vector<double> rates;
};

// The same with calls, on one of the servers.
struct CallCell {
  Transfers* transfers;
  int outstanding;
  RawCell* stream;    // writes in that direction
  RawCell* answered;  // messages there and back
  std::vector<double> rates;
};

// What takes turns next to each other.
struct Group {
  Direction direction;
  uint64_t bytes;
  std::vector<std::unique_ptr<RawCell>> raw;
  std::vector<CallCell> calls;
};

// Everything on one fabric.
class Measurement {
 public:
  Measurement(const Settings& settings, std::string provider)
      : settings_(settings), provider_(std::move(provider)) {}

  absl::Status Run(Table* table) {
    if (absl::Status status = StartServers(); !status.ok()) return status;
    if (absl::Status status = MakeGroups(); !status.ok()) return status;
    for (int round = 0; round <= settings_.common.rounds; ++round) {
      for (Group& group : groups_) {
        if (absl::Status status = Take(round, &group); !status.ok()) return status;
      }
    }
    for (const Group& group : groups_) AddRows(group, table);
    return absl::OkStatus();
  }

 private:
  // Only the server whose turn it is runs: the others are stopped.
  absl::Status StartServers() {
    const CommonOptions& common = settings_.common;
    for (const std::string& window : {std::string(), settings_.window}) {
      absl::StatusOr<std::unique_ptr<Transfers>> transfers =
          Transfers::Start(common.server_core, provider_, common.address, window);
      if (!transfers.ok()) return transfers.status();
      const bool twice =
          !servers_.empty() && servers_.front()->window_bytes() == (*transfers)->window_bytes();
      if (twice) continue;
      servers_.push_back(*std::move(transfers));
      for (uint64_t bytes : settings_.bytes) {
        absl::StatusOr<int> fitting = servers_.back()->Fitting(bytes, settings_.outstanding);
        if (!fitting.ok()) return fitting.status();
        if (absl::Status status = servers_.back()->Touch(bytes, *fitting); !status.ok()) {
          return status;
        }
      }
      if (absl::Status status = servers_.back()->server()->Pause(); !status.ok()) return status;
    }
    const uint64_t largest = *std::max_element(settings_.bytes.begin(), settings_.bytes.end());
    absl::StatusOr<RawPair> raw =
        StartRawPair(provider_, common.address,
                     largest * static_cast<uint64_t>(settings_.outstanding), common.server_core);
    if (!raw.ok()) return raw.status();
    raw_ = *std::move(raw);
    return absl::OkStatus();
  }

  absl::Status MakeGroups() {
    for (uint64_t bytes : settings_.bytes) {
      for (Direction direction : kDirections) {
        Group group = {direction, bytes, {}, {}};
        for (const std::unique_ptr<Transfers>& transfers : servers_) {
          absl::StatusOr<int> outstanding = transfers->Fitting(bytes, settings_.outstanding);
          if (!outstanding.ok()) return outstanding.status();
          if (*outstanding == 0) continue;
          RawCell* stream = RawWith(RawStreamFor(direction, bytes, *outstanding), &group);
          RawCell* answered = RawWith(RawCallsFor(direction, bytes, *outstanding), &group);
          group.calls.push_back({transfers.get(), *outstanding, stream, answered, {}});
        }
        groups_.push_back(std::move(group));
      }
    }
    return absl::OkStatus();
  }

  static RawCell* RawWith(const StreamShape& shape, Group* group) {
    for (const std::unique_ptr<RawCell>& raw : group->raw) {
      if (raw->shape.in_flight == shape.in_flight && raw->shape.pattern == shape.pattern) {
        return raw.get();
      }
    }
    group->raw.push_back(std::make_unique<RawCell>());
    group->raw.back()->shape = shape;
    return group->raw.back().get();
  }

  // A turn for each; the first round warms up. In each round another one begins.
  absl::Status Take(int round, Group* group) {
    const size_t contenders = group->raw.size() + group->calls.size();
    for (size_t i = 0; i < contenders; ++i) {
      const size_t at = (i + static_cast<size_t>(round)) % contenders;
      absl::StatusOr<double> rate;
      std::vector<double>* rates;
      if (at < group->raw.size()) {
        RawCell& raw = *group->raw[at];
        rate = RawTurn(raw_, raw.shape, settings_.TurnNs(group->bytes), raw.last_rate, nullptr);
        if (rate.ok()) raw.last_rate = *rate;
        rates = &raw.rates;
      } else {
        CallCell& call = group->calls[at - group->raw.size()];
        rate = CallTurn(*group, call);
        rates = &call.rates;
      }
      if (!rate.ok()) return rate.status();
      if (round > 0) rates->push_back(*rate);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<double> CallTurn(const Group& group, const CallCell& call) {
    if (absl::Status status = call.transfers->server()->Resume(); !status.ok()) return status;
    absl::StatusOr<double> rate = call.transfers->Turn(
        group.direction, group.bytes, call.outstanding, settings_.TurnNs(group.bytes));
    if (absl::Status status = call.transfers->server()->Pause(); !status.ok()) return status;
    return rate;
  }

  void AddRows(const Group& group, Table* table) const {
    // For one message or call, both ways counted.
    const double gigabytes =
        static_cast<double>(group.bytes) * (group.direction == Direction::kBoth ? 2 : 1) / 1e9;
    for (const CallCell& call : group.calls) {
      const Band ratio = RatioOf(call.rates, call.stream->rates);
      Row row;
      row.Label("provider", provider_)
          .Label("direction", DirectionName(group.direction))
          .Label("bytes", static_cast<int64_t>(group.bytes))
          .Label("outstanding", int64_t{call.outstanding})
          .Label("window", static_cast<int64_t>(call.transfers->window_bytes()))
          .Value("gb_per_s", BandOf(call.rates).median * gigabytes)
          .Value("raw_gb_per_s", BandOf(call.stream->rates).median * gigabytes)
          .Value("ratio", ratio.median)
          .Value("ratio_low", ratio.lowest)
          .Value("ratio_high", ratio.highest)
          .Value("answered_gb_per_s", BandOf(call.answered->rates).median * gigabytes)
          .Value("answered_ratio", RatioOf(call.rates, call.answered->rates).median);
      table->rows.push_back(std::move(row));
    }
  }

  const Settings& settings_;
  const std::string provider_;
  std::vector<std::unique_ptr<Transfers>> servers_;
  RawPair raw_;
  std::vector<Group> groups_;
};

void AddOptions(CLI::App* app, Settings* settings) {
  AddCommonOptions(app, &settings->common);
  app->add_option("--bytes", settings->bytes, "payloads, with K and M for binary multiples")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{64}, uint64_t{1} << 30))
      ->type_name("BYTES,...")
      ->default_str("64K,256K,1M,4M");
  app->add_option("--outstanding", settings->outstanding,
                  "calls, or writes, under way at a time, as far as the windows hold them")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app->add_option("--window", settings->window,
                  "of the second server, for what the default window does not hold")
      ->type_name("BYTES")
      ->capture_default_str();
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Bytes per second of large payloads, in requests, in responses and in both, beside those of "
      "the raw fabric's writes.",
      kProgram);
  Settings settings;
  AddOptions(&app, &settings);
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  if (absl::Status status = PinToCore(settings.common.client_core); !status.ok()) {
    LogError(status.message());
    return tools::kExitUsage;
  }
  Report report(kProgram, "How many bytes a second, compared to writes of the raw fabric?");
  GatherConditions(settings.common, &report);
  report.Condition("outstanding", absl::StrCat(settings.outstanding, ", or what the window holds"));
  report.Condition("windows", absl::StrCat("the server's default, and --window=", settings.window));
  report.Condition("turn",
                   absl::StrCat(settings.TurnNs(0) / 1'000'000, " ms; ",
                                settings.TurnNs(kLong + 1) / 1'000'000, " ms of more than 1 MiB"));
  Table& table =
      report.AddTable("bandwidth", "Payload bytes per second, in 10^9, both ways added up");
  for (const char* y : {"gb_per_s", "raw_gb_per_s"}) {
    Plot plot = {absl::StrCat("Bandwidth: ", y),
                 "bandwidth",
                 "bytes",
                 y,
                 {"provider", "direction", "window"}};
    plot.log_y = false;
    report.AddPlot(std::move(plot));
  }
  report.Note(
      "Requests are built in buffers of the request window, and nobody touches a payload: request "
      "calls sink, response calls source, both calls noop.");
  report.Note(
      "raw: a stream of fi_writedata of the payload's size in that direction, with as many "
      "uncompleted; a fabric may complete a write before the peer has it, so that more may be "
      "under "
      "way than calls. both: each write is answered by one of the same size. answered: raw "
      "messages "
      "there and back of the sizes that a call's have, as many under way. ratio and answered_ratio "
      "are the medians of the rounds' own.");
  report.Note(
      "Each payload has 32 bytes of header in front of it, so the default window of 2 MiB holds "
      "one "
      "call of 1 MiB at a time, not two.");
  bool failed = false;
  for (const std::string& provider : settings.common.providers) {
    const absl::Status status = Measurement(settings, provider).Run(&table);
    if (status.ok()) continue;
    LogError(absl::StrCat(provider, ": ", status.message()));
    failed = true;
  }
  const int code = Finish(settings.common, report);
  return failed ? tools::kExitFailed : code;
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) { return invoker::bench::Main(argc, argv); }
