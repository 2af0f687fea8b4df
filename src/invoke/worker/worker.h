// A worker: executors, the fabrics on which they can be reached, and the functions that they run.
// What the bootstrap service talks to.

#ifndef INVOKER_SRC_INVOKE_WORKER_H_
#define INVOKER_SRC_INVOKE_WORKER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "invoker/notification.h"
#include "src/base/random.h"
#include "src/bootstrap/messages/session_host.h"
#include "src/invoke/executor/executor.h"
#include "src/invoke/fabrics/fabric_finder.h"
#include "src/invoke/fabrics/served_fabrics.h"
#include "src/invoke/function/function_registry.h"
#include "src/invoke/worker/endpoint_watch.h"

namespace invoker {

// Cells of 128 bytes: the smallest calls take one, and 64 calls with a default response fit.
inline constexpr uint64_t kDefaultWindowBytes = 2 << 20;

// How long the end of a lease waits for the functions that executors run when it comes, which may
// be others', so that all that the lease has used is told.
inline constexpr absl::Duration kBillGrace = absl::Milliseconds(250);

struct WorkerOptions {
  // See SelectServedFabrics; empty: every fabric that works.
  std::vector<std::string> providers;
  FabricAddresses addresses;
  // How fabrics are tried, unless `providers` names them. Starting the worker needs the program
  // invoker_self_test then, beside the worker's own program or where `self_test.program` says.
  transport::SelfTestOptions self_test;
  uint32_t executors = 1;  // threads, each with endpoints of its own
  Notification notification = Notification::kAuto;
  uint64_t window_bytes = kDefaultWindowBytes;  // most that a session may have, per direction
  // Memory for the input and output of bulk calls at a time, of all executors together. Calls that
  // want more together wait for one another; one that wants more by itself is refused.
  uint64_t bulk_bytes = kDefaultBulkBytes;
  DataAuth data_auth = DataAuth::kOff;  // the least that a session has
  EndpointWatchOptions endpoint_watch;
  // Each executor's. The worker sets the index, the budget of bulk calls and the callbacks, and,
  // unless it is given, how much the quarantines of all may hold together.
  ExecutorOptions executor;
};

class Worker final : public bootstrap::SessionHost {
 public:
  // Told when a session ends by itself. On an executor's thread; must not block.
  using SessionClosed =
      std::function<void(uint64_t lease, uint64_t handle, absl::string_view reason)>;

  // Told when a client gives up write-with-immediate for send-after-write. On a thread of the
  // bootstrap. The reason is the client's, and printable.
  using Downgraded = std::function<void(absl::string_view provider, absl::string_view reason)>;

  // Told, in words for a log, that an executor's endpoint takes no more sessions, and what becomes
  // of that. On a thread of the bootstrap or of the worker's own. Clients can cause it.
  using EndpointNote = std::function<void(absl::string_view note)>;

  // Finds and proves the fabrics, and starts every executor. Endpoints are opened at the first
  // session, but for one of each fabric that was named. `functions` is taken as it is.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(const WorkerOptions& options,
                                                       FunctionRegistry functions);
  ~Worker() override;

  // A session that ends before this is set ends unannounced.
  void set_on_session_closed(SessionClosed callback) ABSL_LOCKS_EXCLUDED(mutex_);
  void set_on_downgraded(Downgraded callback) ABSL_LOCKS_EXCLUDED(mutex_);
  void set_on_endpoint(EndpointNote callback) ABSL_LOCKS_EXCLUDED(mutex_);

  // Any thread, for the rest.

