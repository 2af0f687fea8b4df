// What a worker has done and used.

#include <algorithm>
#include <atomic>

#include "src/invoke/wire/drop_counters.h"
#include "src/invoke/worker/worker.h"
#include "src/transport/fabric/registered_bytes.h"

namespace invoker {

void Worker::Bill::Fold() {
  const auto running = std::partition(
      meters.begin(), meters.end(),
      [](const std::shared_ptr<const UsageMeter>& meter) { return meter.use_count() == 1; });
  // The executor let go of them after it had written to them for the last time.
  std::atomic_thread_fence(std::memory_order_acquire);
  for (auto meter = meters.begin(); meter != running; ++meter) ended.Add((*meter)->Read());
  meters.erase(meters.begin(), running);
}

UsageCounters Worker::Bill::Sum() const {
  UsageCounters sum = ended;
  for (const std::shared_ptr<const UsageMeter>& meter : meters) sum.Add(meter->Read());
  return sum;
}

UsageCounters Worker::UsageUnder(uint64_t lease) const {
  absl::MutexLock lock(&mutex_);
  const auto bill = bills_.find(lease);
  return bill == bills_.end() ? UsageCounters() : bill->second.Sum();
}

UsageCounters Worker::Usage() const {
  UsageCounters sum;
  for (const std::unique_ptr<Executor>& executor : executors_) sum.Add(executor->Usage());
  return sum;
}

ExecutorCounters Worker::Counters() {
  ExecutorCounters sum;
  for (const std::unique_ptr<Executor>& executor : executors_) sum.Add(executor->Counters());
  return sum;
}

DropCounters Worker::Dropped() const {
  DropCounters sum;
  for (const std::unique_ptr<Executor>& executor : executors_) executor->AddDropped(&sum);
  return sum;
}

std::vector<bootstrap::DropCount> Worker::DroppedMessages() const {
  std::vector<bootstrap::DropCount> counts;
  ForEachDrop(Dropped(), [&counts](absl::string_view reason, uint64_t count) {
    counts.push_back({std::string(reason), count});
  });
  return counts;
}

void Worker::AddStatus(bootstrap::WorkerStatus* status) const {
  absl::MutexLock lock(&mutex_);
  for (const std::unique_ptr<Executor>& executor : executors_) {
    ++(executor->busy() ? status->shared.busy : status->shared.idle);
    status->shared.requests_waiting += executor->requests_waiting();
    status->shared.sessions += executor->live_sessions();
    status->endpoints_given_up += executor->endpoints_given_up();
    const FunctionMeters& meters = executor->function_meters();
    meters.ForEach(meters.Providers(), [&](const std::string& provider, uint16_t id,
                                           const bootstrap::FunctionCounts& counts) {
      mutex_.AssertHeld();
      const FunctionEntry* function = functions_.Find(id);
      status->shared.functions.Add(function == nullptr ? "" : function->name, provider, counts);
    });
  }
  status->drops = DroppedMessages();
  status->downgrades += downgrades();
  status->shared.registered_bytes = transport::RegisteredBytes::Sum();
}

}  // namespace invoker
