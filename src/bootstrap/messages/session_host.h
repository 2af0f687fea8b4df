// What the bootstrap service needs from the worker behind it.

#ifndef INVOKER_SRC_BOOTSTRAP_MESSAGES_SESSION_HOST_H_
#define INVOKER_SRC_BOOTSTRAP_MESSAGES_SESSION_HOST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/bootstrap/messages/lease_identity.h"
#include "src/bootstrap/messages/messages.h"
#include "src/bootstrap/messages/worker_status.h"

namespace invoker::bootstrap {

// Implemented by invoker::Worker (executors in this process, shared by all) and invoker::LeaseHost
// (executor processes of a lease's own, and a Worker for who wants none). Called from gRPC's
// threads, several at a time; every method but OpenLease and RetireLease may block for as long as
// one turn of an executor takes.
class SessionHost {
 public:
  virtual ~SessionHost() = default;

  virtual WorkerInfo Info() const = 0;

  // What a lease hears. Methods may be called from any thread and do not block.
  class LeaseObserver {
   public:
    virtual ~LeaseObserver() = default;
    // There is no room yet; `ahead` others come first.
    virtual void OnQueued(uint32_t ahead) = 0;
    // The answer to OpenLease, once, unless CloseLease came first: the terms as granted.
    virtual void OnGranted(const absl::StatusOr<LeaseTerms>& terms) = 0;
    // The lease has ended by itself: CloseLease is still to be called. `end.usage` is not filled
    // in.
    virtual void OnEnded(const LeaseEnd& end) = 0;
  };

  // Asks for a lease. The answer comes through the observer, now or later; the observer is let go
  // of when CloseLease returns. Must not block. The default grants shared leases (terms.executors
  // of 0) at once and refuses others.
  virtual void OpenLease(uint64_t lease, const LeaseTerms& terms,
                         std::shared_ptr<LeaseObserver> observer) {
    (void)lease;
    if (terms.executors != 0) {
      observer->OnGranted(absl::ResourceExhaustedError(
          "this worker leases no executors: it was started without --lease-cores"));
      return;
    }
    observer->OnGranted(terms);
  }

  // Inserts the client's endpoint, allocates windows and answers with the worker's half. The
  // request's protocol version and fabric have been checked against Info() already.
  virtual absl::StatusOr<OpenSessionReply> OpenSession(uint64_t lease,
                                                       const OpenSessionRequest& request) = 0;

  // Makes the executor notify by `notification` from now on, for the client's `reason`, which may
  // be empty and is printable. NOT_FOUND if the session is not of this lease.
  virtual absl::Status SwitchNotification(uint64_t lease, uint64_t handle,
                                          Notification notification, absl::string_view reason) = 0;

  // What has become of a request of the session. Does not wait for a function that runs.
  virtual absl::StatusOr<RequestState> FindRequest(uint64_t lease, uint64_t handle,
                                                   uint64_t sequence) {
    (void)lease, (void)handle, (void)sequence;
    return absl::UnimplementedError("this worker does not know");
  }

  // Fences and frees one session. NOT_FOUND if the session is not of this lease.
  virtual absl::Status CloseSession(uint64_t lease, uint64_t handle) = 0;

  // Loads the file at `path`, which has been verified and stays until this returns, into every
  // executor of the lease. `name` as in LoadRequest. Returns all of their functions, by id.
  virtual absl::StatusOr<std::vector<FunctionInfo>> Load(uint64_t lease, const std::string& path,
                                                         CodeKind kind, const std::string& name) {
    (void)lease, (void)path, (void)kind, (void)name;
    return absl::FailedPreconditionError(
        "code is loaded into executors of a lease's own only, and this lease has none");
  }

  // Gives the session's executor access to memory of the client; returns its number, from 1.
  virtual absl::StatusOr<uint16_t> RegisterWindow(uint64_t lease, uint64_t handle,
                                                  const WindowDescriptor& window, bool readable,
                                                  bool writable) {
    (void)lease, (void)handle, (void)window, (void)readable, (void)writable;
    return absl::UnimplementedError("this worker takes no windows");
  }
  // When this returns OK, the executor neither reads nor writes it any more. DEADLINE_EXCEEDED
  // while transfers that had begun are under way; no further one begins.
  virtual absl::Status ForgetWindow(uint64_t lease, uint64_t handle, uint16_t number) {
    (void)lease, (void)handle, (void)number;
    return absl::UnimplementedError("this worker takes no windows");
  }

  // Open leases first. `tenant` empty: everybody's.
  virtual std::vector<UsageRecord> GetUsage(absl::string_view tenant) {
    (void)tenant;
    return {};
  }

  // By the number that its record has. NOT_FOUND if no such lease is open.
  virtual absl::StatusOr<LeaseIdentity> FindLease(uint64_t number) {
    (void)number;
    return absl::NotFoundError("this worker keeps no accounts of leases");
  }

  // What an open lease has used so far. NOT_FOUND if it is not open.
  virtual absl::StatusOr<ResourceUsage> LeaseUsage(uint64_t lease) {
    (void)lease;
    return absl::FailedPreconditionError("this worker keeps no accounts of open leases");
  }

  // What peers have sent to executors that was dropped: every reason, also those with a count of 0.
  virtual std::vector<DropCount> DroppedMessages() const { return {}; }

  // Adds what it does and has. Does not wait for executors.
  virtual void AddStatus(WorkerStatus* status) const { (void)status; }

  // The lease has ended, and CloseLease follows once no request under it is left. Those that are
  // may wait for a function that never returns: a host that can ends them now. Must not block. May
  // come while OpenLease is under way; not for a lease that has never asked.
  virtual void RetireLease(uint64_t lease) { (void)lease; }

  // Fences and frees whatever the lease still has, takes it out of the line, and tells what it
  // used. The lease may have no sessions.
  virtual ResourceUsage CloseLease(uint64_t lease) = 0;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_MESSAGES_SESSION_HOST_H_
