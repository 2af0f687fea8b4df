// A SessionHost behind limits: how many sessions a server, a lease and a tenant may have, how much
// memory their windows may take, and that no two clients have a session at the same endpoint.
//
// A session counts from when it is asked for until the host has closed it. Any thread, as
// SessionHost says; the lock is never held while the host is called.

#ifndef INVOKER_SRC_BOOTSTRAP_SERVICE_LIMITED_HOST_H_
#define INVOKER_SRC_BOOTSTRAP_SERVICE_LIMITED_HOST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "src/bootstrap/messages/session_host.h"

namespace invoker::bootstrap {

struct SessionLimits {
  uint32_t total = 8192;  // for a server
  // For a lease; with executors of its own, for each of them. Some fabrics have no more
  // than 256 at an executor: one lease must leave room for others.
  uint32_t per_lease = 64;
  // For all windows at executors that leases share; 0: half of the machine's memory. The windows at
  // a lease's own executors fit into the lease's memory.
  uint64_t window_memory = 0;
};

// The same for two addresses that a provider takes for one: of what may follow a socket address or
// a name's end nothing counts.
std::string CanonicalEndpoint(const std::string& provider, const std::string& address);

class LimitedHost final : public SessionHost {
 public:
  // `host` outlives it.
  LimitedHost(const SessionLimits& limits, SessionHost* host);

  // The host has ended a session by itself.
  void OnSessionEnded(uint64_t lease, uint64_t handle) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sessions that were refused.
  uint64_t refused() const ABSL_LOCKS_EXCLUDED(mutex_);

  WorkerInfo Info() const override { return host_->Info(); }
  void OpenLease(uint64_t lease, const LeaseTerms& terms,
                 std::shared_ptr<LeaseObserver> observer) override ABSL_LOCKS_EXCLUDED(mutex_);
  // RESOURCE_EXHAUSTED says which limit; ALREADY_EXISTS if another lease has a session at the
  // client's endpoint.
  absl::StatusOr<OpenSessionReply> OpenSession(uint64_t lease,
                                               const OpenSessionRequest& request) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CloseSession(uint64_t lease, uint64_t handle) override ABSL_LOCKS_EXCLUDED(mutex_);
  ResourceUsage CloseLease(uint64_t lease) override ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Status SwitchNotification(uint64_t lease, uint64_t handle, Notification notification,
                                  absl::string_view reason) override {
    return host_->SwitchNotification(lease, handle, notification, reason);
  }
  absl::StatusOr<RequestState> FindRequest(uint64_t lease, uint64_t handle,
                                           uint64_t sequence) override {
    return host_->FindRequest(lease, handle, sequence);
  }
  absl::StatusOr<std::vector<FunctionInfo>> Load(uint64_t lease, const std::string& path,
                                                 CodeKind kind, const std::string& name) override {
    return host_->Load(lease, path, kind, name);
  }
  absl::StatusOr<uint16_t> RegisterWindow(uint64_t lease, uint64_t handle,
                                          const WindowDescriptor& window, bool readable,
                                          bool writable) override {
    return host_->RegisterWindow(lease, handle, window, readable, writable);
  }
  absl::Status ForgetWindow(uint64_t lease, uint64_t handle, uint16_t number) override {
    return host_->ForgetWindow(lease, handle, number);
  }
  absl::StatusOr<LeaseIdentity> FindLease(uint64_t number) override {
    return host_->FindLease(number);
  }
  std::vector<UsageRecord> GetUsage(absl::string_view tenant) override {
    return host_->GetUsage(tenant);
  }
  absl::StatusOr<ResourceUsage> LeaseUsage(uint64_t lease) override {
    return host_->LeaseUsage(lease);
  }
  std::vector<DropCount> DroppedMessages() const override { return host_->DroppedMessages(); }
  void RetireLease(uint64_t lease) override { host_->RetireLease(lease); }

 private:
  class Observer;

  struct Session {
    uint64_t bytes = 0;
    std::string endpoint;
  };
  struct Lease {
    LeaseTerms terms;  // granted ones, once they are
    uint32_t sessions = 0;
    uint64_t bytes = 0;
    absl::flat_hash_map<uint64_t, Session> open;  // by handle
    // Sessions that ended while some were being opened, which may be these: nobody has told their
    // handles yet.
    uint32_t opening = 0;
    absl::flat_hash_set<uint64_t> ended_early;
  };
  struct Endpoint {
    uint64_t lease = 0;
    uint32_t sessions = 0;
  };

  void OnGranted(uint64_t lease, const LeaseTerms& terms) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Check(const Lease& mine, uint64_t lease, const Session& session) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(uint64_t lease, Lease* mine, const Session& session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Uncount(Lease* mine, const Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(uint64_t lease, uint64_t handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SessionLimits limits_;
  SessionHost* const host_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<uint64_t, Lease> leases_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, uint32_t> of_tenant_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Endpoint> endpoints_ ABSL_GUARDED_BY(mutex_);
  uint32_t sessions_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t shared_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_SERVICE_LIMITED_HOST_H_
