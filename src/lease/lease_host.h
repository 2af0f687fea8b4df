// What stands behind the bootstrap service of a server that leases executors: a Worker, whose
// executors all clients share that lease none, and executor processes of a lease's own.
//
// A lease's cores and memory are taken when it is admitted and are free again only when CloseLease
// has ended its processes; then those who wait in line are admitted, in order. The spawner is asked
// for when the first lease is admitted.
//
// Any thread, as SessionHost says.

#ifndef INVOKER_SRC_LEASE_LEASE_HOST_H_
#define INVOKER_SRC_LEASE_LEASE_HOST_H_

#include <atomic>
#include <chrono>
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
#include "src/accounting/usage_book.h"
#include "src/base/work_threads.h"
#include "src/bootstrap/messages/session_host.h"
#include "src/invoke/worker/worker.h"
#include "src/lease/capacity.h"
#include "src/lease/executor_lease.h"
#include "src/lease/lease_policy.h"
#include "src/lease/spawner_source.h"

namespace invoker {

class LeaseHost final : public bootstrap::SessionHost {
 public:
  // For the server: what becomes of leases of executors of their own. Any thread; must not block.
  using LeaseLost = std::function<void(uint64_t lease, absl::string_view reason)>;
  struct Events {
    Worker::SessionClosed on_session_closed;
    Worker::Downgraded on_downgraded;
    // An executor has ended by itself, and its lease with it.
    LeaseLost on_lease_lost;
  };

  // Who serves leases without executors of their own: a Worker.
  struct Shared {
    bootstrap::SessionHost* host;
    // An open lease's; does not block. Empty: told when the lease is closed only.
    std::function<UsageReading(uint64_t lease)> usage;
  };

  // All outlive the host. `spawner` may be nullptr if the policy leases no cores.
  LeaseHost(const LeasePolicy& policy, Shared shared, SpawnerSource* spawner, UsageBook* book);
  // Every lease must have been closed.
  ~LeaseHost() override;
  LeaseHost(const LeaseHost&) = delete;
  LeaseHost& operator=(const LeaseHost&) = delete;

  // What happens before this is called happens unannounced.
  void set_events(Events events) ABSL_LOCKS_EXCLUDED(mutex_);

  // The capacity, and all else as the shared executors'.
  bootstrap::WorkerInfo Info() const override;
  void OpenLease(uint64_t lease, const LeaseTerms& terms,
                 std::shared_ptr<LeaseObserver> observer) override;
  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      uint64_t lease, const bootstrap::OpenSessionRequest& request) override;
  absl::Status SwitchNotification(uint64_t lease, uint64_t handle, Notification notification,
                                  absl::string_view reason) override;
  absl::StatusOr<bootstrap::RequestState> FindRequest(uint64_t lease, uint64_t handle,
                                                      uint64_t sequence) override;
  absl::Status CloseSession(uint64_t lease, uint64_t handle) override;
  absl::StatusOr<std::vector<bootstrap::FunctionInfo>> Load(uint64_t lease, const std::string& path,
                                                            CodeKind kind,
                                                            const std::string& name) override;
  absl::StatusOr<uint16_t> RegisterWindow(uint64_t lease, uint64_t handle,
                                          const bootstrap::WindowDescriptor& window, bool readable,
                                          bool writable) override;
  absl::Status ForgetWindow(uint64_t lease, uint64_t handle, uint16_t number) override;
  absl::StatusOr<bootstrap::LeaseIdentity> FindLease(uint64_t number) override;
  std::vector<bootstrap::UsageRecord> GetUsage(absl::string_view tenant) override;
  // Ends the lease's executors, and so whatever waits for them.
  void RetireLease(uint64_t lease) override;
  absl::StatusOr<ResourceUsage> LeaseUsage(uint64_t lease) override;
  // Those of the shared executors and of leases' own, leases that have ended included.
  std::vector<bootstrap::DropCount> DroppedMessages() const override ABSL_LOCKS_EXCLUDED(mutex_);
  void AddStatus(bootstrap::WorkerStatus* status) const override ABSL_LOCKS_EXCLUDED(mutex_);
  ResourceUsage CloseLease(uint64_t lease) override;

