// The spawner: a template for each kind of executor, the records of all processes, and one thread
// that reads what they all say, sees that limits are kept, and starts a template that has ended
// again (template_restart.cc).

#ifndef INVOKER_SRC_ISOLATION_SPAWNER_PROCESS_SPAWNER_H_
#define INVOKER_SRC_ISOLATION_SPAWNER_PROCESS_SPAWNER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/executor_control.pb.h"
#include "src/isolation/limits/control_group.h"
#include "src/isolation/process/process_setup.h"
#include "src/isolation/spawner/executor_record.h"
#include "src/isolation/spawner/executor_spawner.h"
#include "src/isolation/spawner/template_process.h"

namespace invoker {

// What the spawner and its processes share: processes may outlive the spawner's object.
class ProcessTable : public std::enable_shared_from_this<ProcessTable> {
 public:
  static absl::StatusOr<std::shared_ptr<ProcessTable>> Start(const SpawnerOptions& options);

  ProcessTable(const ProcessTable&) = delete;
  ProcessTable& operator=(const ProcessTable&) = delete;
  ~ProcessTable();

  absl::StatusOr<std::unique_ptr<ExecutorProcess>> Spawn(bootstrap::ExecutorKind kind,
                                                         const ExecutorTerms& terms,
                                                         ExecutorProcess::Events events)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const std::vector<std::string>& notes() const { return notes_; }

  // Any thread. Has the process killed, if it has not ended. Does not block.
  void Kill(ExecutorRecord* record, KillReason reason) ABSL_LOCKS_EXCLUDED(mutex_);
  // The thread is to look at limits again.
  void Wake();

  // Ends everything, and waits for it.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using RecordPtr = std::shared_ptr<ExecutorRecord>;
  struct Kind {
    // Fixed once it is served.
    std::vector<std::string> template_command;  // empty: not served
    std::vector<std::string> variables;         // of the environment, besides the server's
    std::vector<std::string> command;  // of an executor that is not a plain fork; else empty
    uint32_t prestart = 0;

    // The thread's: when the template was started last, when it has to be prepared, when another
    // one is to be started; and how many have ended soon after their start.
    absl::Time started_at;
    absl::Time prepare_by = absl::InfiniteFuture();
    absl::Time restart_at = absl::InfiniteFuture();
    int failures = 0;

    // With mutex_ held.
    std::shared_ptr<TemplateProcess> process;  // nullptr: none
    bool prepared = false;                     // it can be forked from
    std::set<RecordPtr> pool;                  // not taken yet: ready, or about to be
    bool refill = true;                        // false once a process for the pool has not come up
  };
  enum class Use { kPool, kLease };

  // What an event's number means: a kind's template, the wake-up, or a record's id.
  static constexpr uint64_t kWakeEvent = 2;
  static constexpr uint64_t kFirstRecordEvent = 16;

  explicit ProcessTable(const SpawnerOptions& options) : options_(options) {}

  absl::Status Prepare();
  static absl::string_view KindName(bootstrap::ExecutorKind kind);
  void FindGroups();
  absl::Status StartKind(bootstrap::ExecutorKind kind, const std::vector<std::string>& command,
                         uint32_t prestart);
  absl::Status StartTemplate(bootstrap::ExecutorKind kind) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status MakeEnvironment();
  bool Watch(int fd, uint64_t number);
  Kind& KindOf(bootstrap::ExecutorKind kind) { return kinds_[static_cast<size_t>(kind)]; }
  // A nullptr for a pool that is full.
  absl::StatusOr<RecordPtr> StartOne(bootstrap::ExecutorKind kind, Use use)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Launch(const RecordPtr& record, TemplateProcess* process,
                      const std::vector<int>& descriptors) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of the users that executors may run as, one that none runs as now.
  absl::StatusOr<uid_t> ChooseUser() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<RecordPtr> TakeOne(bootstrap::ExecutorKind kind) ABSL_LOCKS_EXCLUDED(mutex_);
  void Refill(bootstrap::ExecutorKind kind) ABSL_LOCKS_EXCLUDED(mutex_);
  RecordPtr Find(uint64_t id) ABSL_LOCKS_EXCLUDED(mutex_);

  // The thread's.
  void ThreadMain();
  void OnTemplate(bootstrap::ExecutorKind kind) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnTemplateLost(bootstrap::ExecutorKind kind, absl::string_view why)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void StartAgainLater(bootstrap::ExecutorKind kind, absl::string_view why);
  // Starts templates whose time has come; says when to come back.
  absl::Time LookAtTemplates() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same while the spawner ends.
  absl::Time EndTemplates(absl::Time stop_by) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnRecord(uint64_t id);
  void Forget(const RecordPtr& record) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Time LookAtLimits() ABSL_LOCKS_EXCLUDED(mutex_);

  const SpawnerOptions options_;
  std::vector<std::string> notes_;
  isolation::v1::ToTemplate::Prepare prepare_;  // with what executors are made for
  ExecutorUser user_;                           // whom executors run as
  std::vector<UniqueFd> libraries_;
  std::unique_ptr<ControlGroups> groups_;  // nullptr: there are none here
  UniqueFd events_;                        // epoll
  UniqueFd wake_;
  std::array<Kind, 2> kinds_;  // by bootstrap::ExecutorKind
  std::atomic<uint64_t> next_id_{1};

  absl::Mutex mutex_;  // pools too
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // When templates that have not ended their executors by then are killed.
  absl::Time stop_by_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  uint64_t next_user_ ABSL_GUARDED_BY(mutex_) = 0;  // of several, from the first
  std::map<uint64_t, RecordPtr> records_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_SPAWNER_PROCESS_SPAWNER_H_
