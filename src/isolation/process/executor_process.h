// An executor in a process of its own, as the server that started it sees it.
//
// The process hosts one Worker with one executor thread, which clients write to directly; the
// server talks to it over a socket, to open sessions and to load code. Every method may be called
// from any thread.

#ifndef INVOKER_SRC_ISOLATION_PROCESS_EXECUTOR_PROCESS_H_
#define INVOKER_SRC_ISOLATION_PROCESS_EXECUTOR_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "invoker/notification.h"
#include "src/bootstrap/messages/messages.h"
#include "src/bootstrap/messages/worker_status.h"
#include "src/invoke/executor/executor_watch.h"
#include "src/invoke/wire/drop_counters.h"
#include "src/isolation/process/executor_end.h"

namespace invoker {

// What one lease's executor is told when it becomes that lease's.
struct ExecutorTerms {
  uint64_t memory_bytes = 0;  // beyond what the process has at its start; 0: no limit
  absl::Duration call_limit = absl::InfiniteDuration();  // a function that runs longer ends it
  absl::Duration hot_timeout = absl::InfiniteDuration();
};

// What the executor has counted since its start. They only grow.
struct ExecutorUsage {
  uint64_t calls = 0;
  absl::Duration function_time;
  absl::Duration polling_time;  // busy-polling, while it has a session
  uint64_t bytes_in = 0;        // payloads of requests
  uint64_t bytes_out = 0;       // and of responses
};

class ExecutorProcess {
 public:
  // All but the first run on a thread of the spawner's, must not block, and must not destroy the
  // process.
  struct Events {
    // Once, by the thread that calls Spawn, before that waits: `end` ends the process at once, and
    // with it the Spawn if that still waits. It does not block, may be called from any thread and
    // more than once, and must not be called after the spawner's end.
    std::function<void(std::function<void()> end)> on_starting;
    // Once, and the last: the process is gone, and so are its sessions.
    std::function<void(const ExecutorEnd&)> on_ended;
    std::function<void(uint64_t handle, absl::string_view reason)> on_session_closed;
    std::function<void(absl::string_view provider, absl::string_view reason)> on_downgraded;
  };

  // Kills the process if it has not ended, and waits for the kernel to say so. Then no event comes
  // any more.
  virtual ~ExecutorProcess() = default;

  virtual pid_t pid() const = 0;

  // These block until the process has answered. UNAVAILABLE once it has ended.

  // What it runs from the start: the server's own libraries, in the order of their ids.
  virtual absl::StatusOr<std::vector<bootstrap::FunctionInfo>> Functions() = 0;
  // Like bootstrap::SessionHost's.
  virtual absl::StatusOr<std::vector<bootstrap::FunctionInfo>> Load(const std::string& path,
                                                                    CodeKind kind,
                                                                    const std::string& name) = 0;
  // The reply's handle is unique within this process only.
  virtual absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      const bootstrap::OpenSessionRequest& request) = 0;
  virtual absl::Status SwitchNotification(uint64_t handle, Notification notification,
                                          absl::string_view reason) = 0;
  virtual absl::StatusOr<bootstrap::RequestState> FindRequest(uint64_t handle,
                                                              uint64_t sequence) = 0;
  virtual absl::Status CloseSession(uint64_t handle) = 0;
  virtual absl::StatusOr<uint16_t> RegisterWindow(uint64_t handle,
                                                  const bootstrap::WindowDescriptor& window,
                                                  bool readable, bool writable) = 0;
  virtual absl::Status ForgetWindow(uint64_t handle, uint16_t number) = 0;

  // What it last said it had counted, which it does several times a second and when it stops; does
  // not block, and works after its end too.
  virtual ExecutorUsage Usage() const = 0;
  // What peers have sent to it that was dropped, so far; as Usage, but of the moment.
  virtual DropCounters Dropped() const = 0;
  // What it has done of each function, in words that may be made up: a function of its own could
  // have written them. As Dropped.
  virtual bootstrap::FunctionTable FunctionUsage() const = 0;
  // What it shows of itself, as of now. As FunctionUsage.
  virtual const ExecutorWatch& watch() const = 0;
  // Whether it had been started before it was wanted.
  virtual bool prestarted() const = 0;
  // Processor time so far, from the kernel; after its end, all of it.
  virtual absl::Duration CpuTime() const = 0;

  // Refuses calls from now on. Does not block.
  virtual void Drain() = 0;
  // Tells it to stop after the function that runs; kills it when `limit` has passed. Does not
  // block: on_ended comes.
  virtual void Stop(absl::Duration limit) = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_PROCESS_EXECUTOR_PROCESS_H_
