// A TCP socket that listens at a free port.

#ifndef INVOKER_SRC_LAUNCH_LISTENER_H_
#define INVOKER_SRC_LAUNCH_LISTENER_H_

#include <string>

#include "absl/status/statusor.h"
#include "src/base/unique_fd.h"
#include "src/bootstrap/messages/host_port.h"

namespace invoker::launch {

struct Listener {
  bootstrap::HostPort address;
  UniqueFd socket;  // does not block
};

// At `host`, an address of this machine.
absl::StatusOr<Listener> ListenAt(const std::string& host);

}  // namespace invoker::launch

#endif  // INVOKER_SRC_LAUNCH_LISTENER_H_
