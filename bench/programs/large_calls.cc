// What an echo of a payload far larger than a window takes from Python, beside two copies of it
// into new memory, which an echo does at least.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "bench/harness/distribution.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/programs/python_contender.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "large_calls";
constexpr int64_t kMiB = int64_t{1} << 20;
// The first one touches the pages of its result, and in the first round those of the executor.
constexpr size_t kCalls = 5;
// At most, since a call may take seconds.
constexpr int kRounds = 3;

struct Settings {
  CommonOptions common;
  std::vector<int64_t> mebibytes;
};

absl::Status Measure(const Settings& settings, const std::string& provider, int64_t mebibytes,
                     Table* table) {
  // A server of its own: its executor has no memory for such a call yet.
  const absl::StatusOr<CalledServer> called = CalledServer::Start(settings.common, provider);
  if (!called.ok()) return called.status();
  PythonContender echo(called->python.get(), "echo_out");
  PythonContender copies(called->python.get(), "two_copies");
  Rounds first;
  Rounds best;
  Rounds two_copies;
  for (int round = 0; round < std::min(settings.common.rounds, kRounds); ++round) {
    std::vector<int64_t> calls(kCalls);
    std::vector<int64_t> copied(kCalls);
    const auto bytes = static_cast<size_t>(mebibytes * kMiB);
    absl::Status status = echo.Burst(bytes, absl::MakeSpan(calls));
    if (status.ok()) status = copies.Burst(bytes, absl::MakeSpan(copied));
    if (!status.ok()) return status;
    if (round == 0) first.push_back({calls.front()});
    best.push_back({*std::min_element(calls.begin() + 1, calls.end())});
    two_copies.push_back(std::move(copied));
  }
  const double copies_us = Summarize(two_copies).p50;
  for (const auto& [call, rounds] : {std::pair("first", &first), std::pair("best", &best)}) {
    const Distribution times = Summarize(*rounds);
    table->rows.emplace_back()
        .Label("provider", provider)
        .Label("mebibytes", mebibytes)
        .Label("call", call)
        .Value("over_two_copies", times.min / copies_us)
        .Value("two_copies_us", copies_us)
        .Times(times);
  }
  return absl::OkStatus();
}

absl::Status Run(const Settings& settings, Report* report) {
  if (absl::Status status = PinToCore(settings.common.client_core); !status.ok()) return status;
  GatherConditions(settings.common, report);
  report->Condition("calls", "client.call(\"echo\", data, out=buffer), one after the other");
  Table& table = report->AddTable("calls", "Echoes of large payloads");
  report->Note(
      "first: the first call of a new client to an executor that has had none like it. best: the "
      "best of the calls behind the first of a round, whose buffer has been touched. "
      "two_copies_us: "
      "the median of bytes(bytes(data)), in the same process.");
  report->AddPlot({"An echo of a large payload over two copies of it",
                   "calls",
                   "mebibytes",
                   "over_two_copies",
                   {"provider", "call"}});
  return MeasureEach(settings.common, [&](const std::string& provider) {
    absl::Status status;
    for (const int64_t mebibytes : settings.mebibytes) {
      if (status.ok()) status = Measure(settings, provider, mebibytes, &table);
    }
    return status;
  });
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) {
  using namespace invoker;
  CLI::App app("What an echo of a payload far larger than a window takes", bench::kProgram);
  bench::Settings settings;
  bench::AddCommonOptions(&app, &settings.common);
  app.add_option("--mebibytes", settings.mebibytes, "sizes of requests and responses")
      ->delimiter(',')
      ->check(CLI::Range(3, 16384))
      ->default_str("64,1024; 64 with --quick");
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  if (settings.mebibytes.empty()) {
    settings.mebibytes =
        settings.common.quick ? std::vector<int64_t>{64} : std::vector<int64_t>{64, 1024};
  }
  bench::Report report(bench::kProgram, "What does an echo of a large payload take?");
  return bench::Finish(settings.common, report, bench::Run(settings, &report));
}
