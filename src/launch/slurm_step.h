// What Slurm tells a task of itself.

#ifndef INVOKER_SRC_LAUNCH_SLURM_STEP_H_
#define INVOKER_SRC_LAUNCH_SLURM_STEP_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace invoker::launch {

struct SlurmStep {
  std::string job;     // "42"
  std::string id;      // "42.0"; "42.batch" in a script of sbatch's
  bool batch = false;  // such a script
  uint32_t rank = 0;   // this task's in the step
  uint32_t nodes = 1;  // the step's
  bool first_on_node = true;
  std::string node;            // this one's name
  std::string launch_address;  // where srun runs; may be empty
  uint32_t cores = 0;          // the job's on this node; 0: not told
  uint64_t memory_bytes = 0;   // the job's on this node; 0: not told
};

// The value of a variable; empty if there is none.
using GetVariable = std::function<std::string(const char* name)>;

// FAILED_PRECONDITION outside of a job of Slurm's.
absl::StatusOr<SlurmStep> ReadSlurmStep(const GetVariable& get);

}  // namespace invoker::launch

#endif  // INVOKER_SRC_LAUNCH_SLURM_STEP_H_
