#include "src/launch/worker_program.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/base/memory_limit.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/cluster/cluster_address.h"
#include "src/cluster/own_address.h"
#include "src/launch/labels.h"
#include "src/transport/self_test/installed_program.h"

namespace invoker::launch {
namespace {

// One part in so many of the job's memory is leased. The rest is for the worker itself, and for the
// program.
constexpr uint64_t kLeasedPart = 2;

constexpr absl::Duration kDrainLimit = absl::Seconds(15);

uint32_t CoresOfThisProcess() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? static_cast<uint32_t>(CPU_COUNT(&set)) : 1;
}

// The job's, as Slurm says it or as the kernel limits it. `srun --mem` tells a step only by the
// limit. 0: neither.
uint64_t MemoryOf(const SlurmStep& step) {
  const uint64_t limit = OwnMemoryLimit();
  return limit == 0 || step.memory_bytes == 0 ? std::max(limit, step.memory_bytes)
                                              : std::min(limit, step.memory_bytes);
}

// The interpreter that has the package, or none: the program's own, if Python runs it.
std::string FindPython(const std::vector<std::string>& program) {
  std::string python = "python3";
  const std::string& first = program.front();
  if (absl::StartsWith(first.substr(first.rfind('/') + 1), "python")) python = first;
  absl::StatusOr<std::string> path =
      RunCommand({python, "-c", "import invoker, sys; print(sys.executable)"}, /*stop_fd=*/-1);
  return path.ok() ? std::string(absl::StripAsciiWhitespace(*path)) : "";
}

}  // namespace

void DrainWorker(Program* worker) {
  worker->Signal(SIGTERM);
  worker->AwaitEnd(kDrainLimit);
}

std::string NodeAddress(const UpOptions& options, const SlurmStep& step, const std::string& peer) {
  if (!options.address.empty()) return options.address;
  for (const std::string& host : {peer, step.launch_address, step.node}) {
    if (host.empty()) continue;
    absl::StatusOr<std::string> address = cluster::OwnAddressTowards({host, 1});
    if (address.ok() && !bootstrap::IsLoopback(*address)) return *std::move(address);
  }
  return "127.0.0.1";
}

std::string EtcdHost(const UpOptions& options) {
  const absl::StatusOr<cluster::EtcdAddress> address = cluster::ParseEtcdAddress(options.cluster);
  return address.ok() ? address->endpoints.front().host : "";
}

absl::StatusOr<ProgramSettings> WorkerProgram(const UpOptions& options, const SlurmStep& step,
                                              const std::string& address,
                                              const std::string& cluster,
                                              const JobCertificate* certificate) {
  absl::StatusOr<std::string> path =
      transport::FindInstalledProgram("invoker_server", "runs the functions");
  if (!path.ok()) return path.status();
  ProgramSettings settings;
  // The line that it prints when it is ready is for those that do not look into the cluster.
  settings.output = kNowhere;
  settings.command = {*std::move(path), absl::StrCat("--label=", kJobLabel, "=", step.job),
                      absl::StrCat("--label=", kStepLabel, "=", step.id)};
  if (!step.node.empty())
    settings.command.push_back(absl::StrCat("--label=", kNodeLabel, "=", step.node));
  settings.command.insert(settings.command.end(), options.worker.begin(), options.worker.end());

  std::map<std::string, std::string> defaults = {
      {"INVOKER_SERVER_LISTEN", bootstrap::FormatHostPort({address, 0})}};
  const bool leases = std::find(options.worker.begin(), options.worker.end(), "--lease-cores=0") ==
                      options.worker.end();
  if (leases) defaults["INVOKER_SERVER_BIND_EXECUTORS"] = "true";
  if (leases && step.cores != 0) {
    defaults["INVOKER_SERVER_LEASE_CORES"] =
        absl::StrCat(std::min(step.cores, CoresOfThisProcess()));
  }
  if (const uint64_t memory = MemoryOf(step); leases && memory != 0) {
    defaults["INVOKER_SERVER_LEASE_MEMORY"] = absl::StrCat(memory / kLeasedPart);
  }
  if (certificate != nullptr) settings.variables = certificate->ForWorker();
  if (leases && certificate != nullptr) {
    defaults["INVOKER_SERVER_ALLOW_UPLOAD"] = "all";
    if (getenv("INVOKER_SERVER_PYTHON") == nullptr) {
      if (std::string python = FindPython(options.program); !python.empty()) {
        defaults["INVOKER_SERVER_PYTHON"] = std::move(python);
      }
    }
  }
  settings.variables["INVOKER_SERVER_CLUSTER"] = cluster;
  for (auto& [name, value] : defaults) {
    if (getenv(name.c_str()) == nullptr) settings.variables[name] = std::move(value);
  }
  return settings;
}

}  // namespace invoker::launch
