// Groups of processes of the kernel's (cgroups, version 2): one for each executor and what it
// starts, with limits for them all together, an end for them all at once, and one sum of the
// processor time of them all, whether a process has waited for them or not.
//
// Only where the server may make groups of its own: as root on a machine that has version 2, or
// where its service manager has delegated a group to it. Everywhere else the reason is said, and
// limits are those of single processes. Where the controllers for memory or the number of processes
// are missing (they are with version 1, say), or cannot be enabled, groups are without those
// limits.
//
// The server's own group is G. Its groups are G/invoker-PID/executor-ID. A group that has processes
// of its own can have no limited groups beneath it (but the root), so where G has no limited ones
// yet, and no process but the server, the server moves itself to G/invoker-PID/server first, and
// back at the end.

#ifndef INVOKER_SRC_ISOLATION_LIMITS_CONTROL_GROUP_H_
#define INVOKER_SRC_ISOLATION_LIMITS_CONTROL_GROUP_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "src/base/unique_fd.h"

namespace invoker {

// Files of the kernel's, or of a test's: every path is beneath `root`. Has no state.
class GroupFiles {
 public:
  // Empty: the machine's own.
  explicit GroupFiles(std::string root = "") : root_(std::move(root)) {}
  virtual ~GroupFiles() = default;

  absl::StatusOr<std::string> Read(const std::string& path) const;
  virtual absl::Status Write(const std::string& path, absl::string_view text) const;
  absl::StatusOr<UniqueFd> Open(const std::string& path, int flags) const;
  bool Exists(const std::string& path) const;
  // Names of what is a directory in there.
  std::vector<std::string> DirectoriesIn(const std::string& directory) const;
  // ALREADY_EXISTS if it is there.
  virtual absl::Status Make(const std::string& directory) const;
  // UNAVAILABLE while it has processes.
  virtual absl::Status Remove(const std::string& directory) const;

 protected:
  std::string At(const std::string& path) const { return root_ + path; }

 private:
  const std::string root_;
};

class ControlGroups;

// One executor's.
class ExecutorGroup {
 public:
  // Ends what is left in it, and removes it.
  ~ExecutorGroup();
  ExecutorGroup(const ExecutorGroup&) = delete;
  ExecutorGroup& operator=(const ExecutorGroup&) = delete;

  // A process that writes "0" to it is in the group from then on, and what it starts too.
  absl::StatusOr<UniqueFd> OpenProcesses() const;

  // At most so much more than is in use now. Only where the groups limit memory.
  absl::Status LimitMemory(uint64_t more_bytes);

  // All processes that have been in it, so far; 0: unknown.
  absl::Duration CpuTime() const;

  // Whether the kernel has ended it, since it was at its limit.
  bool KilledForMemory() const;

 private:
  friend class ControlGroups;
  ExecutorGroup(ControlGroups* groups, std::string directory)
      : groups_(groups), directory_(std::move(directory)) {}

  ControlGroups* const groups_;
  const std::string directory_;
};

// The server's. Thread-safe.
class ControlGroups {
 public:
  // For the calling process, `pid`. FAILED_PRECONDITION says why there are none here.
  static absl::StatusOr<std::unique_ptr<ControlGroups>> Start(std::unique_ptr<GroupFiles> files,
                                                              pid_t pid);

  // Every ExecutorGroup has gone. Ends what is left, and removes the groups.
  ~ControlGroups();

  absl::StatusOr<std::unique_ptr<ExecutorGroup>> Add(uint64_t id) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string& directory() const { return own_; }
  bool limits_memory() const { return limits_memory_; }
  bool limits_processes() const { return limits_processes_; }
  // Why one of these is not limited.
  const std::string& why_not() const { return why_not_; }

 private:
  friend class ExecutorGroup;

  ControlGroups(std::unique_ptr<GroupFiles> files, std::string parent, pid_t pid);

  absl::Status Prepare();
  absl::Status MakeOwn();
  absl::Status EnableLimits();
  static absl::Status TryToJoin(const ExecutorGroup& group);
  std::string Controllers(absl::string_view sign) const;
  absl::Status MoveIntoOwnGroup();
  void MoveBack();
  absl::StatusOr<std::unique_ptr<ExecutorGroup>> Make(const std::string& directory);
  void End(const std::string& directory) ABSL_LOCKS_EXCLUDED(mutex_);
  void RemoveLeft() ABSL_LOCKS_EXCLUDED(mutex_);
  void WaitUntilEmpty(const std::string& directory) const;

  const std::unique_ptr<GroupFiles> files_;
  const std::string parent_;  // G
  const std::string own_;     // G/invoker-PID
  const pid_t pid_;
  bool made_ = false;
  std::vector<std::string> enabled_in_parent_;  // what to write there to undo it
  bool moved_ = false;
  bool limits_memory_ = false;
  bool limits_processes_ = false;
  std::string why_not_;

  absl::Mutex mutex_;
  std::vector<std::string> left_ ABSL_GUARDED_BY(mutex_);  // that still had processes
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_LIMITS_CONTROL_GROUP_H_
