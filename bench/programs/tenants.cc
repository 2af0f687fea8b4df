// What clients of one executor do to each other: one with short calls, one that floods it, and one
// with large calls, each alone and beside the others.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/harness/distribution.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/harness/server_process.h"
#include "bench/programs/lane.h"
#include "bench/programs/throughput.h"
#include "bench/raw/round_trips.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "tenants";
constexpr int64_t kTurnNs = 200'000'000;

// A client: what it calls, and how many calls it has under way.
struct Kind {
  const char* name;
  size_t bytes;
  int outstanding;
};
constexpr Kind kKinds[] = {
    {"short", 64, 1},
    {"flood", 64, 100},
    {"large", 1 << 20, 1},
};
constexpr size_t kShort = 0;
constexpr size_t kFlood = 1;
constexpr size_t kLarge = 2;

struct Company {
  const char* name;
  std::vector<size_t> kinds;

  int64_t UnderWay() const {
    int64_t calls = 0;
    for (const size_t kind : kinds) calls += kKinds[kind].outstanding;
    return calls;
  }
};
const Company kCompanies[] = {
    {"alone", {kShort}},         {"alone", {kFlood}},         {"alone", {kLarge}},
    {"flood", {kShort, kFlood}}, {"large", {kShort, kLarge}}, {"all", {kShort, kFlood, kLarge}},
};

class Tenant {
 public:
  Tenant(const Kind& kind, const Caller* caller)
      : kind_(kind), payload_(kind.bytes), lane_(caller) {
    options_.response_capacity = static_cast<uint32_t>(kind.bytes);
  }

  void Fill(int64_t now_ns) {
    for (int i = 0; i < kind_.outstanding; ++i) lane_.Start(Bytes(payload_), options_, now_ns);
  }
  // Takes the oldest call if it has ended, and starts another while `goes_on`.
  absl::Status Look(bool goes_on) {
    if (lane_.empty() || !lane_.Wait(absl::ZeroDuration())) return absl::OkStatus();
    const int64_t began_ns = lane_.oldest_ns();
    // The response goes at once: the next call may need its cells.
    const absl::Status status = lane_.TakeOldest().status();
    const int64_t now_ns = ClockNs();
    if (!status.ok()) return status;
    times_ns_.push_back(now_ns - began_ns);
    if (goes_on) lane_.Start(Bytes(payload_), options_, now_ns);
    return absl::OkStatus();
  }
  bool idle() const { return lane_.empty(); }
  std::vector<int64_t> TakeTimes() { return std::exchange(times_ns_, {}); }

 private:
  const Kind& kind_;
  std::vector<std::byte> payload_;
  CallOptions options_;
  Lane lane_;
  std::vector<int64_t> times_ns_;
};

// One thread has all clients' calls under way, and looks at each by turns.
absl::Status RunTurn(std::vector<Tenant>* tenants, const Company& company) {
  const int64_t end_ns = ClockNs() + kTurnNs;
  for (const size_t kind : company.kinds) (*tenants)[kind].Fill(ClockNs());
  for (bool busy = true; busy;) {
    const bool goes_on = ClockNs() < end_ns;
    busy = false;
    for (const size_t kind : company.kinds) {
      if (absl::Status status = (*tenants)[kind].Look(goes_on); !status.ok()) return status;
      busy |= !(*tenants)[kind].idle();
    }
  }
  return absl::OkStatus();
}

absl::Status Measure(const CommonOptions& options, const std::string& provider, Table* table) {
  const absl::StatusOr<InvokerServer> server =
      StartInvokerServer(options.server_core, provider, options.address, {});
  if (!server.ok()) return server.status();
  const absl::StatusOr<std::vector<Caller>> callers =
      ConnectCallers(*server, provider, static_cast<int>(std::size(kKinds)), "noop");
  if (!callers.ok()) return callers.status();
  std::vector<Tenant> tenants;
  for (size_t i = 0; i < std::size(kKinds); ++i) tenants.emplace_back(kKinds[i], &(*callers)[i]);

  // By company, then by kind.
  std::vector<std::vector<Rounds>> times(std::size(kCompanies),
                                         std::vector<Rounds>(std::size(kKinds)));
  for (int round = 0; round <= options.rounds; ++round) {
    for (size_t i = 0; i < std::size(kCompanies); ++i) {
      const size_t at = (i + static_cast<size_t>(round)) % std::size(kCompanies);
      if (absl::Status status = RunTurn(&tenants, kCompanies[at]); !status.ok()) return status;
      for (const size_t kind : kCompanies[at].kinds) {
        std::vector<int64_t> taken = tenants[kind].TakeTimes();
        if (round > 0) times[at][kind].push_back(std::move(taken));  // the first one warms up
      }
    }
  }
  std::vector<Distribution> alone(std::size(kKinds));
  for (size_t i = 0; i < std::size(kCompanies); ++i) {
    for (const size_t kind : kCompanies[i].kinds) {
      const Distribution here = Summarize(times[i][kind]);
      if (kCompanies[i].kinds.size() == 1) alone[kind] = here;
      table->rows.emplace_back()
          .Label("provider", provider)
          .Label("tenant", kKinds[kind].name)
          .Label("beside", kCompanies[i].name)
          .Label("calls_under_way", kCompanies[i].UnderWay())
          .Value("p50_over_alone", here.p50 / alone[kind].p50)
          .Value("p99_over_alone", here.p99 / alone[kind].p99)
          .Times(here);
    }
  }
  return absl::OkStatus();
}

absl::Status Run(const CommonOptions& options, Report* report) {
  if (absl::Status status = PinToCore(options.client_core); !status.ok()) return status;
  GatherConditions(options, report);
  for (const Kind& kind : kKinds) {
    report->Condition(kind.name, absl::StrCat(kind.outstanding, " calls of ", kind.bytes,
                                              " B there and back under way, function noop"));
  }
  Table& table = report->AddTable("latency", "Calls of each client, alone and beside the others");
  report->AddPlot({"A client's calls beside others' (p99, us)",
                   "latency",
                   "calls_under_way",
                   "p99_us",
                   {"provider", "tenant"}});
  report->Note(
      "Each client has a session of its own on the same executor. One thread looks at their calls "
      "by turns, so a time counts until it comes to the call: clients on cores of their own would "
      "see less.");
  return MeasureEach(
      options, [&](const std::string& provider) { return Measure(options, provider, &table); });
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) {
  using namespace invoker;
  CLI::App app("What clients of one executor do to each other", bench::kProgram);
  bench::CommonOptions options;
  bench::AddCommonOptions(&app, &options);
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  bench::Report report(bench::kProgram, "Does one client's load delay another's calls?");
  return bench::Finish(options, report, bench::Run(options, &report));
}
