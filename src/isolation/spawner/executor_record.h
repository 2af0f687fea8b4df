// One executor's process, shared by the spawner's thread and the users of the executor.
//
// Thread-safe. Only the spawner's thread calls the methods whose names begin with On.

#ifndef INVOKER_SRC_ISOLATION_SPAWNER_EXECUTOR_RECORD_H_
#define INVOKER_SRC_ISOLATION_SPAWNER_EXECUTOR_RECORD_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/executor_control.pb.h"
#include "src/isolation/limits/control_group.h"
#include "src/isolation/process/control_socket.h"
#include "src/isolation/process/end_reason.h"
#include "src/isolation/process/executor_page.h"
#include "src/isolation/process/executor_process.h"
#include "src/isolation/spawner/executor_limits.h"

namespace invoker {

class ExecutorRecord {
 public:
  // `group`: nullptr if executors have none here.
  struct Place {
    uid_t owner = 0;    // whose process it is
    uint32_t core = 0;  // the processor core that it runs on, counted from 1; 0: any
  };

  ExecutorRecord(uint64_t id, ExecutorKind kind, bool sandboxed, UniqueFd socket, MappedPage page,
                 std::unique_ptr<ExecutorGroup> group)
      : id_(id),
        kind_(kind),
        sandboxed_(sandboxed),
        socket_(std::move(socket), ControlSocket::Takes::kSender),
        page_(std::move(page)),
        group_(std::move(group)) {}

  uint64_t id() const { return id_; }
  ExecutorKind kind() const { return kind_; }
  // Set before anybody else has this.
  const Place& place() const { return place_; }
  void set_place(const Place& place) { place_ = place; }
  ControlSocket& socket() { return socket_; }
  const ExecutorPage& page() const { return *page_.get(); }

  // Asks for it to be made ready; does not wait.
  absl::Status SendStart(const isolation::v1::Environment& environment,
                         absl::Span<const int> library_fds);

  // Sends a request and waits for the answer. UNAVAILABLE if the process ends before.
  absl::StatusOr<isolation::v1::FromExecutor> Call(isolation::v1::ToExecutor request,
                                                   absl::Span<const int> fds)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends what is not answered. Does not wait.
  void Tell(const isolation::v1::ToExecutor& message);

  // ExecutorLimits's, for these. The spawner's thread must be woken to notice a new limit.
  void SetStartLimit(absl::Duration limit) ABSL_LOCKS_EXCLUDED(mutex_);
  void ClearStartLimit() ABSL_LOCKS_EXCLUDED(mutex_);

  // Blocks until it is ready: OK; or has ended, or could not start. For the start limit at most,
  // where one is set, since it is killed then.
  absl::Status WaitUntilReady() ABSL_LOCKS_EXCLUDED(mutex_);
  bool ready() const ABSL_LOCKS_EXCLUDED(mutex_);

  // It is a lease's from now on.
  void Take(const ExecutorTerms& terms, ExecutorProcess::Events events) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetFunctions(std::vector<bootstrap::FunctionInfo> functions) ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<bootstrap::FunctionInfo> Functions() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Its fabrics, as they were named before it ran anything of a client's.
  std::vector<std::string> Providers() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Limits the memory of its group from now on; 0: no limit.
  absl::Status LimitGroupMemory(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // ExecutorLimits's, for these, but false also if the process has ended.
  bool SetKillReason(KillReason reason) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetStopLimit(absl::Duration limit) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether there has been a reason.
  bool killed() const ABSL_LOCKS_EXCLUDED(mutex_);
  void ExpectEnd() ABSL_LOCKS_EXCLUDED(mutex_);
  // The executor's own word about its sessions does not count.
  void AddSessions(int change) ABSL_LOCKS_EXCLUDED(mutex_);
  // Before a Call that loads code, which may take as long as a function. The spawner's thread is to
  // be woken then.
  void BeginLoad() ABSL_LOCKS_EXCLUDED(mutex_);

  pid_t pid() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Duration CpuTime() const ABSL_LOCKS_EXCLUDED(mutex_);

  bool ended() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Until on_ended has returned.
  void WaitUntilEnded() ABSL_LOCKS_EXCLUDED(mutex_);

  // The spawner's thread.

  void OnSpawned(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex_);
  // It could never run.
  void OnNotSpawned(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads what has come. False once nothing can come any more.
  bool OnReadable() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnEnded(int wait_status, absl::Duration cpu_time) ABSL_LOCKS_EXCLUDED(mutex_);
  // The template is gone, and so is this.
  void OnLost() ABSL_LOCKS_EXCLUDED(mutex_);

  // ExecutorLimits::Look.
  KillReason Look(absl::Time now, absl::Time* again) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Pending {
    bool load = false;
    bool done = false;
    absl::StatusOr<isolation::v1::FromExecutor> answer = absl::UnavailableError("");
  };

  // What the process has said of itself.
  struct Known {
    std::vector<bootstrap::FunctionInfo> functions;
    std::vector<std::string> providers;
  };

  void OnMessage(const isolation::v1::FromExecutor& message, pid_t sender)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Finish(ExecutorEnd end, absl::Duration cpu_time) ABSL_LOCKS_EXCLUDED(mutex_);
  // The processor time of a process that has not ended, as the kernel counts it.
  absl::Duration UsedTime() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  EndFacts Facts(int wait_status) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status EndedStatus() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t id_;
  const ExecutorKind kind_;
  Place place_;
  const bool sandboxed_;
  ControlSocket socket_;
  const MappedPage page_;

  mutable absl::Mutex mutex_;
  std::unique_ptr<ExecutorGroup> group_ ABSL_GUARDED_BY(mutex_);  // until its end
  uint64_t next_request_ ABSL_GUARDED_BY(mutex_) = 2;             // 1 is `start`
  absl::flat_hash_map<uint64_t, Pending*> pending_ ABSL_GUARDED_BY(mutex_);
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status start_status_ ABSL_GUARDED_BY(mutex_);
  pid_t pid_ ABSL_GUARDED_BY(mutex_) = 0;
  Known known_ ABSL_GUARDED_BY(mutex_);
  ExecutorTerms terms_ ABSL_GUARDED_BY(mutex_);
  ExecutorProcess::Events events_ ABSL_GUARDED_BY(mutex_);
  ExecutorLimits limits_ ABSL_GUARDED_BY(mutex_);
  std::optional<ExecutorEnd> end_ ABSL_GUARDED_BY(mutex_);
  bool told_ ABSL_GUARDED_BY(mutex_) = false;  // on_ended has returned
  mutable absl::Duration cpu_time_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_SPAWNER_EXECUTOR_RECORD_H_
