// How many calls of Python's a second: one after the other, and many under way; and C++'s futures,
// from this process on the same core, in turns.

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

constexpr char kProgram[] = "python_rates";

constexpr size_t kBytes = 64;
constexpr size_t kOutstanding = 64;  // and python_peer.py's

// The names are python_peer.py's. `outstanding`: calls under way; of a map by default, at first.
struct Api {
  const char* name;
  const char* way;
  int64_t outstanding;
  const char* meaning;
};
constexpr char kBlocking[] = "rate_blocking";
constexpr Api kApis[] = {
    {kBlocking, "blocking", 1, "function(data), one after the other"},
    {"rate_submit", "submit", 1, "function.submit(data).result(), one after the other"},
    {"rate_submit_64", "submit", 64, "function.submit(data), 64 at a time, then their results"},
    {"rate_map", "map", 2, "function.map(inputs), by default"},
    {"rate_map_64", "map", 64, "function.map(inputs, max_in_flight=64)"},
    {"rate_acall", "acall", 1, "await function.acall(data), one after the other"},
    {"rate_gather_64", "acall", 64, "asyncio.gather of 64 function.acall(data)"},
    {"rate_gather_none", "nothing", 64, "asyncio.gather of 64 coroutines that do nothing: no call"},
};
constexpr Api kFutures = {"cpp_futures_64", "cpp", kOutstanding,
                          "not Python: C++'s futures, 64 at a time"};

// C++'s futures, as many under way as rate_submit_64.
class Futures : public Contender {
 public:
  Futures(Client* client, RemoteFunction noop) : client_(client), noop_(std::move(noop)) {}

  const std::string& name() const override { return name_; }
  absl::Status Begin() override { return absl::OkStatus(); }
  void End() override {}

  absl::Status Burst(size_t bytes, absl::Span<int64_t> times_ns) override {
    const std::vector<std::byte> data(bytes);
    const int64_t begin_ns = transport::MonotonicNs();
    std::vector<Future> futures;
    for (size_t done = 0; done < times_ns.size(); done += futures.size()) {
      futures.clear();
      while (futures.size() < kOutstanding && done + futures.size() < times_ns.size()) {
        futures.push_back(client_->InvokeAsync(noop_, CallInput(Bytes(data.data(), bytes))));
      }
      for (Future& future : futures) {
        if (absl::Status status = future.Get().status(); !status.ok()) return status;
      }
    }
    const auto calls = static_cast<int64_t>(times_ns.size());
    for (int64_t& time_ns : times_ns) time_ns = (transport::MonotonicNs() - begin_ns) / calls;
    return absl::OkStatus();
  }

 private:
  const std::string name_ = kFutures.name;
  Client* const client_;
  const RemoteFunction noop_;
};

absl::Status Measure(const CommonOptions& options, const std::string& provider, Table* table) {
  const absl::StatusOr<CalledServer> called = CalledServer::Start(options, provider);
  if (!called.ok()) return called.status();
  const absl::StatusOr<RemoteFunction> noop = called->client->Function("noop");
  if (!noop.ok()) return noop.status();

  std::vector<std::unique_ptr<Contender>> contenders;
  contenders.push_back(std::make_unique<Futures>(called->client.get(), *noop));
  for (const Api& api : kApis) {
    contenders.push_back(std::make_unique<PythonContender>(called->python.get(), api.name));
  }
  std::vector<Contender*> turns;
  for (const std::unique_ptr<Contender>& contender : contenders) turns.push_back(contender.get());
  InterleavePlan plan;
  plan.sizes = {kBytes};
  plan.rounds = options.rounds;
  plan.least = 10 * static_cast<int>(kOutstanding);
  plan.most = 100 * static_cast<int>(kOutstanding);
  if (options.quick) plan.turn_ns /= 2;
  const absl::StatusOr<std::vector<Measured>> measured = Interleave(turns, plan);
  if (!measured.ok()) return measured.status();
  const Measured& blocking = (*measured)[1];
  for (size_t i = 0; i < measured->size(); ++i) {
    const Measured& one = (*measured)[i];
    const Api& api = i == 0 ? kFutures : kApis[i - 1];
    const double per_call_us = Summarize(one.rounds).p50;
    table->rows.emplace_back()
        .Label("provider", provider)
        .Label("api", api.name)
        .Label("way", api.way)
        .Label("outstanding", api.outstanding)
        .Value("calls_per_s", 1e6 / per_call_us)
        .Value("per_call_us", per_call_us)
        .Value("minus_us", MedianAbove(one.rounds, blocking.rounds));
  }
  return absl::OkStatus();
}

absl::Status Run(const CommonOptions& options, Report* report) {
  if (absl::Status status = PinToCore(options.client_core); !status.ok()) return status;
  GatherConditions(options, report);
  report->Condition("function", "noop: as many bytes as it got, untouched");
  Table& table = report->AddTable("rates", "Calls of 64 bytes from one core to one executor");
  const absl::Status measured = MeasureEach(
      options, [&](const std::string& provider) { return Measure(options, provider, &table); });
  if (!measured.ok()) return measured;
  report->Note(absl::StrCat(kFutures.name, ": ", kFutures.meaning));
  for (const Api& api : kApis) report->Note(absl::StrCat(api.name, ": ", api.meaning));
  report->Note(
      "per_call_us is the median of the rounds, each of which took its time for all its calls "
      "together. minus_us: round by round, less rate_blocking; the middle round's.");
  Plot plot;
  plot.title = "Calls a second from Python, by calls under way";
  plot.table = "rates";
  plot.x = "outstanding";
  plot.y = "calls_per_s";
  plot.series = {"provider", "way"};
  report->AddPlot(std::move(plot));
  return absl::OkStatus();
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) {
  using namespace invoker;
  CLI::App app("How many calls a second Python makes, and C++ beside it, in turns",
               bench::kProgram);
  bench::CommonOptions options;
  bench::AddCommonOptions(&app, &options);
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  bench::Report report(bench::kProgram, "How many calls a second does Python make?");
  return bench::Finish(options, report, bench::Run(options, &report));
}
