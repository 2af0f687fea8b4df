// The process that executors are forked from, as the server sees it.
//
// Send may be called by any thread; everything else by one at a time.

#ifndef INVOKER_SRC_ISOLATION_SPAWNER_TEMPLATE_PROCESS_H_
#define INVOKER_SRC_ISOLATION_SPAWNER_TEMPLATE_PROCESS_H_

#include <sys/types.h>

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "proto/executor_control.pb.h"
#include "src/isolation/process/control_socket.h"

namespace invoker {

class TemplateProcess {
 public:
  // Starts `command`, a path and arguments, with what executors get of this process's environment
  // and with `variables`, "NAME=VALUE" each; and asks it to prepare. Does not wait for that.
  static absl::StatusOr<std::unique_ptr<TemplateProcess>> Start(
      const std::vector<std::string>& command, const std::vector<std::string>& variables,
      const isolation::v1::ToTemplate::Prepare& prepare);

  // Ends it, and with it all that it has forked. One that is not prepared is killed, and so is one
  // that has not ended after some seconds.
  ~TemplateProcess();

  ControlSocket& socket() { return socket_; }
  pid_t pid() const { return pid_; }

  // It is of no use any more: it ends at once, if it has not, and what it has forked with it.
  void Kill();

  // Blocks until it is prepared, or has failed to, or `limit` has passed: DEADLINE_EXCEEDED.
  absl::Status WaitUntilPrepared(absl::Duration limit);
  // The answer, for who reads the socket himself instead.
  absl::Status OnPrepared(const isolation::v1::FromTemplate::Prepared& answer);

  // Does not wait: it may itself be waiting for its socket to be read. What does not fit into the
  // socket is sent later, in order, with copies of the descriptors. UNAVAILABLE if it is known to
  // be gone.
  absl::Status Send(const isolation::v1::ToTemplate& message, absl::Span<const int> fds)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Unsent {
    std::string bytes;
    std::vector<UniqueFd> fds;
  };

  TemplateProcess(std::string program, pid_t pid, UniqueFd socket)
      : program_(std::move(program)),
        pid_(pid),
        socket_(std::move(socket), ControlSocket::Takes::kSender) {}

  // The sender's thread.
  void SendUnsent() ABSL_LOCKS_EXCLUDED(mutex_);
  void WaitForEnd() const;

  const std::string program_;
  const pid_t pid_;
  ControlSocket socket_;
  bool prepared_ = false;

  absl::Mutex mutex_;
  std::deque<Unsent> unsent_ ABSL_GUARDED_BY(mutex_);  // the first one may be on its way
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread sender_ ABSL_GUARDED_BY(mutex_);  // from the first that did not fit
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_SPAWNER_TEMPLATE_PROCESS_H_
