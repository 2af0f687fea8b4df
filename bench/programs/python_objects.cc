// What Python objects add to a call between two Python processes: one of a function of two small
// objects, and one of a function of bytes, in turns.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/harness/distribution.h"
#include "bench/harness/interleave.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/harness/server_process.h"
#include "bench/programs/python_contender.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "python_objects";
constexpr size_t kBytes = 64;

absl::Status Measure(const CommonOptions& options, const std::string& provider, Table* table) {
  const absl::StatusOr<std::unique_ptr<ServerProcess>> server =
      StartPython("python_server.py", {provider}, options.server_core);
  if (!server.ok()) return server.status();
  const absl::StatusOr<std::unique_ptr<ServerProcess>> peer =
      StartPython("python_peer.py", {(*server)->first_line(), provider}, options.client_core);
  if (!peer.ok()) return peer.status();
  PythonContender bytes(peer->get(), "call_out");
  PythonContender objects(peer->get(), "add");
  InterleavePlan plan;
  plan.sizes = {kBytes};
  plan.rounds = options.rounds;
  const absl::StatusOr<std::vector<Measured>> measured = Interleave({&bytes, &objects}, plan);
  if (!measured.ok()) return measured.status();
  for (const Measured& one : *measured) {
    table->rows.emplace_back()
        .Label("provider", provider)
        .Label("call", one.contender == &bytes ? "bytes" : "objects")
        .Value("minus_us", MedianAbove(one.rounds, measured->front().rounds))
        .Times(Summarize(one.rounds));
  }
  return absl::OkStatus();
}

absl::Status Run(const CommonOptions& options, Report* report) {
  if (absl::Status status = PinToCore(options.client_core); !status.ok()) return status;
  GatherConditions(options, report);
  report->Condition("bytes", absl::StrCat("client.call of ", kBytes, " B into a buffer"));
  report->Condition("objects", "remote(i, 1), which returns their sum");
  Table& table = report->AddTable("calls", "Calls of functions of a Python process's");
  report->AddPlot(
      {"A call between Python processes (p50, us)", "calls", "minus_us", "p50_us", {"provider"}});
  return MeasureEach(
      options, [&](const std::string& provider) { return Measure(options, provider, &table); });
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) {
  using namespace invoker;
  CLI::App app("What Python objects add to a call between two Python processes", bench::kProgram);
  bench::CommonOptions options;
  bench::AddCommonOptions(&app, &options);
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  bench::Report report(bench::kProgram, "What do Python objects add to a call?");
  return bench::Finish(options, report, bench::Run(options, &report));
}
