// The client's lease on a worker, kept alive by a thread of its own.
//
// Sessions are opened under a lease and end with it. The lease ends when it is released or
// destroyed, when its time is over or one of its executors dies, when the worker or the connection
// dies, or when one side stops hearing the other's heartbeats; the client learns of all but the
// first through its events.

#ifndef INVOKER_SRC_BOOTSTRAP_CLIENT_LEASE_H_
#define INVOKER_SRC_BOOTSTRAP_CLIENT_LEASE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/messages/messages.h"

namespace invoker::bootstrap {

// All but on_queued run on the lease's own thread, one at a time, possibly before Acquire has
// returned. They must not block for long (heartbeats wait for them) and must not destroy or release
// the lease. None runs once Release or the destructor has begun, but for one that runs already. Any
// may be left empty.
struct LeaseEvents {
  // There is no room yet; `ahead` others come first. Inside Acquire, on its caller's thread.
  std::function<void(uint32_t ahead)> on_queued;
  // With each heartbeat that is sent but the first, which is the lease's beginning: several in
  // LeaseTerms::peer_timeout.
  std::function<void()> on_heartbeat;
  // kLooksPerHeartbeat times for each of them, as long as they can be sent.
  std::function<void()> on_look;
  // Asked before a worker whose heartbeats fail to come is given up: whether it has shown in
  // another way that it lives, since on_heartbeat was last called.
  std::function<bool()> shows_life;
  // At most once, before on_lost: the worker has ended the lease and sent the bill.
  std::function<void(const LeaseEnd&)> on_ended;
  // At most once, and the last: the lease, its sessions and its executors are gone. ABORTED if an
  // executor of the lease has ended by itself, DEADLINE_EXCEEDED if the lease's time is over, if
  // the server declared it expired, or if it has not answered heartbeats for the expiry time,
  // UNAVAILABLE if the stream broke or the server ended it.
  std::function<void(absl::Status)> on_lost;
  // The worker will go away: open sessions still work, new ones are refused.
  std::function<void(absl::string_view reason)> on_draining;
  // Its executors end. The worker hears when this has returned, and waits for no further calls.
  std::function<void()> on_closing;
  // The worker closed one session by itself.
  std::function<void(uint64_t handle, absl::string_view reason)> on_session_closed;
};

class Lease {
 public:
  // Blocks until the worker has granted a lease on these terms, or has refused it, or `timeout` and
  // terms.wait are over. RESOURCE_EXHAUSTED if there is no room, and waiting was not wanted or not
  // enough. The lease may outlive `client`.
  static absl::StatusOr<std::unique_ptr<Lease>> Acquire(BootstrapClient* client,
                                                        const LeaseTerms& terms, LeaseEvents events,
                                                        absl::Duration timeout);
  // Gives the lease back, unless Release has: the worker closes its sessions and ends its executors
  // soon after. Does not wait for the worker.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // Goes into OpenSession and the rest. Any thread.
  uint64_t id() const;

  // What was granted: with the worker's values where the client left the choice. Any thread.
  const LeaseTerms& terms() const;

  // Gives the lease back and waits for the bill, for `timeout` at most. If the lease is over
  // already: how it ended, or why that is not known. Any thread, but not inside an event.
  absl::StatusOr<LeaseEnd> Release(absl::Duration timeout);

 private:
  class Impl;
  explicit Lease(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_CLIENT_LEASE_H_
