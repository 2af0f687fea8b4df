// The worker's leases: who holds one, until when, and that each ends exactly once.
//
// A lease lives from Add to the first of: its stream's end, its expiry, Stop. Then, when no request
// that uses it is under way any more, SessionHost::CloseLease is called for it, once, on the
// table's own thread. The table knows nothing of gRPC.
//
// Every method may be called from any thread; none but Stop blocks. The table never holds its lock
// while it calls a stream or the host, so both may call back.

#ifndef INVOKER_SRC_BOOTSTRAP_LEASE_TABLE_H_
#define INVOKER_SRC_BOOTSTRAP_LEASE_TABLE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/bootstrap/session_host.h"

namespace invoker::bootstrap {

// The way to one lease's client. Methods do not block, and do nothing once the stream has ended.
class LeaseStream {
 public:
  virtual ~LeaseStream() = default;
  virtual void SendDraining(absl::string_view reason) = 0;
  virtual void SendSessionClosed(uint64_t handle, absl::string_view reason) = 0;
  virtual void SendExpired(absl::string_view reason) = 0;
  // Ends the stream with `status` after what was sent before.
  virtual void End(const absl::Status& status) = 0;
  // Ends the stream at once, for a client that does not read.
  virtual void Cancel() = 0;
};

class LeaseTable {
 public:
  // Keeps a lease from being closed under a request that uses it.
  class Use {
   public:
    Use(Use&& other) noexcept : table_(other.table_), lease_(other.lease_) {
      other.table_ = nullptr;
    }
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (table_ != nullptr) table_->EndUse(lease_);
    }

   private:
    friend class LeaseTable;
    Use(LeaseTable* table, uint64_t lease) : table_(table), lease_(lease) {}
    LeaseTable* table_;
    uint64_t lease_;
  };

  // A random id, never 0: other clients must not be able to guess it.
  static absl::StatusOr<uint64_t> DrawId();

  // `host` must outlive the table.
  LeaseTable(absl::Duration expiry, SessionHost* host);
  ~LeaseTable();

  // UNAVAILABLE while draining, ALREADY_EXISTS if the id is taken.
  absl::Status Add(uint64_t lease, std::shared_ptr<LeaseStream> stream);
  // A heartbeat came. A lease that has ended stays ended.
  void Renew(uint64_t lease);
  // The client is gone or has released the lease.
  void End(uint64_t lease);
  // The stream is over on both sides; the table lets go of it.
  void StreamDone(uint64_t lease);

  // NOT_FOUND if the lease is unknown or has ended.
  absl::StatusOr<Use> Acquire(uint64_t lease);

  void NotifySessionClosed(uint64_t lease, uint64_t handle, absl::string_view reason);
  // Tells every lease; refuses new ones from now on. Only the first call counts.
  void Drain(absl::string_view reason);
  // OK, or UNAVAILABLE with the reason once Drain was called.
  absl::Status Admission() const;

  // Ends every lease with `status`, without waiting.
  void EndAll(const absl::Status& status);
  // Waits until the host has closed every lease. EndAll must have been called.
  void Join();

 private:
  using Clock = std::chrono::steady_clock;

  struct Entry {
    std::shared_ptr<LeaseStream> stream;  // null after StreamDone
    // While live: when the lease expires. After: when a stream that still has not ended is
    // cancelled.
    Clock::time_point deadline;
    int uses = 0;
    bool live = true;
    bool closing = false;  // CloseLease was called or is about to be
    bool closed = false;   // CloseLease has returned
  };
  struct Work;

  absl::Status AdmissionLocked() const;
  void EndUse(uint64_t lease);
  void EndEntry(Entry* entry);
  void EraseIfOver(uint64_t lease);
  void Run();
  // What is due now, and when to look again.
  Work Collect(Clock::time_point now);

  const Clock::duration expiry_;
  const std::string expired_reason_;
  SessionHost* const host_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<uint64_t, Entry> entries_;
  bool draining_ = false;
  std::string drain_reason_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_LEASE_TABLE_H_
