// Starts executors' processes, and keeps some ready.

#ifndef INVOKER_SRC_ISOLATION_SPAWNER_EXECUTOR_SPAWNER_H_
#define INVOKER_SRC_ISOLATION_SPAWNER_EXECUTOR_SPAWNER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/worker/worker.h"
#include "src/isolation/process/executor_process.h"

namespace invoker {

enum class Sandbox {
  kNone,        // a process with limits, and another user where the server is root
  kBubblewrap,  // also bwrap: read-only root, private /tmp, no network but the fabrics' needs
};

struct SpawnerOptions {
  std::string executor_path;  // the invoker_executor program; empty: beside this one
  std::string python_path;    // the interpreter of Python executors; empty: none
  uint32_t prestart = 0;      // native executors that wait for a lease
  uint32_t prestart_python = 0;
  Sandbox sandbox = Sandbox::kNone;
  // Each executor runs on one of the processor cores that this process may run on, and on another
  // one than the others while there are enough.
  bool bind = false;
  // Whom executors run as when this process is root; empty: nobody's. Its own name: no change.
  std::string user;
  std::vector<std::string> libraries;  // that every executor has loaded
  // What executors are forked from, and then each executor, is ended if it is not ready by then: a
  // library's constructor may not return. The same for becoming a lease's.
  absl::Duration start_limit = absl::Seconds(30);
  // At the spawner's end: what executors are forked from is killed, and they with it, if it has not
  // ended them by then. A function may have stopped it, where both are one user's.
  absl::Duration end_limit = absl::Seconds(10);
  // Fabrics (by name: those that the server has proven), addresses, notification, window and the
  // polling that prestarted executors are made for.
  WorkerOptions worker;
};

class ExecutorSpawner {
 public:
  // Starts what executors are forked from, proves that one comes up, and begins to fill the pool.
  // Blocks for a second or so, and for twice the start limit at most for each kind. Errors say what
  // could not be started, and why.
  static absl::StatusOr<std::unique_ptr<ExecutorSpawner>> Start(const SpawnerOptions& options);

  // Ends every process that is left, and what they may have started.
  virtual ~ExecutorSpawner() = default;

  // Takes one from the pool, or starts one. Blocks until it can take sessions, for three times the
  // start limit at most; then it is UNAVAILABLE. Any thread. `events` may come before this returns.
  virtual absl::StatusOr<std::unique_ptr<ExecutorProcess>> Spawn(
      ExecutorKind kind, const ExecutorTerms& terms, ExecutorProcess::Events events) = 0;

  // For people, at the start: which limits are in force here and which are not (cgroups, user).
  virtual std::vector<std::string> Notes() const = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_SPAWNER_EXECUTOR_SPAWNER_H_
