// A bootstrap server whose sessions are those of one executor's process, for clients that know
// nothing of it; and what the tests look at from outside.

#ifndef INVOKER_TESTS_ISOLATION_ISOLATED_SERVER_H_
#define INVOKER_TESTS_ISOLATION_ISOLATED_SERVER_H_

#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "invoker/client.h"
#include "src/bootstrap/messages/session_host.h"
#include "src/bootstrap/service/server.h"
#include "src/isolation/spawner/executor_spawner.h"

namespace invoker {

inline constexpr char kTcp[] = "tcp;ofi_rxm";
inline constexpr char kShm[] = "shm";

// Loads bad_functions; the test's user; executors sleep when idle, so that tests share the cores.
SpawnerOptions TestSpawnerOptions(std::vector<std::string> providers = {kTcp});

// Whether a sanitizer is in the executors too. It needs memory of its own, and ends a process, or
// waits for ever, where that is refused: limits of memory cannot be tested.
inline bool UnderSanitizer() { return getenv("INVOKER_SANITIZER") != nullptr; }

// An executor with its end.
class WatchedExecutor {
 public:
  explicit WatchedExecutor(ExecutorSpawner* spawner, const ExecutorTerms& terms = {});

  ExecutorProcess& process() { return *process_; }
  bool ok() const { return process_ != nullptr; }
  // Blocks until it has ended.
  ExecutorEnd WaitForEnd();
  bool ended() const { return ended_.HasBeenNotified(); }
  // Destroys the process.
  void Reset() { process_.reset(); }

 private:
  absl::Notification ended_;
  ExecutorEnd end_;
  std::unique_ptr<ExecutorProcess> process_;
};

class IsolatedServer final : public bootstrap::SessionHost {
 public:
  // `executor` outlives it.
  IsolatedServer(ExecutorProcess* executor, const SpawnerOptions& options);
  ~IsolatedServer() override;

  absl::StatusOr<std::unique_ptr<Client>> Connect();
  // The number of the session that was opened last, as the executor calls it.
  uint64_t last_session() ABSL_LOCKS_EXCLUDED(mutex_);
  // Connects and calls once.
  absl::StatusOr<std::string> Call(const std::string& function, const std::string& input = "");

  bootstrap::WorkerInfo Info() const override { return info_; }
  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      uint64_t lease, const bootstrap::OpenSessionRequest& request) override;
  absl::Status SwitchNotification(uint64_t lease, uint64_t handle, Notification notification,
                                  absl::string_view reason) override;
  absl::Status CloseSession(uint64_t lease, uint64_t handle) override;
  absl::StatusOr<uint16_t> RegisterWindow(uint64_t lease, uint64_t handle,
                                          const bootstrap::WindowDescriptor& window, bool readable,
                                          bool writable) override;
  absl::Status ForgetWindow(uint64_t lease, uint64_t handle, uint16_t number) override;
  ResourceUsage CloseLease(uint64_t lease) override;

 private:
  ExecutorProcess* const executor_;
  bootstrap::WorkerInfo info_;
  absl::Mutex mutex_;
  std::set<std::pair<uint64_t, uint64_t>> sessions_ ABSL_GUARDED_BY(mutex_);  // lease, handle
  uint64_t last_session_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<bootstrap::Server> server_;
};

// Sends all processes that descend from this one what asks a program to end, and expects an
// executor and its template to work on.
void ExpectToOutliveEndSignals(ExecutorSpawner* spawner, const SpawnerOptions& options);

absl::StatusOr<std::string> CallOn(Client* client, const std::string& function,
                                   const std::string& input = "",
                                   absl::Duration timeout = absl::Seconds(20));

// Blocks until the process is gone, for 20 seconds at most: whether it is.
bool WaitUntilGone(pid_t pid);

// Processes that descend from this one, zombies included.
std::set<pid_t> Descendants();
std::set<std::string> SharedMemoryFiles();
// 0: there is no such process.
pid_t ParentOf(pid_t pid);
size_t OpenDescriptors();

}  // namespace invoker

#endif  // INVOKER_TESTS_ISOLATION_ISOLATED_SERVER_H_
