// A task of another rank than 0: a worker, until the first task ends.

#ifndef INVOKER_SRC_LAUNCH_OTHER_TASK_H_
#define INVOKER_SRC_LAUNCH_OTHER_TASK_H_

#include <string>

#include "absl/status/status.h"
#include "src/launch/slurm_step.h"
#include "src/launch/up.h"

namespace invoker::launch {

// Blocks until the first task has ended, or the worker has, or a signal comes; the worker then
// drains. DEADLINE_EXCEEDED if the first task is not found. `folder` is a private one.
absl::Status RunOtherTask(const UpOptions& options, const SlurmStep& step,
                          const std::string& folder, int signal_fd);

}  // namespace invoker::launch

#endif  // INVOKER_SRC_LAUNCH_OTHER_TASK_H_
