// The processes of a spawner: one template for each kind of executor, and a record for each
// executor. One thread reads all their messages, enforces limits, and starts a template again that
// has ended (process_table_templates.cc).

#ifndef INVOKER_SRC_ISOLATION_SPAWNER_PROCESS_TABLE_H_
#define INVOKER_SRC_ISOLATION_SPAWNER_PROCESS_TABLE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "src/isolation/process/control_socket.h"
#include "src/isolation/spawner/executor_record.h"
#include "src/isolation/spawner/executor_setup.h"
#include "src/isolation/spawner/executor_spawner.h"
#include "src/isolation/spawner/template_process.h"
#include "src/isolation/spawner/template_restart.h"

namespace invoker {

// Executors share it with the spawner, and may outlive the spawner's object.
class ProcessTable : public std::enable_shared_from_this<ProcessTable> {
 public:
  static absl::StatusOr<std::shared_ptr<ProcessTable>> Start(const SpawnerOptions& options);

  ProcessTable(const ProcessTable&) = delete;
  ProcessTable& operator=(const ProcessTable&) = delete;
  ~ProcessTable();

  absl::StatusOr<std::unique_ptr<ExecutorProcess>> Spawn(ExecutorKind kind,
                                                         const ExecutorTerms& terms,
                                                         ExecutorProcess::Events events)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const std::vector<std::string>& notes() const { return setup_.notes; }

  // Any thread. Has the process killed, if it has not ended. Does not block.
  void Kill(ExecutorRecord* record, KillReason reason) ABSL_LOCKS_EXCLUDED(mutex_);
  // The thread is to look at limits again.
  void Wake();

  // Ends everything, and waits for it.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using RecordPtr = std::shared_ptr<ExecutorRecord>;
  struct Kind {
    TemplateRestart restart;  // the thread's

    // With mutex_ held.
    std::shared_ptr<TemplateProcess> process;  // nullptr: none
    bool prepared = false;                     // it can be forked from
    std::set<RecordPtr> pool;                  // not taken yet: ready, or about to be
    bool refill = true;                        // false once a process for the pool has not come up
  };
  enum class Use { kPool, kLease };

  static constexpr std::array<ExecutorKind, 2> kKinds = {ExecutorKind::kNative,
                                                         ExecutorKind::kPython};
  // The numbers of events: a kind's template, the wake-up, or a record's id.
  static constexpr uint64_t kWakeEvent = 2;
  static constexpr uint64_t kFirstRecordEvent = 16;

  ProcessTable(const SpawnerOptions& options, ExecutorSetup setup);

  absl::Status Prepare();
  static absl::string_view KindName(ExecutorKind kind);
  absl::Status StartTemplate(ExecutorKind kind) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Watch(int fd, uint64_t number);
  Kind& KindOf(ExecutorKind kind) { return kinds_[static_cast<size_t>(kind)]; }
  bool IsPoolFull(ExecutorKind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return KindOf(kind).pool.size() >= setup_.KindOf(kind).prestart;
  }
  // A nullptr for a pool that is full.
  absl::StatusOr<RecordPtr> StartOne(ExecutorKind kind, Use use) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Launch(const RecordPtr& record, TemplateProcess* process,
                      const std::vector<int>& descriptors) ABSL_LOCKS_EXCLUDED(mutex_);
  // One of the users that executors may run as, and that no executor runs as now.
  absl::StatusOr<uid_t> ChooseUser() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The core that the fewest executors run on, as ExecutorRecord::core; 0 if they are not bound.
  uint32_t ChooseCore() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  struct Taken {
    RecordPtr record;
    bool prestarted;
  };
  absl::StatusOr<Taken> TakeOne(ExecutorKind kind) ABSL_LOCKS_EXCLUDED(mutex_);
  void Refill(ExecutorKind kind) ABSL_LOCKS_EXCLUDED(mutex_);
  RecordPtr Find(uint64_t id) ABSL_LOCKS_EXCLUDED(mutex_);

  // The thread's.
  void ThreadMain();
  void OnTemplate(ExecutorKind kind) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnTemplateLost(ExecutorKind kind, absl::string_view why) ABSL_LOCKS_EXCLUDED(mutex_);
  void StartAgainLater(ExecutorKind kind, absl::string_view why);
  // Starts templates whose time has come; says when to come back.
  absl::Time LookAtTemplates() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same while the spawner ends.
  absl::Time EndTemplates(absl::Time stop_by) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnRecord(uint64_t id);
  void Forget(const RecordPtr& record) ABSL_LOCKS_EXCLUDED(mutex_);
  // Kills executors that have passed a limit; says when to come back.
  absl::Time LookAtLimits() ABSL_LOCKS_EXCLUDED(mutex_);

  const SpawnerOptions options_;
  const ExecutorSetup setup_;
  const std::vector<uint32_t> cores_;  // to bind executors to, counted from 1; empty: they are not
  UniqueFd events_;                    // epoll
  UniqueFd wake_;
  std::array<Kind, 2> kinds_;  // by ExecutorKind
  std::atomic<uint64_t> next_id_{1};

  absl::Mutex mutex_;  // pools too
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // When templates that have not ended their executors by then are killed.
  absl::Time stop_by_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  uint64_t next_user_ ABSL_GUARDED_BY(mutex_) = 0;  // the next one, where there are several
  size_t next_core_ ABSL_GUARDED_BY(mutex_) = 0;    // the same of cores_
  std::map<uint64_t, RecordPtr> records_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_SPAWNER_PROCESS_TABLE_H_
