// What the bootstrap service needs from the worker behind it.

#ifndef INVOKER_SRC_BOOTSTRAP_SESSION_HOST_H_
#define INVOKER_SRC_BOOTSTRAP_SESSION_HOST_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/bootstrap/messages.h"

namespace invoker::bootstrap {

// Implemented by invoker::Worker. Called from gRPC's threads, several at a time; every method may
// block for as long as one turn of an executor takes. A lease is granted by the service; the host
// only remembers which sessions belong to it.
class SessionHost {
 public:
  virtual ~SessionHost() = default;

  virtual WorkerInfo Info() const = 0;

  // Inserts the client's endpoint, allocates windows and answers with the worker's half. The
  // request's protocol version and fabric have been checked against Info() already.
  virtual absl::StatusOr<OpenSessionReply> OpenSession(uint64_t lease,
                                                       const OpenSessionRequest& request) = 0;

  // Makes the executor notify by `notification` from now on, for the client's `reason`, which may
  // be empty and is printable. NOT_FOUND if the session is not of this lease.
  virtual absl::Status SwitchNotification(uint64_t lease, uint64_t handle,
                                          transport::Notification notification,
                                          absl::string_view reason) = 0;

  // Fences and frees one session. NOT_FOUND if the session is not of this lease.
  virtual absl::Status CloseSession(uint64_t lease, uint64_t handle) = 0;

  // Fences and frees whatever the lease still has. The lease may have no sessions.
  virtual void CloseLease(uint64_t lease) = 0;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_SESSION_HOST_H_
