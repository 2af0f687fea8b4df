// How large a pool of workers is to be. Pure: the caller knows the jobs and their workers, and has
// the clock.

#ifndef INVOKER_SRC_LAUNCH_POOL_PLAN_H_
#define INVOKER_SRC_LAUNCH_POOL_PLAN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace invoker::launch {

struct PoolLimits {
  uint32_t least = 1;
  uint32_t most = 1;
  absl::Duration idle = absl::Seconds(60);  // without a lease, before a worker is drained
};

// A job of the pool's, which is one worker.
struct PoolJob {
  std::string id;
  bool registered = false;  // its worker is a member of the cluster
  bool idle = false;        // nobody has a lease on it
};

struct PoolStep {
  uint32_t submit = 0;              // so many jobs
  std::vector<std::string> drain;   // these jobs
  std::vector<std::string> failed;  // these have ended, and their workers had never registered
  absl::Duration pause;             // before jobs are submitted again, after such failures
};

class PoolPlan {
 public:
  explicit PoolPlan(const PoolLimits& limits) : limits_(limits) {}

  // What is to be done at `now`. `jobs` are all that have not ended. `waiting`: leases that wait in
  // the cluster; each may want more than one worker. A job that is to be drained counts no more,
  // and is not named again.
  PoolStep Next(const std::vector<PoolJob>& jobs, uint32_t waiting, absl::Duration now);

  // It may have ended before the next step, which sees then that it has failed.
  void Submitted(const std::string& job) { known_[job]; }

  // The signal to drain could not be sent, so the job counts again.
  void DrainFailed(const std::string& job) { known_[job].draining = false; }

 private:
  struct Known {
    bool registered = false;  // now or earlier
    bool draining = false;
    bool idle = false;
    absl::Duration idle_since;
  };

  void Learn(const std::vector<PoolJob>& jobs, absl::Duration now, PoolStep* step);

  const PoolLimits limits_;
  std::map<std::string, Known> known_;  // by job
  uint32_t failures_ = 0;               // one after the other
  absl::Duration submit_from_;
  uint32_t round_ = 0;        // jobs that were last submitted for leases that wait
  absl::Duration waited_at_;  // when a lease last waited
};

}  // namespace invoker::launch

#endif  // INVOKER_SRC_LAUNCH_POOL_PLAN_H_
