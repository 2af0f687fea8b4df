// The options that every benchmark has, and what follows from them.

#ifndef INVOKER_BENCH_HARNESS_OPTIONS_H_
#define INVOKER_BENCH_HARNESS_OPTIONS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bench/harness/report.h"

namespace invoker::bench {

struct CommonOptions {
  std::vector<std::string> providers = {"tcp;ofi_rxm", "shm"};  // --provider=NAME, repeatable
  std::string address = "127.0.0.1";  // --address: where the fabric is addressed by IP
  int rounds = 20;                    // --rounds: how often everything takes its turn
  int client_core = 0;                // --client-core
  int server_core = 1;                // --server-core
  bool quick = false;                 // --quick: fewer rounds; figures are rougher
  std::string json;                   // --json=FILE
  std::string plot;                   // --plot=FILE.svg
};

void AddCommonOptions(CLI::App* app, CommonOptions* options);

// Keeps this thread, and those that it starts from now on, on one core. An error says which cores
// there are.
absl::Status PinToCore(int core);

// Raises this process's limit on descriptors as far as the system allows.
void AllowDescriptors();

// Measures one fabric after the other, until one fails: the error names it.
absl::Status MeasureEach(const CommonOptions& options,
                         absl::FunctionRef<absl::Status(const std::string& provider)> measure);

// CPU, cores, kernel, libfabric, build, clock source, load, cores used, rounds.
void GatherConditions(const CommonOptions& options, Report* report);

// Prints the report and writes the files that were asked for; if the measurement failed, says why
// instead. The program's exit status.
int Finish(const CommonOptions& options, const Report& report,
           const absl::Status& measured = absl::OkStatus());

}  // namespace invoker::bench

#endif  // INVOKER_BENCH_HARNESS_OPTIONS_H_
