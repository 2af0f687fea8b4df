// What calls that wait cost others: echo on an executor that does nothing else; beside 64 calls of
// a function that waits for 100 ms each; and beside 64 of which one ends and another begins every
// 1.6 ms. In turns.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "bench/harness/client_options.h"
#include "bench/harness/distribution.h"
#include "bench/harness/interleave.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/harness/server_process.h"
#include "invoker/client.h"
#include "src/transport/reactor/reactor.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "slow_neighbours";
constexpr int kNaps = 64;
constexpr int64_t kNapMs = 100;

// Has kNaps calls of nap under way.
class Naps {
 public:
  Naps(Client* client, RemoteFunction nap) : client_(client), nap_(std::move(nap)) {
    options_.response_capacity = 64;  // nothing; so that echo has room beside them
  }
  ~Naps() { Stop(); }

  // `renewed`: they end one after the other, and another takes the place of each.
  void Start(bool renewed) {
    renewed_ = renewed;
    for (int i = 1; i <= kNaps; ++i) StartOne(renewed ? i * kNapMs / kNaps : kNapMs);
  }
  // Waits for those under way.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_) {
    renewed_ = false;
    absl::MutexLock lock(&mutex_);
    const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return under_way_ == 0; };
    mutex_.Await(absl::Condition(&none));
  }
  // What one of them ended with, since the first start; OK if all returned.
  absl::Status failure() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return failure_;
  }

 private:
  void StartOne(int64_t ms) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      ++under_way_;
    }
    client_->InvokeAsync(nap_,
                         absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&ms), sizeof(ms)),
                         options_, [this](absl::StatusOr<Response> response) {
                           if (response.ok() && renewed_) StartOne(kNapMs);
                           absl::MutexLock lock(&mutex_);
                           if (!response.ok()) failure_ = response.status();
                           --under_way_;
                         });
  }

  Client* const client_;
  const RemoteFunction nap_;
  CallOptions options_;
  std::atomic<bool> renewed_{false};
  mutable absl::Mutex mutex_;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

enum class Neighbours { kNone, kWait, kRenewed };

// Calls of echo, alone or beside the naps.
class Echo : public Contender {
 public:
  Echo(std::string name, Client* client, RemoteFunction echo, Neighbours neighbours, Naps* naps)
      : name_(std::move(name)),
        neighbours_(neighbours),
        client_(client),
        echo_(std::move(echo)),
        naps_(naps) {}

  const std::string& name() const override { return name_; }
  absl::Status Begin() override {
    if (neighbours_ != Neighbours::kNone) naps_->Start(neighbours_ == Neighbours::kRenewed);
    return absl::OkStatus();
  }
  void End() override { naps_->Stop(); }

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
  const Neighbours neighbours_;
  Client* const client_;
  const RemoteFunction echo_;
  Naps* const naps_;
};

absl::Status Measure(const CommonOptions& options, const std::string& provider, Table* table) {
  const absl::StatusOr<InvokerServer> server =
      StartInvokerServer(options.server_core, provider, options.address, {});
  if (!server.ok()) return server.status();
  const absl::StatusOr<std::unique_ptr<Client>> connected =
      Client::Connect(server->target, OptionsFor(provider));
  if (!connected.ok()) return connected.status();
  Client* const client = connected->get();
  const absl::StatusOr<RemoteFunction> echo = client->Function("echo");
  if (!echo.ok()) return echo.status();
  const absl::StatusOr<RemoteFunction> nap = client->Function("nap");
  if (!nap.ok()) return nap.status();
  Naps naps(client, *nap);
  Echo alone("alone", client, *echo, Neighbours::kNone, &naps);
  Echo beside("64 wait", client, *echo, Neighbours::kWait, &naps);
  Echo renewed("64 renewed", client, *echo, Neighbours::kRenewed, &naps);
  InterleavePlan plan;
  plan.sizes = {64, 4096};
  plan.rounds = options.rounds;
  // Those that are not renewed are there at its beginning and at its end.
  plan.turn_ns = kNapMs * 1'000'000 * 8 / 10;
  plan.most = 1'000'000;
  const absl::StatusOr<std::vector<Measured>> measured =
      Interleave({&alone, &beside, &renewed}, plan);
  if (!measured.ok()) return measured.status();
  if (absl::Status failure = naps.failure(); !failure.ok()) return failure;
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
      "The waiting calls are of the same client and on the same executor. The threads that run "
      "them "
      "share the executor's core.");
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
