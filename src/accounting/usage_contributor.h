// Adds what a server's tenants have used to the counters of another one (UsageAccumulator).
//
// A thread does it every so often and whenever a lease has ended. A round asks the accumulator over
// gRPC where to add, which also shows that it is there, adds each counter's growth since the last
// round over the fabric, and waits until the fabric says that the additions are done. While the
// accumulator is away, the growth is kept, and goes with the round that finds it again.
//
// Nothing is ever added twice. An addition that the fabric took and did not confirm (the
// accumulator vanished in the middle of a round) may have happened or not: it is not repeated, but
// counted (unconfirmed()) and reported, so that sums over there are never too large, and too small
// only where the log says so.

#ifndef INVOKER_SRC_ACCOUNTING_USAGE_CONTRIBUTOR_H_
#define INVOKER_SRC_ACCOUNTING_USAGE_CONTRIBUTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "invoker/client_credentials.h"
#include "src/accounting/usage_book.h"
#include "src/accounting/usage_row.h"
#include "src/bootstrap/client/client.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

struct UsageContributorOptions {
  std::string server;             // the accumulator's HOST:PORT
  ClientCredentials credentials;  // to show there
  absl::Duration interval = absl::Seconds(2);
  absl::Duration timeout = absl::Seconds(5);  // for each step of a round
  // UsageBook::Totals: every field of a tenant's usage only ever grows.
  std::function<std::vector<UsageBook::TenantTotal>()> totals;
  // The fabric to add over, by its name; empty: the best that both sides have.
  std::string provider;
};

class UsageContributor final : public transport::OperationOwner, public transport::ReactorHandler {
 public:
  // INVALID_ARGUMENT if the server is no HOST:PORT. Does not wait for it.
  static absl::StatusOr<std::unique_ptr<UsageContributor>> Start(UsageContributorOptions options);
  // Tries a last round, for as long as its steps' timeouts allow.
  ~UsageContributor() override;

  // Any thread, for these.

  // A round is due now: a lease has ended.
  void Kick() ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until a round that began after this call has ended: OK, or what kept it from adding.
  absl::Status Flush() ABSL_LOCKS_EXCLUDED(mutex_);
  // Additions of which nobody knows whether they happened.
  uint64_t unconfirmed() const { return unconfirmed_.load(std::memory_order_relaxed); }
  uint64_t additions() const { return additions_.load(std::memory_order_relaxed); }

  // The thread's.
  void OnOperationFailed(const transport::Operation& operation,
                         const absl::Status& status) override;
  void OnToken(uint64_t token) override { static_cast<void>(token); }
  void OnTick(int64_t now_ns) override { static_cast<void>(now_ns); }

 private:
  // One tenant's growth.
  struct Growth {
    std::string tenant;
    UsageRow now;
    UsageRow* sent;  // in sent_
  };

  UsageContributor(uint64_t id, UsageContributorOptions options);

  void ThreadMain();
  absl::Status Round();
  std::vector<Growth> FindGrowth();
  absl::Status Connect();
  absl::Status OpenReactor();
  absl::Status FollowAccumulator(const bootstrap::ContributionTarget& target);
  absl::Status Add(absl::Span<const Growth> growth, const bootstrap::ContributionTarget& target);
  void CloseReactor();

  const uint64_t id_;
  const UsageContributorOptions options_;
  std::atomic<uint64_t> unconfirmed_{0};
  std::atomic<uint64_t> additions_{0};
  mutable absl::Mutex mutex_;
  bool kicked_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t rounds_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t rounds_ended_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status last_round_ ABSL_GUARDED_BY(mutex_);

  // The thread's.
  std::unique_ptr<bootstrap::BootstrapClient> client_;
  std::unique_ptr<transport::Reactor> reactor_;
  bootstrap::FabricIdentity fabric_;  // reactor_'s
  const transport::Peer* peer_ = nullptr;
  std::string peer_address_;
  uint64_t accumulator_ = 0;  // 0: none yet
  absl::flat_hash_map<std::string, std::unique_ptr<UsageRow>> sent_;
  absl::Status failure_;  // why this round's additions failed
  bool away_ = false;     // the last round did not get through, and that has been said
  std::thread thread_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_ACCOUNTING_USAGE_CONTRIBUTOR_H_
