// The spawner: a template for each kind of executor, the records of all processes, and one thread
// that reads what they all say and sees that limits are kept.

#ifndef INVOKER_SRC_ISOLATION_PROCESS_SPAWNER_H_
#define INVOKER_SRC_ISOLATION_PROCESS_SPAWNER_H_

#include <array>
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
#include "src/isolation/executor_record.h"
#include "src/isolation/executor_spawner.h"
#include "src/isolation/template_process.h"

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
  void Kill(ExecutorRecord* record, KillReason reason);
  // The thread is to look at limits again.
  void Wake();

  // Ends everything, and waits for it.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using RecordPtr = std::shared_ptr<ExecutorRecord>;
  struct Kind {
    std::unique_ptr<TemplateProcess> process;  // nullptr: not served
    std::vector<std::string> command;  // of an executor that is not a plain fork; else empty
    uint32_t prestart = 0;
    std::set<RecordPtr> pool;  // not taken yet: ready, or about to be
    bool refill = true;        // false once a process for the pool has not come up
  };

  // What an event's number means: a kind's template, the wake-up, or a record's id.
  static constexpr uint64_t kWakeEvent = 2;
  static constexpr uint64_t kFirstRecordEvent = 16;

  explicit ProcessTable(const SpawnerOptions& options) : options_(options) {}

  absl::Status Prepare();
  absl::Status StartKind(bootstrap::ExecutorKind kind, const std::vector<std::string>& command,
                         uint32_t prestart, const isolation::v1::ToTemplate::Prepare& prepare);
  absl::Status MakeEnvironment(isolation::v1::ToTemplate::Prepare* prepare);
  Kind& KindOf(bootstrap::ExecutorKind kind) { return kinds_[static_cast<size_t>(kind)]; }
  absl::StatusOr<RecordPtr> StartOne(bootstrap::ExecutorKind kind)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<RecordPtr> TakeOne(bootstrap::ExecutorKind kind) ABSL_LOCKS_EXCLUDED(mutex_);
  void Refill(bootstrap::ExecutorKind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RecordPtr Find(uint64_t id) ABSL_LOCKS_EXCLUDED(mutex_);

  // The thread's.
  void ThreadMain();
  void OnTemplate(bootstrap::ExecutorKind kind);
  void OnRecord(uint64_t id);
  void Forget(const RecordPtr& record) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Time LookAtLimits() ABSL_LOCKS_EXCLUDED(mutex_);

  const SpawnerOptions options_;
  std::vector<std::string> notes_;
  isolation::v1::Environment environment_;
  std::vector<UniqueFd> libraries_;
  UniqueFd events_;  // epoll
  UniqueFd wake_;
  std::array<Kind, 2> kinds_;  // by bootstrap::ExecutorKind; fixed but for pool and refill

  absl::Mutex mutex_;  // pools too
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, RecordPtr> records_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_PROCESS_SPAWNER_H_
