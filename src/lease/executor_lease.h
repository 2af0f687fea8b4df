// The executors of one lease's own: their processes, and the sessions that clients have with them.
//
// The death of one executor ends them all. Session handles of different processes may be equal; the
// lease gives its own.
//
// Any thread; methods that talk to a process block until it has answered.

#ifndef INVOKER_SRC_LEASE_EXECUTOR_LEASE_H_
#define INVOKER_SRC_LEASE_EXECUTOR_LEASE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "invoker/notification.h"
#include "src/accounting/usage_book.h"
#include "src/bootstrap/messages/messages.h"
#include "src/isolation/process/executor_process.h"
#include "src/isolation/spawner/executor_spawner.h"

namespace invoker {

class ExecutorLease {
 public:
  // On threads of the spawner's; must not block. None comes after End.
  struct Events {
    // At most once, and not after Stop: an executor has ended by itself.
    std::function<void(const LeaseEnd&)> on_ended;
    std::function<void(uint64_t handle, absl::string_view reason)> on_session_closed;
    std::function<void(absl::string_view provider, absl::string_view reason)> on_downgraded;
  };

  // On terms as granted.
  ExecutorLease(const LeaseTerms& terms, Events events);
  // End must have been called if Start was.
  ~ExecutorLease() = default;
  ExecutorLease(const ExecutorLease&) = delete;
  ExecutorLease& operator=(const ExecutorLease&) = delete;

  // Starts the executor with this index, once for each of them. Blocks until it can take sessions.
  // The spawner must outlive the lease.
  absl::Status Start(uint32_t index, ExecutorSpawner* spawner) ABSL_LOCKS_EXCLUDED(mutex_);

  // Like SessionHost's. UNAVAILABLE if the executor has ended.
  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      const bootstrap::OpenSessionRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status SwitchNotification(uint64_t handle, Notification notification,
                                  absl::string_view reason) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<bootstrap::RequestState> FindRequest(uint64_t handle, uint64_t sequence)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CloseSession(uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<uint16_t> RegisterWindow(uint64_t handle,
                                          const bootstrap::WindowDescriptor& window, bool readable,
                                          bool writable) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status ForgetWindow(uint64_t handle, uint16_t number) ABSL_LOCKS_EXCLUDED(mutex_);
  // Into all executors at the same time. Calls of several threads follow one another: ids are given
  // in the order in which code is loaded, and must be the same everywhere. If some executors can
  // and others cannot, the lease has ended.
  absl::StatusOr<std::vector<bootstrap::FunctionInfo>> Load(const std::string& path, CodeKind kind,
                                                            const std::string& name)
      ABSL_LOCKS_EXCLUDED(load_mutex_, mutex_);

  // Summed over the executors, those that have ended included. Does not block.
  UsageReading Usage() const ABSL_LOCKS_EXCLUDED(mutex_);
  // What peers have sent to them that was dropped. The same, and works after End too.
  DropCounters Dropped() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Adds them, and what they have done of each function. The same.
  void AddStatus(bootstrap::ExecutorsStatus* status) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Executors refuse calls from now on. Does not block.
  void Drain() ABSL_LOCKS_EXCLUDED(mutex_);
  // Tells the executors to stop, and kills those that have not when `limit` is over; those that are
  // still starting at once. Does not block, and may be called again.
  void Stop(absl::Duration limit) ABSL_LOCKS_EXCLUDED(mutex_);
  // After Stop: until no executor is left.
  void AwaitEnd() ABSL_LOCKS_EXCLUDED(mutex_);

  // Stops, waits until no executor is left, frees all, and tells the last reading. Once; no other
  // method that blocks may be under way but Start, which fails then.
  UsageReading End(absl::Duration limit) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Slot {
    std::unique_ptr<ExecutorProcess> process;
    bool starting = false;
    std::function<void()> end_start;  // while it starts, once that can be ended
    bool ended = false;
    // Sessions that ended while some were being opened, which may be these: nobody knows their
    // handles yet.
    uint32_t opening = 0;
    absl::flat_hash_set<uint64_t> ended_early;
  };
  struct Session {
    uint32_t executor;
    uint64_t handle;  // within the executor's process
  };
  struct Found {
    ExecutorProcess* process;
    uint64_t handle;
  };

  ExecutorProcess::Events EventsFor(uint32_t index);
  void OnStarting(uint32_t index, std::function<void()> end) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnEnded(uint32_t index, const ExecutorEnd& end) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnSessionClosed(uint32_t index, uint64_t handle, absl::string_view reason)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Found> Find(uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);
  void StopAll(absl::Duration limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  DropCounters SumDropped() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddFunctions(bootstrap::FunctionTable* sum) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool NoneLeft() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const LeaseTerms terms_;
  const Events events_;
  absl::Mutex load_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);  // held while code is loaded
  mutable absl::Mutex mutex_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);  // by index; of the same size for ever
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;  // on_ended was called, or is about to be
  // Those of processes that End has let go of.
  DropCounters ended_dropped_ ABSL_GUARDED_BY(mutex_);
  bootstrap::FunctionTable ended_functions_ ABSL_GUARDED_BY(mutex_);
  uint64_t starts_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t cold_starts_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_handle_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::flat_hash_map<uint64_t, Session> sessions_ ABSL_GUARDED_BY(mutex_);  // by our handle
};

}  // namespace invoker

#endif  // INVOKER_SRC_LEASE_EXECUTOR_LEASE_H_
