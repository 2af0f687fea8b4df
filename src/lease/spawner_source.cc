#include "src/lease/spawner_source.h"

#include <utility>

#include "src/base/start_thread.h"

namespace invoker {

SpawnerSource::~SpawnerSource() {
  if (thread_.joinable()) thread_.join();
}

void SpawnerSource::StartSoon() {
  // A caller that needs the spawner hears of a failure from Get, which starts it if there is no
  // thread.
  transport::StartThread(&thread_, [this] { Get().IgnoreError(); }).IgnoreError();
}

absl::StatusOr<ExecutorSpawner*> SpawnerSource::Get() {
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &SpawnerSource::Settled));
    if (spawner_ != nullptr) return spawner_.get();
    starting_ = true;
  }
  absl::StatusOr<std::unique_ptr<ExecutorSpawner>> spawner = start_();
  absl::MutexLock lock(&mutex_);
  starting_ = false;
  if (!spawner.ok()) return spawner.status();
  spawner_ = *std::move(spawner);
  return spawner_.get();
}

}  // namespace invoker
