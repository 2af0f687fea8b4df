// A worker: executors on one fabric, and the functions that they run. What the bootstrap service
// talks to.

#ifndef INVOKER_SRC_INVOKE_WORKER_H_
#define INVOKER_SRC_INVOKE_WORKER_H_

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
#include "src/bootstrap/session_host.h"
#include "src/invoke/executor.h"
#include "src/invoke/function_registry.h"
#include "src/transport/notification.h"

namespace invoker {

// Cells of 128 bytes: the smallest calls take one, and 64 calls with a default response fit.
inline constexpr uint64_t kDefaultWindowBytes = 2 << 20;

struct WorkerOptions {
  std::string provider;        // empty: the default one
  std::string fabric_address;  // IP address or interface of the executors' endpoints; empty: the
                               // first that is not loopback
  uint32_t executors = 1;      // threads, each with its own endpoint
  transport::Notification notification = transport::Notification::kAuto;
  uint64_t window_bytes = kDefaultWindowBytes;  // most that a session may have, per direction
  ExecutorOptions executor;                     // of each; the index is set for it
};

class Worker final : public bootstrap::SessionHost {
 public:
  // Told when a session ends by itself. On an executor's thread; must not block.
  using SessionClosed =
      std::function<void(uint64_t lease, uint64_t handle, absl::string_view reason)>;

  // Opens every executor's endpoint and starts its thread. `functions` is taken as it is.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(const WorkerOptions& options,
                                                       FunctionRegistry functions);
  ~Worker() override;

  // A session that ends before this is set ends unannounced.
  void set_on_session_closed(SessionClosed callback) ABSL_LOCKS_EXCLUDED(mutex_);

  // Any thread, for the rest.

  bootstrap::WorkerInfo Info() const override;
  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      uint64_t lease, const bootstrap::OpenSessionRequest& request) override;
  absl::Status SwitchNotification(uint64_t lease, uint64_t handle,
                                  transport::Notification notification) override;
  absl::Status CloseSession(uint64_t lease, uint64_t handle) override;
  void CloseLease(uint64_t lease) override;

  // The fabric address that the executors really have, for people.
  std::string fabric_address() const;

  // Refuses new sessions and calls from now on, on every executor. Does not block.
  void Drain();

  // Drains, waits for the functions that run (however long they take), lets ready responses leave
  // for at most `limit`, and ends the executors.
  void Stop(absl::Duration limit);

  // Summed over the executors.
  ExecutorCounters Counters();

 private:
  struct Session {
    uint64_t lease;
    uint32_t executor;
    Executor::SessionKey key;
  };

  Worker(const WorkerOptions& options, FunctionRegistry functions);

  void OnSessionFailed(uint32_t executor, Executor::SessionKey key, const absl::Status& status);
  // NOT_FOUND if the session is not of this lease.
  absl::StatusOr<Session> FindSession(uint64_t lease, uint64_t handle);
  // Of the healthy executors; nullptr if there is none.
  Executor* LeastLoaded();

  WorkerOptions options_;
  FunctionRegistry functions_;
  absl::Mutex mutex_;
  SessionClosed on_session_closed_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Session> sessions_ ABSL_GUARDED_BY(mutex_);  // by handle
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  // Last: their threads call back into the above.
  std::vector<std::unique_ptr<Executor>> executors_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_WORKER_H_
