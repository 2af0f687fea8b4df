#include "src/invoke/connect/client_totals.h"

#include <atomic>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "src/invoke/session/driver/call_driver.h"
#include "src/invoke/wire/drop_counters.h"
#include "src/transport/fabric/registered_bytes.h"

namespace invoker {
namespace {

struct Totals {
  std::atomic<uint64_t> retries{0};
  absl::Mutex mutex;
  absl::flat_hash_set<const Connection*> open ABSL_GUARDED_BY(mutex);
  bootstrap::ClientStatus ended ABSL_GUARDED_BY(mutex);
};

// It stays until the process ends: clients may be static, too.
Totals& TheTotals() {
  static Totals& totals = *new Totals;
  return totals;
}

// What its session has counted, and nothing of the moment.
void AddCounts(const Connection& connection, bootstrap::ClientStatus* status) {
  const std::vector<bootstrap::FunctionInfo> functions = connection.functions();
  const SessionCounts counts = connection.driver()->Counts();
  for (const auto& [id, function] : counts.functions) {
    // One that was named to the caller while the connection was being told of it.
    if (id >= functions.size()) continue;
    status->functions.Add(functions[id].name, connection.provider(), function);
  }
  ForEachDrop(counts.dropped, [status](absl::string_view reason, uint64_t count) {
    status->drops[std::string(reason)] += count;
  });
}

}  // namespace

void ClientTotals::Add(const Connection* connection) {
  Totals& totals = TheTotals();
  absl::MutexLock lock(&totals.mutex);
  totals.open.insert(connection);
  totals.ended.fabrics[connection->provider()];
  ++totals.ended.sessions;
}

void ClientTotals::Remove(const Connection* connection) {
  Totals& totals = TheTotals();
  absl::MutexLock lock(&totals.mutex);
  if (totals.open.erase(connection) != 0) AddCounts(*connection, &totals.ended);
}

void ClientTotals::CountRetry() { TheTotals().retries.fetch_add(1, std::memory_order_relaxed); }

bootstrap::ClientStatus ClientTotals::Read() {
  Totals& totals = TheTotals();
  absl::MutexLock lock(&totals.mutex);
  bootstrap::ClientStatus status = totals.ended;
  // All reasons are there, also before the first session.
  ForEachDrop(ResponseDropCounters(),
              [&status](absl::string_view reason, uint64_t) { status.drops[std::string(reason)]; });
  for (const Connection* connection : totals.open) {
    AddCounts(*connection, &status);
    bootstrap::ClientStatus::Fabric& fabric = status.fabrics[connection->provider()];
    ++fabric.sessions;
    fabric.outstanding += connection->driver()->outstanding();
  }
  status.retries = totals.retries.load(std::memory_order_relaxed);
  status.registered_bytes = transport::RegisteredBytes::Sum();
  return status;
}

}  // namespace invoker
