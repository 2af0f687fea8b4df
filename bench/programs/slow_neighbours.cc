// What calls that wait cost others: echo on an executor that does nothing else, and beside 64 calls
// of a function that waits for 100 ms each, in turns.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/harness/distribution.h"
#include "bench/harness/interleave.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/programs/python_contender.h"
#include "invoker/client.h"
#include "src/transport/reactor/reactor.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "slow_neighbours";
constexpr int kNaps = 64;  // python_peer.py's
constexpr int64_t kNapMs = 100;

// Calls of echo, alone or beside the naps.
class Echo : public Contender {
 public:
  Echo(std::string name, Client* client, RemoteFunction echo, PythonContender* naps)
      : name_(std::move(name)), client_(client), echo_(std::move(echo)), naps_(naps) {}

  const std::string& name() const override { return name_; }
  absl::Status Begin() override {
    int64_t started = 0;
    return naps_ == nullptr ? absl::OkStatus() : naps_->Burst(0, absl::MakeSpan(&started, 1));
  }
  void End() override {}

  absl::Status Burst(size_t bytes, absl::Span<int64_t> times_ns) override {
    const std::vector<std::byte> data(bytes);
    for (int64_t& time_ns : times_ns) {
      const int64_t begin_ns = transport::MonotonicNs();
      const absl::StatusOr<Response> response = client_->Invoke(echo_, data);
      time_ns = transport::MonotonicNs() - begin_ns;
      if (!response.ok()) return response.status();
    }
    return absl::OkStatus();
  }

 private:
  const std::string name_;
  Client* const client_;
  const RemoteFunction echo_;
  PythonContender* const naps_;  // nullptr: alone
};

absl::Status Measure(const CommonOptions& options, const std::string& provider, Table* table) {
  const absl::StatusOr<CalledServer> called = CalledServer::Start(options, provider);
  if (!called.ok()) return called.status();
  Client* const client = called->client.get();
  const absl::StatusOr<RemoteFunction> echo = client->Function("echo");
  if (!echo.ok()) return echo.status();
  PythonContender naps(called->python.get(), "naps");
  Echo alone("alone", client, *echo, nullptr);
  Echo beside("64 wait", client, *echo, &naps);
  InterleavePlan plan;
  plan.sizes = {64, 4096};
  plan.rounds = options.rounds;
  // The naps that were there at its beginning are there at its end.
  plan.turn_ns = kNapMs * 1'000'000 * 8 / 10;
  plan.most = 1'000'000;
  const absl::StatusOr<std::vector<Measured>> measured = Interleave({&alone, &beside}, plan);
  if (!measured.ok()) return measured.status();
  double alone_p99 = 0;
  for (const Measured& one : *measured) {
    const Distribution times = Summarize(one.rounds);
    // It comes first, for each size.
    if (one.contender == &alone) alone_p99 = times.p99;
    table->rows.emplace_back()
        .Label("provider", provider)
        .Label("echo", one.contender->name())
        .Label("bytes", static_cast<int64_t>(one.bytes))
        .Value("p99_over_alone", times.p99 / alone_p99)
        .Times(times);
  }
  return absl::OkStatus();
}

absl::Status Run(const CommonOptions& options, Report* report) {
  if (absl::Status status = PinToCore(options.client_core); !status.ok()) return status;
  GatherConditions(options, report);
  report->Condition("neighbours", absl::StrCat(kNaps, " calls that wait for ", kNapMs, " ms each"));
  Table& table = report->AddTable("latency", "Echo, alone and beside calls that wait");
  const absl::Status measured = MeasureEach(
      options, [&](const std::string& provider) { return Measure(options, provider, &table); });
  if (!measured.ok()) return measured;
  report->Note(
      "The waiting calls are another process's, on the same executor. The threads that run them "
      "share its core.");
  Plot plot;
  plot.title = "Echo beside calls that wait (p99, us)";
  plot.table = "latency";
  plot.x = "bytes";
  plot.y = "p99_us";
  plot.series = {"provider", "echo"};
  report->AddPlot(std::move(plot));
  return absl::OkStatus();
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) {
  using namespace invoker;
  CLI::App app("What calls that wait cost other calls of their executor", bench::kProgram);
  bench::CommonOptions options;
  bench::AddCommonOptions(&app, &options);
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  bench::Report report(bench::kProgram, "Do slow functions delay fast ones?");
  return bench::Finish(options, report, bench::Run(options, &report));
}
