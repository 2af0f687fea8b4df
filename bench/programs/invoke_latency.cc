// How long does one call take, from the request's first byte to the response's last, over what the
// fabric itself takes? Blocking calls one after the other, hot, warm and adaptive, against plain
// fi_writedata, TCP sockets and gRPC, all in turns.
//   hot       both ends busy-poll: the defaults
//   adaptive  the worker sleeps after a millisecond without a call, the client as by default
//   warm      both ends sleep whenever they wait

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/harness/options.h"
#include "bench/harness/report.h"
#include "bench/programs/latency_study.h"
#include "src/log/log.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "invoke_latency";
// What fits into a window of the default size.
constexpr size_t kMostBytes = 1 << 20;

int Fail(const absl::Status& status) {
  LogError(status.message());
  return absl::IsInvalidArgument(status) ? tools::kExitUsage : tools::kExitFailed;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Round trips of blocking calls to an invoker_server on another core, against the same "
      "messages over the plain fabric, TCP sockets and gRPC.",
      kProgram);
  LatencyOptions options;
  AddCommonOptions(&app, &options.common);
  options.modes = {"hot", "adaptive", "warm"};
  app.add_option("--mode", options.modes, "hot: busy-polling; warm: sleeping; adaptive: both")
      ->delimiter(',')
      ->check(CLI::IsMember({"hot", "adaptive", "warm"}))
      ->default_str("hot,adaptive,warm");
  app.add_option("--bytes", options.sizes, "sizes of requests and responses")
      ->delimiter(',')
      ->check(CLI::Range(size_t{0}, kMostBytes))
      ->default_str("0,64,256,1024,4096,8192,65536,1048576; less with --quick");
  bool no_grpc = false;
  app.add_flag("--no-grpc", no_grpc, "without gRPC");
  if (const int code = tools::Parse(&app, argc, argv); code >= 0) return code;
  const bool quick = options.common.quick;
  options.grpc = !no_grpc;
  options.grpc_sizes = options.sizes;
  if (options.sizes.empty()) {
    options.sizes = quick ? std::vector<size_t>{64, 1024, 4096, 8192, 65536, 1048576}
                          : std::vector<size_t>{0, 64, 256, 1024, 4096, 8192, 65536, 1048576};
    options.grpc_sizes =
        quick ? std::vector<size_t>{64, 65536} : std::vector<size_t>{64, 4096, 65536, 1048576};
  }
  if (absl::Status status = PinToCore(options.common.client_core); !status.ok()) {
    return Fail(status);
  }
  Report report(kProgram, "What does one call cost, over what the fabric itself costs?");
  GatherConditions(options.common, &report);
  report.Condition("calls", "blocking, one after the other; noop returns as many bytes as it got");
  report.Condition("modes", absl::StrJoin(options.modes, ", "));
  LatencyStudy study(options, &report);
  if (options.grpc) {
    if (absl::Status status = study.ScreenGrpc(); !status.ok()) return Fail(status);
  }
  for (const std::string& provider : options.common.providers) {
    if (absl::Status status = study.Measure(provider); !status.ok()) return Fail(status);
  }
  return Finish(options.common, report);
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) { return invoker::bench::Main(argc, argv); }
