// Counters that other servers add their tenants' usage to, over the fabric.
//
// A row of counters for each tenant, on each fabric that has had a contributor; a tenant's sum is
// that of its rows. Additions are the fabric's atomics where it has them, else messages, which the
// accumulator's thread carries out: it has an endpoint on each such fabric, and sleeps while
// nothing comes. The sums are this process's: they begin at zero with it.
//
// A contributor may add any number, and a counter's key is all that it takes: take
// contributions only where every server and client that can reach this one is trusted.
//
// Any thread.

#ifndef INVOKER_SRC_ACCOUNTING_USAGE_ACCUMULATOR_H_
#define INVOKER_SRC_ACCOUNTING_USAGE_ACCUMULATOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/executor/executor_inbox.h"
#include "src/transport/discovery/discovery.h"

namespace invoker {

class UsageAccumulator {
 public:
  struct Options {
    // Tenants with a row of their own; further ones share the row of kOtherTenants.
    uint32_t max_tenants = 4096;
    // Servers that may contribute over one fabric; further ones are refused until one of these has
    // been silent for a minute. Each costs memory and an entry of the endpoint's address vector.
    uint32_t max_contributors = 1024;
    // By messages even where the fabric has atomics.
    bool by_message = false;
  };

  // Opens nothing until somebody contributes. `fabrics`: those that the server offers.
  static absl::StatusOr<std::unique_ptr<UsageAccumulator>> Start(
      const std::vector<transport::FabricChoice>& fabrics, const Options& options);
  ~UsageAccumulator();
  UsageAccumulator(const UsageAccumulator&) = delete;
  UsageAccumulator& operator=(const UsageAccumulator&) = delete;

  // Makes ready for a round of additions by a server, which should come within a minute. Blocks for
  // some milliseconds if it is the first on its fabric. RESOURCE_EXHAUSTED if there are too many.
  absl::StatusOr<bootstrap::ContributionTarget> Contribute(
      const bootstrap::Contribution& contribution) ABSL_LOCKS_EXCLUDED(mutex_);

  // The sums of tenants to which something has been added, by name. `tenant` empty: everybody's.
  std::vector<bootstrap::UsageRecord> Records(absl::string_view tenant) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Port;

  UsageAccumulator(uint64_t id, const Options& options);

  void ThreadMain();
  absl::StatusOr<Port*> OpenPort(const bootstrap::FabricIdentity& fabric)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint32_t RowFor(const std::string& tenant) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t id_;
  const Options options_;
  std::vector<transport::FabricChoice> fabrics_;
  ExecutorInbox inbox_;
  std::atomic<bool> stop_{false};
  mutable absl::Mutex mutex_;
  // By fabric; nullptr where nobody has contributed.
  std::vector<std::unique_ptr<Port>> ports_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, uint32_t> rows_ ABSL_GUARDED_BY(mutex_);
  // The thread's.
  std::vector<Port*> driven_;
  std::vector<transport::Reactor*> reactors_;
  std::thread thread_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_ACCOUNTING_USAGE_ACCUMULATOR_H_
