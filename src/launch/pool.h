// A pool of workers that Slurm's jobs are: it grows while leases wait, and shrinks when they end.

#ifndef INVOKER_SRC_LAUNCH_POOL_H_
#define INVOKER_SRC_LAUNCH_POOL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "src/launch/pool_plan.h"

namespace invoker::launch {

struct PoolOptions {
  std::string cluster;  // "etcd://..."
  PoolLimits limits;
  std::vector<std::string> sbatch;  // options of it
  std::vector<std::string> worker;  // options of invoker_server
};

// Credentials for etcd are those of the environment, which the jobs inherit.
//
// Keeps the pool until `stop_fd`, a signalfd, is readable. The jobs stay: the next one with the
// same cluster and user takes them over. While Slurm or etcd does not answer, the pool stays as it
// is. Errors as MemberWatch::Start; INVALID_ARGUMENT for options that do not fit together.
absl::Status RunPool(const PoolOptions& options, int stop_fd);

}  // namespace invoker::launch

#endif  // INVOKER_SRC_LAUNCH_POOL_H_
