// One end of a socket between a server and a process of its own: messages of up to 16 MiB, each
// with some descriptors, in order. Long messages go as several packets.
//
// Send may be called from several threads; Receive from one.

#ifndef INVOKER_SRC_ISOLATION_PROCESS_CONTROL_SOCKET_H_
#define INVOKER_SRC_ISOLATION_PROCESS_CONTROL_SOCKET_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "src/base/unique_fd.h"

namespace invoker {

class ControlSocket {
 public:
  struct Message {
    std::string bytes;
    std::vector<UniqueFd> fds;
    pid_t sender = 0;  // this process's number for it; 0: unknown
  };
  // What comes with messages. A server takes no descriptors, with which code in an executor
  // could fill its table.
  enum class Takes { kDescriptors, kSender };

  // Both close on exec.
  static absl::StatusOr<std::pair<UniqueFd, UniqueFd>> Pair();

  ControlSocket(UniqueFd fd, Takes takes);
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  int fd() const { return fd_.get(); }

  // UNAVAILABLE if the other end is closed. Blocks while the other end has much to read yet;
  // unless `wait`, RESOURCE_EXHAUSTED then. What does not fit into one packet always waits. At
  // most kMostFds descriptors; they stay the caller's.
  absl::Status Send(absl::string_view bytes, absl::Span<const int> fds, bool wait)
      ABSL_LOCKS_EXCLUDED(send_mutex_);

  // The next message; NOT_FOUND if there is none yet, unless `wait`; UNAVAILABLE if the other end
  // is closed, or has sent what is no message. Without `wait` it takes a few packets at most, so
  // that one who never comes to the end of a message keeps nobody here: NOT_FOUND then too, and the
  // descriptor stays readable.
  absl::StatusOr<Message> Receive(bool wait);

  static constexpr size_t kMostFds = 64;
  static constexpr size_t kPacketBytes = 32 << 10;
  static constexpr size_t kMessageBytes = 16 << 20;

 private:
  absl::Status SendPacket(bool last, absl::string_view part, absl::Span<const int> fds, bool wait)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(send_mutex_);

  const UniqueFd fd_;
  const Takes takes_;
  absl::Mutex send_mutex_;  // one message at a time
  Message partial_;         // what has come of a message
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_PROCESS_CONTROL_SOCKET_H_
