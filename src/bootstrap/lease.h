// The client's lease on a worker, kept alive by a thread of its own.
//
// Sessions are opened under a lease and end with it. The lease ends when it is destroyed, when the
// worker or the connection dies, or when one side stops hearing the other's heartbeats; the client
// learns of the latter two through its events.

#ifndef INVOKER_SRC_BOOTSTRAP_LEASE_H_
#define INVOKER_SRC_BOOTSTRAP_LEASE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/bootstrap/client.h"

namespace invoker::bootstrap {

// All run on the lease's own thread, one at a time, possibly before Acquire has returned. They must
// not block for long (heartbeats wait for them) and must not destroy the lease. None runs after the
// lease's destructor has returned. Any may be left empty.
struct LeaseEvents {
  // At most once, and not after the destructor began: the lease and its sessions are gone.
  // UNAVAILABLE if the stream broke or the server ended it, DEADLINE_EXCEEDED if the server
  // declared it expired or has not answered heartbeats for the expiry time.
  std::function<void(absl::Status)> on_lost;
  // The worker will go away: open sessions still work, new ones are refused.
  std::function<void(absl::string_view reason)> on_draining;
  // The worker closed one session by itself.
  std::function<void(uint64_t handle, absl::string_view reason)> on_session_closed;
};

class Lease {
 public:
  // Blocks until the worker has granted a lease or `timeout` is over. The lease may outlive
  // `client`.
  static absl::StatusOr<std::unique_ptr<Lease>> Acquire(BootstrapClient* client, LeaseEvents events,
                                                        absl::Duration timeout);
  // Releases the lease: the worker closes its sessions soon after. Does not wait for the worker.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // Goes into OpenSession and the rest. Any thread.
  uint64_t id() const;

 private:
  class Impl;
  explicit Lease(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_LEASE_H_
