// What calls that wait cost others: echo on an executor that does nothing else, and beside 64 calls
// of a function that waits for 100 ms each, in turns.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
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

// Keeps calls of nap under way, in a session of its own.
class Naps {
 public:
  explicit Naps(Client* client, RemoteFunction nap) : client_(client), nap_(std::move(nap)) {}

  void Begin() {
    stopping_ = false;
    for (int i = 0; i < kNaps; ++i) Start();
  }
  // Waits until all have ended.
  absl::Status End() {
    stopping_ = true;
    while (under_way_.load() > 0) absl::SleepFor(absl::Milliseconds(1));
    return failed_ ? absl::InternalError("a call of nap has failed") : absl::OkStatus();
  }

 private:
  void Start() {
    ++under_way_;
    CallOptions options;
    options.response_capacity = 64;
    client_->InvokeAsync(nap_, {&kNapMs, sizeof(kNapMs)}, options,
                         [this](absl::StatusOr<Response> response) {
                           if (!response.ok()) failed_ = true;
                           if (!stopping_ && !failed_) Start();
                           --under_way_;
                         });
  }

  Client* const client_;
  const RemoteFunction nap_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> failed_{false};
  std::atomic<int> under_way_{0};
};

// Calls of echo, alone or beside the naps.
class Echo : public Contender {
 public:
  Echo(std::string name, Client* client, RemoteFunction echo, Naps* naps)
      : name_(std::move(name)), client_(client), echo_(std::move(echo)), naps_(naps) {}

  const std::string& name() const override { return name_; }
  absl::Status Begin() override {
    if (naps_ != nullptr) naps_->Begin();
    return absl::OkStatus();
  }
  void End() override {
    if (naps_ != nullptr) status_.Update(naps_->End());
  }

  absl::Status Burst(size_t bytes, absl::Span<int64_t> times_ns) override {
    if (!status_.ok()) return status_;
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
  Naps* const naps_;
  absl::Status status_;
};

absl::Status Measure(const CommonOptions& options, const std::string& provider, Table* table) {
  absl::StatusOr<InvokerServer> server =
      StartInvokerServer(options.server_core, provider, options.address, {});
  if (!server.ok()) return server.status();
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect(server->target, OptionsFor(provider));
  if (!client.ok()) return client.status();
  absl::StatusOr<std::unique_ptr<Client>> other =
      Client::Connect(server->target, OptionsFor(provider));
  if (!other.ok()) return other.status();
  const absl::StatusOr<RemoteFunction> echo = (*client)->Function("echo");
  if (!echo.ok()) return echo.status();
  const absl::StatusOr<RemoteFunction> nap = (*other)->Function("nap");
  if (!nap.ok()) return nap.status();

  Naps naps(other->get(), *nap);
  Echo alone("alone", client->get(), *echo, nullptr);
  Echo beside("beside", client->get(), *echo, &naps);
  InterleavePlan plan;
  plan.sizes = {64};
  plan.rounds = options.rounds;
  // Longer than a nap, so that naps end and begin in it.
  plan.turn_ns = 300'000'000;
  plan.most = 1'000'000;
  const absl::StatusOr<std::vector<Measured>> measured = Interleave({&alone, &beside}, plan);
  if (!measured.ok()) return measured.status();
  const double alone_p99 = Summarize((*measured)[0].rounds).p99;
  for (const Measured& one : *measured) {
    const Distribution times = Summarize(one.rounds);
    table->rows.emplace_back()
        .Label("provider", provider)
        .Label("echo", one.contender->name())
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
  for (const std::string& provider : options.providers) {
    if (absl::Status status = Measure(options, provider, &table); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(provider, ": ", status.message()));
    }
  }
  report->Note(
      "The waiting calls are of another session on the same executor, and of the same client "
      "process, on the same core.");
  Plot plot;
  plot.title = "Echo beside calls that wait (p99, us)";
  plot.table = "latency";
  plot.x = "provider";
  plot.y = "p99_us";
  plot.series = {"echo"};
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
  if (absl::Status status = bench::Run(options, &report); !status.ok()) {
    tools::Log(bench::kProgram, absl::StrCat("error: ", status.message()));
    return tools::kExitFailed;
  }
  return bench::Finish(options, report);
}
