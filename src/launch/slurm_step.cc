#include "src/launch/slurm_step.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace invoker::launch {
namespace {

uint64_t NumberIn(const GetVariable& get, const char* name, uint64_t otherwise) {
  uint64_t number = 0;
  return absl::SimpleAtoi(get(name), &number) ? number : otherwise;
}

}  // namespace

absl::StatusOr<SlurmStep> ReadSlurmStep(const GetVariable& get) {
  SlurmStep step;
  step.job = get("SLURM_JOB_ID");
  if (step.job.empty()) {
    return absl::FailedPreconditionError(
        "this is no job of Slurm's, for SLURM_JOB_ID is not set; start it with srun");
  }
  const std::string number = get("SLURM_STEP_ID");
  step.batch = number.empty();
  step.id = absl::StrCat(step.job, ".", step.batch ? "batch" : number);
  step.node = get("SLURMD_NODENAME");
  step.launch_address = get("SLURM_LAUNCH_NODE_IPADDR");
  step.cores = static_cast<uint32_t>(NumberIn(get, "SLURM_CPUS_ON_NODE", 0));
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  step.memory_bytes = kMiB * NumberIn(get, "SLURM_MEM_PER_NODE",
                                      step.cores * NumberIn(get, "SLURM_MEM_PER_CPU", 0));
  // The variables of a script are for the tasks that it starts.
  if (step.batch) return step;
  step.rank = static_cast<uint32_t>(NumberIn(get, "SLURM_PROCID", 0));
  step.nodes = static_cast<uint32_t>(NumberIn(get, "SLURM_STEP_NUM_NODES", 1));
  step.first_on_node = NumberIn(get, "SLURM_LOCALID", 0) == 0;
  return step;
}

}  // namespace invoker::launch
