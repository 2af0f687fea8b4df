// Where the time of one call goes: post, fabric, detect, validate, function, and the same back.
//
// A worker and a client in this process, the executor on one core and the client on the other, and
// stage_probe.h between them and the fabric. The stamps themselves take time, so bursts with and
// without them take turns, and the report says how much the stamps add.

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/harness/client_options.h"
#include "bench/harness/distribution.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/programs/stage_probe.h"
#include "invoker/client.h"
#include "src/bootstrap/service/server.h"
#include "src/invoke/worker/worker.h"
#include "src/transport/reactor/reactor.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "stages";
constexpr char kFunctionName[] = "noop";

constexpr int kWarmUp = 500;

// Whose time a stage is.
enum Part { kOurs, kFunctions, kFabrics, kParts };
constexpr std::array<const char*, kParts> kPartNames = {"ours", "function", "fabric"};

// From one point to the next.
struct Stage {
  const char* name;
  const char* where;
  Point from;
  Point to;
  Part part;
};

// A look at the queue that finds something may have begun before the peer's post had returned: then
// nothing of it counts as the fabric's.
constexpr std::array<Stage, 12> kStages = {{
    {"submit", "client: from Invoke to the post", kInvoke, kRequestPost, kOurs},
    {"post", "client: in the provider's post", kRequestPost, kRequestPosted, kFabrics},
    {"fabric", "until the look at the queue that finds it", kRequestPosted, kRequestRead, kFabrics},
    {"detect", "executor: in the provider's look", kRequestRead, kRequestSeen, kFabrics},
    {"validate", "executor: to the function's first line", kRequestSeen, kFunction, kOurs},
    {"function", "executor: in the function", kFunction, kFunctionEnd, kFunctions},
    {"respond", "executor: to the post", kFunctionEnd, kResponsePost, kOurs},
    {"post_back", "executor: in the provider's post", kResponsePost, kResponsePosted, kFabrics},
    {"fabric_back", "until the look at the queue that finds it", kResponsePosted, kResponseRead,
     kFabrics},
    {"detect_back", "client: in the provider's look", kResponseRead, kResponseSeen, kFabrics},
    {"complete", "client: until Invoke returns", kResponseSeen, kReturn, kOurs},
    {"release", "client: letting the response go", kReturn, kRelease, kOurs},
}};

struct StageOptions {
  CommonOptions common;
  std::vector<size_t> sizes = {64, 4096, 65536};
  int calls = 2000;
};

// A worker of this process and a client of it.
class Pair {
 public:
  static absl::StatusOr<std::unique_ptr<Pair>> Start(const CommonOptions& options,
                                                     const std::string& provider) {
    FunctionEntry entry;
    entry.name = kFunctionName;
    entry.function = ProbedNoop;
    FunctionRegistry functions;
    if (auto id = functions.Add(entry); !id.ok()) return id.status();
    auto pair = std::make_unique<Pair>();
    WorkerOptions worker_options;
    worker_options.providers = {provider};
    worker_options.addresses.preferred_ip = options.address;
    // The executor's thread is started here, and stays on the core that this one is on now.
    if (absl::Status status = PinToCore(options.server_core); !status.ok()) return status;
    auto worker = Worker::Start(worker_options, std::move(functions));
    if (!worker.ok()) return worker.status();
    pair->worker_ = *std::move(worker);
    bootstrap::ServerOptions server_options;
    server_options.listen = "127.0.0.1:0";
    auto server = bootstrap::Server::Start(server_options, pair->worker_.get());
    if (!server.ok()) return server.status();
    pair->server_ = *std::move(server);
    if (absl::Status status = PinToCore(options.client_core); !status.ok()) return status;
    auto client = Client::Connect(pair->server_->listen_address(), OptionsFor(provider));
    if (!client.ok()) return client.status();
    pair->client_ = *std::move(client);
    if (pair->client_->notification() != Notification::kWriteImm) {
      return absl::FailedPreconditionError(
          absl::StrCat("only write-with-immediate is followed, and ", provider,
                       " does without it: ", pair->client_->downgrade_reason()));
    }
    auto function = pair->client_->Function(kFunctionName);
    if (!function.ok()) return function.status();
    pair->function_ = std::make_unique<RemoteFunction>(*std::move(function));
    return pair;
  }

