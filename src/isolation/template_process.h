// The process that executors are forked from, as the server sees it.

#ifndef INVOKER_SRC_ISOLATION_TEMPLATE_PROCESS_H_
#define INVOKER_SRC_ISOLATION_TEMPLATE_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/executor_control.pb.h"
#include "src/isolation/control_socket.h"

namespace invoker {

class TemplateProcess {
 public:
  // Starts `command`, a path and arguments, and asks it to prepare. Does not wait for that.
  static absl::StatusOr<std::unique_ptr<TemplateProcess>> Start(
      const std::vector<std::string>& command, const isolation::v1::ToTemplate::Prepare& prepare);

  // Ends it, and with it all that it has forked.
  ~TemplateProcess();

  ControlSocket& socket() { return socket_; }

  // Blocks until it is prepared, or has failed to.
  absl::Status WaitUntilPrepared();

  absl::Status Send(const isolation::v1::ToTemplate& message, absl::Span<const int> fds) {
    return socket_.Send(message.SerializeAsString(), fds, /*wait=*/true);
  }

 private:
  TemplateProcess(std::string program, pid_t pid, UniqueFd socket)
      : program_(std::move(program)), pid_(pid), socket_(std::move(socket)) {}

  const std::string program_;
  const pid_t pid_;
  ControlSocket socket_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_TEMPLATE_PROCESS_H_
