// An ExecutorSpawner that starts when it is first needed, or before that on a thread of its own.
//
// A server whose clients lease nothing need not pay for a spawner; one that expects leases starts
// it beside everything else. Any thread.

#ifndef INVOKER_SRC_LEASE_SPAWNER_SOURCE_H_
#define INVOKER_SRC_LEASE_SPAWNER_SOURCE_H_

#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "src/isolation/spawner/executor_spawner.h"

namespace invoker {

class SpawnerSource {
 public:
  using Start = std::function<absl::StatusOr<std::unique_ptr<ExecutorSpawner>>()>;

  explicit SpawnerSource(Start start) : start_(std::move(start)) {}
  // Ends the spawner, and every process that it has started.
  ~SpawnerSource();
  SpawnerSource(const SpawnerSource&) = delete;
  SpawnerSource& operator=(const SpawnerSource&) = delete;

  // Starts the spawner and does not wait for it. Once.
  void StartSoon();

  // Waits for the spawner, and starts it if nobody has. After a failure the next call tries again.
  absl::StatusOr<ExecutorSpawner*> Get() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool Settled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !starting_; }

  const Start start_;
  absl::Mutex mutex_;
  bool starting_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<ExecutorSpawner> spawner_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_LEASE_SPAWNER_SOURCE_H_
