// The process that executors are forked from, as the server sees it.

#ifndef INVOKER_SRC_ISOLATION_TEMPLATE_PROCESS_H_
#define INVOKER_SRC_ISOLATION_TEMPLATE_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/executor_control.pb.h"
#include "src/isolation/control_socket.h"

namespace invoker {

class TemplateProcess {
 public:
  // Starts `command`, a path and arguments, with what executors get of this process's environment
  // and with `variables`, "NAME=VALUE" each; and asks it to prepare. Does not wait for that.
  static absl::StatusOr<std::unique_ptr<TemplateProcess>> Start(
      const std::vector<std::string>& command, const std::vector<std::string>& variables,
      const isolation::v1::ToTemplate::Prepare& prepare);

  // Ends it, and with it all that it has forked. One that is not prepared is killed.
  ~TemplateProcess();

  ControlSocket& socket() { return socket_; }
  pid_t pid() const { return pid_; }

  // It is of no use any more: it ends at once, if it has not, and what it has forked with it.
  void Kill();

  // Blocks until it is prepared, or has failed to, or `limit` has passed: DEADLINE_EXCEEDED.
  absl::Status WaitUntilPrepared(absl::Duration limit);
  // The answer, for who reads the socket himself instead.
  absl::Status OnPrepared(const isolation::v1::FromTemplate::Prepared& answer);

  absl::Status Send(const isolation::v1::ToTemplate& message, absl::Span<const int> fds) {
    return socket_.Send(message.SerializeAsString(), fds, /*wait=*/true);
  }

 private:
  TemplateProcess(std::string program, pid_t pid, UniqueFd socket)
      : program_(std::move(program)),
        pid_(pid),
        socket_(std::move(socket), ControlSocket::Takes::kSender) {}

  const std::string program_;
  const pid_t pid_;
  ControlSocket socket_;
  bool prepared_ = false;
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_TEMPLATE_PROCESS_H_