  bootstrap::WorkerInfo Info() const override;
  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      uint64_t lease, const bootstrap::OpenSessionRequest& request) override;
  absl::Status SwitchNotification(uint64_t lease, uint64_t handle, Notification notification,
                                  absl::string_view reason) override;
  absl::StatusOr<bootstrap::RequestState> FindRequest(uint64_t lease, uint64_t handle,
                                                      uint64_t sequence) override;
  absl::Status CloseSession(uint64_t lease, uint64_t handle) override;
  absl::StatusOr<uint16_t> RegisterWindow(uint64_t lease, uint64_t handle,
                                          const bootstrap::WindowDescriptor& window, bool readable,
                                          bool writable) override;
  absl::Status ForgetWindow(uint64_t lease, uint64_t handle, uint16_t number) override;
  // Tells all that the lease has used, its last turns included, unless an executor that has a
  // session of it runs a function for longer than kBillGrace: then what it had shown before.
  ResourceUsage CloseLease(uint64_t lease) override;

  // Offers further functions from now on, on every executor and in every session: all of them,
  // under the next ids, or, if one is refused, none. What they point into must outlive the worker.
  // Blocks until every executor has ended the function that it runs. Returns all functions, by id.
  absl::StatusOr<std::vector<bootstrap::FunctionInfo>> AddFunctions(
      std::vector<FunctionEntry> entries) ABSL_LOCKS_EXCLUDED(adding_mutex_, mutex_);

  // What is served, best first; the same for the life of the worker.
  const std::vector<transport::FabricChoice>& fabrics() const { return served_.fabrics; }
  // ServedFabrics::notes.
  const std::vector<std::string>& notes() const { return served_.notes; }

  // Executor::SetHotTimeout, on every executor; then opens the endpoints that their next sessions
  // will use. Blocks for some milliseconds if those are not open yet.
  absl::Status SetHotTimeout(absl::Duration hot_timeout);

  // WorkerOptions::bulk_bytes, from now on.
  void SetBulkBytes(uint64_t bytes) { bulk_budget_->set_limit(bytes); }
  // How much of it is in use: until the memory has been freed.
  uint64_t bulk_bytes_used() const { return bulk_budget_->used(); }

  // Refuses new sessions and calls from now on, on every executor. Does not block.
  void Drain();

  // Drains, and waits for the functions that run (however long they take), and for calls that are
  // answered later for at most `limit`. The executors go on refusing calls.
  void Finish(absl::Duration limit);
  // Finishes, lets ready responses leave for at most `limit`, and ends the executors.
  void Stop(absl::Duration limit);

  // Summed over the executors. Blocks until each has ended its turn, and the function that it runs.
  ExecutorCounters Counters();

  // What has been used so far: by everybody, and by the sessions of one lease, those that have
  // ended included. Do not block: what runs now, or has run in an executor's last 64 turns, may be
  // missing. An open lease's polling time is nobody's but its executors', and 0 here.
  UsageCounters Usage() const;
  UsageCounters UsageUnder(uint64_t lease) const ABSL_LOCKS_EXCLUDED(mutex_);

  // What peers have sent so far that was dropped. Does not block.
  DropCounters Dropped() const;
  std::vector<bootstrap::DropCount> DroppedMessages() const override;
  // All that is not a lease's or a waiting client's.
  void AddStatus(bootstrap::WorkerStatus* status) const override ABSL_LOCKS_EXCLUDED(mutex_);

  // Sessions whose clients have given up write-with-immediate.
  uint64_t downgrades() const { return downgrades_.load(std::memory_order_relaxed); }

 private:
  // What the sessions of one lease have used.
  struct Bill {
    UsageCounters ended;
    std::vector<std::shared_ptr<const UsageMeter>> meters;

    // Drops the meters of sessions that have ended; what they show is kept.
    void Fold();
    UsageCounters Sum() const;
  };

  struct Session {
    uint64_t lease;
    uint32_t executor;
    Executor::SessionKey key;
    Notification notification;
  };

  Worker(const WorkerOptions& options, FunctionRegistry functions, ServedFabrics served);

  void OnSessionFailed(uint32_t executor, Executor::SessionKey key, const absl::Status& status);
  // NOT_FOUND if the session is not of this lease.
  absl::StatusOr<Session> FindSession(uint64_t lease, uint64_t handle);
  // The least loaded executor that is healthy on this fabric; nullptr if there is none.
  Executor* LeastLoaded(size_t fabric);
  absl::StatusOr<size_t> FindFabric(absl::string_view provider) const;
  void ReportDowngrade(size_t fabric, absl::string_view reason);
  void Note(absl::string_view note) ABSL_LOCKS_EXCLUDED(mutex_);

  WorkerOptions options_;
  const absl::StatusOr<uint64_t> incarnation_ = transport::DrawRandom();  // WorkerInfo's
  const ServedFabrics served_;
  const std::shared_ptr<BulkBudget> bulk_budget_;
  std::atomic<uint64_t> downgrades_{0};
  std::vector<std::atomic<int>> late_;  // by executor: see SessionClosing
  // Held while functions are added, so that they get the same ids on every executor.
  absl::Mutex adding_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable absl::Mutex mutex_;
  FunctionRegistry functions_ ABSL_GUARDED_BY(mutex_);  // what every executor has
  SessionClosed on_session_closed_ ABSL_GUARDED_BY(mutex_);
  Downgraded on_downgraded_ ABSL_GUARDED_BY(mutex_);
  EndpointNote on_endpoint_ ABSL_GUARDED_BY(mutex_);
  // Sessions that failed while some were being opened, which may be these: the thread that opens
  // them finds out here, since nobody knew their handles yet.
  uint32_t opening_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, absl::Status> failed_early_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Session> sessions_ ABSL_GUARDED_BY(mutex_);  // by handle
  absl::flat_hash_map<uint64_t, Bill> bills_ ABSL_GUARDED_BY(mutex_);        // by lease
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  EndpointWatch endpoint_watch_;
  // Last: their threads call back into the above.
  std::vector<std::unique_ptr<Executor>> executors_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_WORKER_H_