  // Executors of leases' own refuse calls from now on. Does not block.
  void Drain() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends them: each may finish the function that it runs, within `limit`. Blocks until all are
  // gone; their leases stay, and nothing can be done with them but to close them.
  void Stop(absl::Duration limit) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Clock = std::chrono::steady_clock;

  // kRefused: it has nothing, or its executors could not be started.
  enum class Phase { kShared, kWaiting, kStarting, kRunning, kRefused };

  struct Entry {
    Phase phase;
    LeaseTerms terms;  // granted ones
    std::shared_ptr<LeaseObserver> observer;
    Clock::time_point give_up = Clock::time_point::max();  // while waiting
    int64_t told_ahead = -1;                               // what the observer was last told
    std::shared_ptr<ExecutorLease> executors;              // from kStarting on
    uint32_t to_start = 0;                                 // executors that are not there yet
    bool counted = false;                                  // among its tenant's
    bool closing = false;
    Clock::time_point read_at;  // when its usage was read last
  };

  // Nullptr if the lease has no executors of its own.
  std::shared_ptr<ExecutorLease> Find(uint64_t lease) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The lease has its resources: starts its executors.
  void Admit(uint64_t lease, Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartExecutor(uint64_t lease, std::shared_ptr<ExecutorLease> executors, uint32_t index)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnStarted(uint64_t lease, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Something has left: admits those who fit now, and has the others told their places.
  void MoveLine() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells those whose place has changed. Takes as long as the line is, so that who leaves it does
  // not do it: the clock does, now and then.
  void TellPlaces() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Against what the policy allows the terms' tenant; then the terms count as held, from the line
  // to the end. PERMISSION_DENIED for what it never may, RESOURCE_EXHAUSTED for what it has taken.
  absl::Status CountForTenant(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Uncount(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status NoRoom(const LeaseTerms& terms) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ExecutorLease::Events EventsFor(uint64_t lease, std::shared_ptr<LeaseObserver> observer);
  void OnLost(uint64_t lease, const std::string& reason) ABSL_LOCKS_EXCLUDED(mutex_);
  Events events() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends waits, and takes readings for the book.
  void RunClock() ABSL_LOCKS_EXCLUDED(mutex_);
  void EndWaits(Clock::time_point now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unless it has been read since `asked`.
  void TakeReading(uint64_t lease, Clock::time_point asked, Entry* entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeReadings(Clock::time_point asked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // When the clock has something to do next.
  absl::Duration UntilNext(Clock::time_point now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const LeasePolicy policy_;
  const Shared shared_;
  SpawnerSource* const spawner_;
  UsageBook* const book_;

  mutable absl::Mutex mutex_;
  absl::CondVar changed_;  // for the clock's thread
  Events events_ ABSL_GUARDED_BY(mutex_);
  LeaseCapacity capacity_ ABSL_GUARDED_BY(mutex_);
  // By tenant, of those that a policy limits.
  absl::flat_hash_map<std::string, Resources> held_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // by lease
  // By executors of leases that have ended.
  DropCounters ended_dropped_ ABSL_GUARDED_BY(mutex_);
  bootstrap::ExecutorsStatus ended_ ABSL_GUARDED_BY(mutex_);
  struct Lost {
    uint64_t count = 0;
    std::vector<bootstrap::LostLease> last;  // the newest first
  };
  Lost lost_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> downgrades_{0};                  // WorkerStatus's, of leased executors
  bool places_changed_ ABSL_GUARDED_BY(mutex_) = false;  // since they were told
  Clock::time_point next_telling_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bootstrap::WorkThreads starters_;
  std::thread clock_;  // last: it uses all of the above
};

}  // namespace invoker

#endif  // INVOKER_SRC_LEASE_LEASE_HOST_H_
