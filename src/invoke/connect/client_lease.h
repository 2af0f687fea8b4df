// One lease on a worker as a client holds it, and the sessions under it that hear what becomes of
// it.

#ifndef INVOKER_SRC_INVOKE_CONNECT_CLIENT_LEASE_H_
#define INVOKER_SRC_INVOKE_CONNECT_CLIENT_LEASE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "src/base/work_threads.h"
#include "src/bootstrap/client/lease.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/connect/session_watch.h"
#include "src/invoke/connect/worker_contact.h"

namespace invoker {

// Any thread, where nothing else is said.
class ClientLease {
 public:
  // Blocks until the worker has granted it, for `timeout` at most, and terms.wait beyond that.
  static absl::StatusOr<std::shared_ptr<ClientLease>> Acquire(
      std::shared_ptr<const WorkerContact> contact, const LeaseTerms& terms, absl::Duration timeout,
      std::function<void(uint32_t ahead)> on_queued = {});
  // Gives it back and does not wait. Not on a thread of its own, such as that of a callback.
  ~ClientLease();

  uint64_t id() const { return lease_->id(); }
  // The granted ones.
  const LeaseTerms& terms() const { return lease_->terms(); }
  const WorkerContact& contact() const { return *contact_; }
  const std::shared_ptr<const WorkerContact>& shared_contact() const { return contact_; }

  // A session's watch that hears from now on, and at once if the lease is lost already.
  void Add(std::shared_ptr<SessionWatch> watch) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(const SessionWatch* watch) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether other clients may open a session under it: it has less than kMostSessions, and neither
  // ends nor has a time to end.
  bool HasRoom() const ABSL_LOCKS_EXCLUDED(mutex_);
  // For good: no other client is to open a session under it.
  void CloseToOthers() ABSL_LOCKS_EXCLUDED(mutex_);

  // OK, or why there is no lease any more.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);

  // How the worker has ended it, and the bill; nothing if it has not, or has not said so.
  absl::optional<LeaseEnd> end() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Gives it back and waits for the bill, as bootstrap::Lease::Release. Not on a thread of its own.
  absl::StatusOr<LeaseEnd> Release(absl::Duration timeout) { return lease_->Release(timeout); }

 private:
  ClientLease(std::shared_ptr<const WorkerContact> contact, absl::Duration peer_timeout);

  std::vector<std::shared_ptr<SessionWatch>> watches() const ABSL_LOCKS_EXCLUDED(mutex_);
  void OnClosing() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnLost(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnSessionClosed(uint64_t handle, absl::string_view reason) ABSL_LOCKS_EXCLUDED(mutex_);
  void CheckPaths() ABSL_LOCKS_EXCLUDED(mutex_);
  // That have come in all sessions.
  uint64_t Answers() const ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<const WorkerContact> contact_;
  mutable absl::Mutex mutex_;
  std::vector<std::shared_ptr<SessionWatch>> watches_ ABSL_GUARDED_BY(mutex_);
  bool closed_to_others_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  absl::optional<LeaseEnd> end_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;  // the worker has said so
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;   // and that its executors end
  const absl::Duration peer_timeout_;
  uint64_t answers_ = 0;  // at the last heartbeat; the lease's thread's
  // Ask the worker what has become of requests, since the lease's thread must not wait. While an
  // executor runs a function it takes 100 ms to say so, and the executors of a lease are asked at
  // the same time. Threads start when so many questions are under way.
  static constexpr size_t kMostAskers = 16;
  // Beyond so many, no other client joins: no question waits for another one, and a worker takes so
  // many sessions of a lease (--max-sessions-per-lease) unless it has been told not to.
  static constexpr size_t kMostSessions = kMostAskers;
  bootstrap::WorkThreads askers_{kMostAskers};
  // Last, so that its thread has ended before anything that it may call goes.
  std::unique_ptr<bootstrap::Lease> lease_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CONNECT_CLIENT_LEASE_H_