  ~Pair() {
    client_.reset();
    if (server_ != nullptr) server_->Stop();
    if (worker_ != nullptr) worker_->Stop(absl::Seconds(1));
  }

  // `times` calls; without stamps adds each call's time to `plain_ns`.
  absl::Status Plain(const Buffer& buffer, int times, std::vector<int64_t>* plain_ns) {
    for (int i = 0; i < times; ++i) {
      const int64_t begin_ns = transport::MonotonicNs();
      {
        absl::StatusOr<Response> response = client_->Invoke(*function_, {buffer, buffer.size()});
        if (!response.ok()) return response.status();
      }
      if (plain_ns != nullptr) plain_ns->push_back(transport::MonotonicNs() - begin_ns);
    }
    return absl::OkStatus();
  }

  // On a busy machine another thread may drive a part of a call, which is then left out.
  absl::Status Stamped(const Buffer& buffer, int times, std::vector<Stamps>* calls) {
    int left_out = 0;
    for (int i = 0; i < times; ++i) {
      ProbeCallBegin();
      const int64_t invoke = ProbeTicks();
      int64_t returned;
      {
        absl::StatusOr<Response> response = client_->Invoke(*function_, {buffer, buffer.size()});
        returned = ProbeTicks();
        if (!response.ok()) return response.status();
      }
      Stamps stamps;
      if (!ProbeCallEnd(invoke, returned, ProbeTicks(), &stamps)) {
        if (++left_out < times) continue;
        return absl::InternalError("no call passed all of the probe's points");
      }
      calls->push_back(stamps);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Buffer> Allocate(size_t bytes) { return client_->AllocateBuffer(bytes); }

 private:
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<bootstrap::Server> server_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<RemoteFunction> function_;
};

// Nanoseconds.
struct Study {
  std::array<Rounds, kStages.size()> stages;
  std::array<Rounds, kParts> parts;
  Rounds stamped;
  Rounds plain;
};

void Add(const std::vector<Stamps>& calls, Study* study) {
  const double per_tick = 1 / TicksPerNs();
  const auto ns = [per_tick](int64_t ticks) {
    return static_cast<int64_t>(static_cast<double>(ticks) * per_tick);
  };
  for (Rounds& rounds : study->stages) rounds.emplace_back();
  for (Rounds& rounds : study->parts) rounds.emplace_back();
  study->stamped.emplace_back();
  for (Stamps stamps : calls) {
    stamps[kRequestRead] = std::max(stamps[kRequestRead], stamps[kRequestPosted]);
    stamps[kResponseRead] = std::max(stamps[kResponseRead], stamps[kResponsePosted]);
    std::array<int64_t, kParts> parts = {};
    for (size_t i = 0; i < kStages.size(); ++i) {
      const int64_t ticks = stamps[kStages[i].to] - stamps[kStages[i].from];
      study->stages[i].back().push_back(ns(ticks));
      parts[kStages[i].part] += ticks;
    }
    for (size_t i = 0; i < kParts; ++i) study->parts[i].back().push_back(ns(parts[i]));
    study->stamped.back().push_back(ns(stamps[kRelease] - stamps[kInvoke]));
  }
}

absl::StatusOr<Study> Measure(Pair* pair, size_t bytes, const StageOptions& options) {
  absl::StatusOr<Buffer> buffer = pair->Allocate(bytes);
  if (!buffer.ok()) return buffer.status();
  Study study;
  absl::Status status = pair->Plain(*buffer, kWarmUp, nullptr);
  for (int round = 0; round < options.common.rounds && status.ok(); ++round) {
    study.plain.emplace_back();
    status = pair->Plain(*buffer, options.calls, &study.plain.back());
    if (!status.ok()) break;
    std::vector<Stamps> calls;
    calls.reserve(options.calls);
    SetProbing(true);
    status = pair->Stamped(*buffer, options.calls, &calls);
    SetProbing(false);
    Add(calls, &study);
  }
  if (!status.ok()) return status;
  return study;
}

void Tell(const std::string& provider, size_t bytes, const Study& study, Table* stages,
          Table* parts, Table* totals) {
  const double total = Summarize(study.stamped).p50;
  for (size_t i = 0; i < kStages.size(); ++i) {
    const Distribution times = Summarize(study.stages[i]);
    stages->rows.emplace_back()
        .Label("provider", provider)
        .Label("payload_bytes", static_cast<int64_t>(bytes))
        .Label("stage", kStages[i].name)
        .Label("where", kStages[i].where)
        .Value("p50_us", times.p50)
        .Value("p90_us", times.p90)
        .Value("p99_us", times.p99)
        .Value("share_percent", total > 0 ? 100 * times.p50 / total : 0);
  }
  for (size_t i = 0; i < kParts; ++i) {
    parts->rows.emplace_back()
        .Label("provider", provider)
        .Label("payload_bytes", static_cast<int64_t>(bytes))
        .Label("part", kPartNames[i])
        .Times(Summarize(study.parts[i]));
  }
  const double plain = Summarize(study.plain).p50;
  totals->rows.emplace_back()
      .Label("provider", provider)
      .Label("payload_bytes", static_cast<int64_t>(bytes))
      .Value("p50_us", plain)
      .Value("stamped_p50_us", total)
      .Value("stamps_us", total - plain);
}

absl::Status RunAll(const StageOptions& options, Report* report) {
  Table& stages = report->AddTable("stages", "A call's way, stage by stage");
  Table& parts =
      report->AddTable("parts", "Whose time it is: Invoker's, the function's, the fabric's");
  Table& totals = report->AddTable("totals", "The whole call, without and with stamps");
  for (const std::string& provider : options.common.providers) {
    absl::StatusOr<std::unique_ptr<Pair>> pair = Pair::Start(options.common, provider);
    if (!pair.ok()) return pair.status();
    for (size_t bytes : options.sizes) {
      absl::StatusOr<Study> study = Measure(pair->get(), bytes, options);
      if (!study.ok()) return study.status();
      Tell(provider, bytes, *study, &stages, &parts, &totals);
    }
  }
  report->AddPlot(
      {"Whose time a call's is, p50", "parts", "payload_bytes", "p50_us", {"provider", "part"}});
  report->Note(
      "Medians of stages need not add up to the median of the call. \"fabric\" ends where the look "
      "at the queue begins that finds the message; where that look had begun before the post "
      "returned, all of the way there is in \"detect\". What an end does meanwhile, such as with "
      "its own completion, is in \"fabric\", too.");
  report->Note(
      "The worker runs in the client's process here, so that both ends' stamps are of one clock.");
  return absl::OkStatus();
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) {
  using namespace invoker;
  CLI::App app("Where the time of one call goes, stage by stage", bench::kProgram);
  bench::StageOptions options;
  bench::AddCommonOptions(&app, &options.common);
  app.add_option("--bytes", options.sizes, "sizes of requests and responses")
      ->capture_default_str();
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  if (options.common.quick) options.calls = 500;
  bench::Report report(bench::kProgram, "Where does the time of one call go?");
  bench::GatherConditions(options.common, &report);
  report.Condition("stamp_cost", absl::StrFormat("%.1f ns", bench::StampCostNs()));
  bench::ProbeThisThread();
  return bench::Finish(options.common, report, bench::RunAll(options, &report));
}
