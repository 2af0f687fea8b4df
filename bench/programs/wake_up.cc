// What silence costs: the first call after it, to an executor that has gone to sleep, and the
// processor time of its server meanwhile. A blocking TCP socket says what the machine itself takes
// to wake a process.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "bench/harness/client_options.h"
#include "bench/harness/distribution.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/harness/server_process.h"
#include "bench/programs/socket_contender.h"
#include "invoker/client.h"
#include "src/transport/reactor/reactor.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "wake_up";
constexpr size_t kBytes = 64;
// The executor sleeps after so long a silence.
constexpr char kHotTimeout[] = "--hot-timeout=1ms";

struct Settings {
  CommonOptions common;
  std::vector<int64_t> pauses_ms = {10, 100, 1000};
};

// Times of one side: of the first call after each silence, and of the one right behind it.
struct Times {
  Rounds first;
  Rounds second;

  template <typename Call>
  absl::Status Take(const Call& call) {
    for (Rounds* rounds : {&first, &second}) {
      int64_t time_ns = 0;
      if (absl::Status status = call(&time_ns); !status.ok()) return status;
      rounds->push_back({time_ns});
    }
    return absl::OkStatus();
  }
  void AddTo(const std::string& provider, const std::string& subject, int64_t pause_ms,
             const Times& baseline, Table* table) const {
    for (const auto& [when, mine, theirs] :
         {std::tuple("after silence", &first, &baseline.first),
          std::tuple("right behind", &second, &baseline.second)}) {
      const Distribution times = Summarize(*mine);
      table->rows.emplace_back()
          .Label("provider", provider)
          .Label("subject", subject)
          .Label("pause_ms", pause_ms)
          .Label("call", when)
          .Value("p50_over_tcp_blocking", times.p50 / Summarize(*theirs).p50)
          .Times(times);
    }
  }
};

absl::Status Measure(const Settings& settings, const std::string& provider, Table* latency,
                     Table* idle) {
  const CommonOptions& options = settings.common;
  const absl::StatusOr<InvokerServer> server =
      StartInvokerServer(options.server_core, provider, options.address, {kHotTimeout});
  if (!server.ok()) return server.status();
  const absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect(server->target, OptionsFor(provider));
  if (!client.ok()) return client.status();
  const absl::StatusOr<RemoteFunction> noop = (*client)->Function("noop");
  if (!noop.ok()) return noop.status();
  const absl::StatusOr<std::unique_ptr<SocketContender>> socket =
      SocketContender::Start(/*polls=*/false, kBytes, options.server_core);
  if (!socket.ok()) return socket.status();

  const std::vector<std::byte> payload(kBytes);
  const auto call_ours = [&](int64_t* time_ns) {
    const int64_t begin_ns = transport::MonotonicNs();
    const absl::Status status = (*client)->Invoke(*noop, payload).status();
    *time_ns = transport::MonotonicNs() - begin_ns;
    return status;
  };
  const auto call_theirs = [&](int64_t* time_ns) {
    return (*socket)->Burst(kBytes, absl::MakeSpan(time_ns, 1));
  };
  for (const int64_t pause_ms : settings.pauses_ms) {
    Times ours;
    Times theirs;
    int64_t processor_ns = 0;
    int64_t silent_ns = 0;
    for (int round = 0; round < options.rounds; ++round) {
      const absl::StatusOr<int64_t> before = server->process->ProcessorTimeNs();
      const int64_t begin_ns = transport::MonotonicNs();
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
      silent_ns += transport::MonotonicNs() - begin_ns;
      const absl::StatusOr<int64_t> after = server->process->ProcessorTimeNs();
      if (!before.ok() || !after.ok()) return before.ok() ? after.status() : before.status();
      processor_ns += *after - *before;
      if (absl::Status status = ours.Take(call_ours); !status.ok()) return status;
      // Both were silent for as long.
      if (absl::Status status = theirs.Take(call_theirs); !status.ok()) return status;
    }
    ours.AddTo(provider, "invoker", pause_ms, theirs, latency);
    theirs.AddTo(provider, "tcp_blocking", pause_ms, theirs, latency);
    idle->rows.emplace_back()
        .Label("provider", provider)
        .Label("pause_ms", pause_ms)
        .Value("core_percent",
               100.0 * static_cast<double>(processor_ns) / static_cast<double>(silent_ns));
  }
  return absl::OkStatus();
}

absl::Status Run(const Settings& settings, Report* report) {
  if (absl::Status status = PinToCore(settings.common.client_core); !status.ok()) return status;
  GatherConditions(settings.common, report);
  report->Condition("server", kHotTimeout);
  report->Condition("payload", absl::StrCat(kBytes, " B"));
  Table& latency = report->AddTable("latency", "A call after silence, and the one right behind it");
  Table& idle = report->AddTable("idle", "Processor time of the whole server while it is silent");
  const absl::Status measured = MeasureEach(settings.common, [&](const std::string& provider) {
    return Measure(settings, provider, &latency, &idle);
  });
  if (!measured.ok()) return measured;
  report->AddPlot({"Calls after silence (p50, us)",
                   "latency",
                   "pause_ms",
                   "p50_us",
                   {"provider", "subject", "call"}});
  return absl::OkStatus();
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) {
  using namespace invoker;
  CLI::App app("What a call takes after silence, and what silence takes", bench::kProgram);
  bench::Settings settings;
  bench::AddCommonOptions(&app, &settings.common);
  app.add_option("--pause-ms", settings.pauses_ms, "silence before each call, in milliseconds")
      ->check(CLI::Range(1, 3'600'000))
      ->delimiter(',')
      ->capture_default_str();
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  bench::Report report(bench::kProgram, "What does the first call after silence take?");
  return bench::Finish(settings.common, report, bench::Run(settings, &report));
}
