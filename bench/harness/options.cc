#include "bench/harness/options.h"

#include <sched.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "src/log/log.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr int kQuickRounds = 5;

}  // namespace

void AddCommonOptions(CLI::App* app, CommonOptions* options) {
  app->add_option("--provider", options->providers, "libfabric's name; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME")
      ->default_str("tcp;ofi_rxm, shm");
  app->add_option("--address", options->address,
                  "IP address of both ends, on fabrics addressed by IP")
      ->capture_default_str();
  const CLI::Option* rounds =
      app->add_option("--rounds", options->rounds, "how often everything takes its turn")
          ->check(CLI::Range(1, 100000))
          ->capture_default_str();
  app->add_option("--client-core", options->client_core, "core of the side that measures")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_option("--server-core", options->server_core, "core of the other side")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  // Options are handled in the order in which they were added: --rounds is known by now.
  app->add_flag_callback(
      "--quick",
      [options, rounds] {
        options->quick = true;
        if (rounds->count() == 0) options->rounds = kQuickRounds;
      },
      absl::StrCat("less of everything, and ", kQuickRounds,
                   " rounds unless told otherwise: figures are rougher"));
  app->add_option("--json", options->json, "also write the result to this file")->type_name("FILE");
  app->add_option("--plot", options->plot, "also draw it to this file")->type_name("FILE.svg");
  app->footer("Exit status: 0 measured, 1 something failed, 2 bad arguments.");
}

absl::Status PinToCore(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof(set), &set) == 0) return absl::OkStatus();
  const int error = errno;
  CPU_ZERO(&set);
  std::string cores;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) absl::StrAppend(&cores, cores.empty() ? "" : ", ", i);
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("cannot run on core ", core, ": ", strerror(error),
                                                 "; this process may use: ", cores));
}

void AllowDescriptors() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

absl::Status MeasureEach(const CommonOptions& options,
                         absl::FunctionRef<absl::Status(const std::string& provider)> measure) {
  for (const std::string& provider : options.providers) {
    if (absl::Status status = measure(provider); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(provider, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

int Finish(const CommonOptions& options, const Report& report, const absl::Status& measured) {
  if (!measured.ok()) {
    LogError(measured.message());
    return tools::kExitFailed;
  }
  report.Print();
  int code = tools::kExitOk;
  const auto check = [&](const absl::Status& status) {
    if (status.ok()) return;
    LogError(status.message());
    code = tools::kExitFailed;
  };
  if (!options.json.empty()) check(report.WriteJson(options.json));
  if (!options.plot.empty()) check(report.WritePlot(options.plot));
  return code;
}

}  // namespace invoker::bench
