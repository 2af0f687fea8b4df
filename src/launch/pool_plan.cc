#include "src/launch/pool_plan.h"

#include <algorithm>
#include <utility>

namespace invoker::launch {
namespace {

// After the first failure; doubled by each further one.
constexpr absl::Duration kFirstPause = absl::Seconds(2);
constexpr absl::Duration kLongestPause = absl::Seconds(60);
constexpr uint32_t kDoublings = 5;

// A client that waits in line asks the other workers every 5 s, and loads are a second old.
constexpr absl::Duration kNotice = absl::Seconds(7);

}  // namespace

void PoolPlan::Learn(const std::vector<PoolJob>& jobs, absl::Duration now, PoolStep* step) {
  std::map<std::string, Known> before = std::exchange(known_, {});
  for (const PoolJob& job : jobs) {
    Known& known = known_[job.id];
    const auto found = before.find(job.id);
    if (found != before.end()) known = found->second;
    if (found != before.end()) before.erase(found);
    if (job.registered) failures_ = 0;
    known.registered |= job.registered;
    const bool idle = job.registered && job.idle;
    if (idle && !known.idle) known.idle_since = now;
    known.idle = idle;
  }
  for (const auto& [id, gone] : before) {
    if (!gone.registered && !gone.draining) step->failed.push_back(id);
  }
  if (step->failed.empty()) return;
  round_ = 0;
  step->pause = std::min(kFirstPause * (1 << std::min(failures_, kDoublings)), kLongestPause);
  ++failures_;
  submit_from_ = now + step->pause;
}

PoolStep PoolPlan::Next(const std::vector<PoolJob>& jobs, uint32_t waiting, absl::Duration now) {
  PoolStep step;
  Learn(jobs, now, &step);
  uint32_t count = 0;
  uint32_t coming = 0;
  for (const auto& [id, known] : known_) {
    if (known.draining) continue;
    ++count;
    // Clients do not know of it yet, or not yet that it has room.
    if (!known.registered || (known.idle && now - known.idle_since < kNotice)) ++coming;
  }
  if (waiting != 0) waited_at_ = now;
  if (now - waited_at_ >= kNotice) round_ = 0;
  if (now >= submit_from_) {
    if (count < limits_.least) {
      step.submit = limits_.least - count;
    } else if (waiting > coming && count < limits_.most) {
      // If leases still wait once all workers have come, they want more than one worker each. How
      // many is not known, so each round doubles.
      round_ = coming == 0 ? std::max(waiting, 2 * round_) : waiting - coming;
      step.submit = round_ = std::min(round_, limits_.most - count);
    }
  }
  if (waiting != 0) return step;
  for (auto& [id, known] : known_) {
    if (count <= limits_.least) break;
    if (known.draining || !known.idle || now - known.idle_since < limits_.idle) continue;
    known.draining = true;
    step.drain.push_back(id);
    --count;
  }
  return step;
}

}  // namespace invoker::launch
