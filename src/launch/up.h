// A job of Slurm's with a worker on each of its nodes, and a program that calls them.
//
// srun starts the same command on every node. The task of rank 0 starts etcd and the program, and
// ends the job; all of them start a worker.

#ifndef INVOKER_SRC_LAUNCH_UP_H_
#define INVOKER_SRC_LAUNCH_UP_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/launch/slurm_step.h"

namespace invoker::launch {

struct UpOptions {
  std::string cluster;                      // "etcd://..."; empty: etcd of the job's own
  std::string folder = ".";                 // where the tasks meet: the same one on every node
  std::string address;                      // this node's, numeric; empty: found out
  absl::Duration wait = absl::Seconds(60);  // for the workers, before the program starts
  std::vector<std::string> worker;          // options of invoker_server
  std::vector<std::string> program;  // and its arguments; empty: only workers, for a named cluster
};

// Runs the task that `step` describes, and blocks until it ends: that of rank 0 returns the exit
// status of the program, as a shell says it, and others 0. `signal_fd` is a signalfd: SIGTERM and
// SIGINT go on to the program, and the workers drain. Without a program it becomes the worker, and
// returns only errors. INVALID_ARGUMENT for options that do not fit together.
absl::StatusOr<int> Up(const UpOptions& options, const SlurmStep& step, int signal_fd);

}  // namespace invoker::launch

#endif  // INVOKER_SRC_LAUNCH_UP_H_
