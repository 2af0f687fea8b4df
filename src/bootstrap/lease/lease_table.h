// The worker's leases: who asks for one, who holds one, until when, and that each ends exactly
// once.
//
// An entry lives from Add to the first of: its stream's end, its release, its expiry, the end of
// its time, the host's refusal, the death of one of its executors, Drain while it is not granted,
// EndAll. Then SessionHost::RetireLease is called for it at once, so that no request under it
// waits for ever; and when none is under way any more, CloseLease, once: both only if it has asked.
// After that its client is told how it ended and what it used, and the stream ends. The table knows
// nothing of gRPC.
//
// A client's silence is counted only in time that the table's own thread has witnessed: after a
// stop of this process, or a machine that slept, clients have as long again to be heard.
//
// Every method may be called from any thread; none but Join blocks. The table never holds its lock
// while it calls a stream or the host, so both may call back.

#ifndef INVOKER_SRC_BOOTSTRAP_LEASE_LEASE_TABLE_H_
#define INVOKER_SRC_BOOTSTRAP_LEASE_LEASE_TABLE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/base/work_threads.h"
#include "src/bootstrap/messages/session_host.h"

namespace invoker::bootstrap {

// The way to one lease's client. Methods do not block, and do nothing once the stream has ended.
class LeaseStream {
 public:
  virtual ~LeaseStream() = default;
  virtual void SendQueued(uint32_t ahead) = 0;
  virtual void SendGranted(const LeaseTerms& terms) = 0;
  virtual void SendDraining(absl::string_view reason) = 0;
  virtual void SendClosing() = 0;
  virtual void SendSessionClosed(uint64_t handle, absl::string_view reason) = 0;
  virtual void SendEnded(const LeaseEnd& end) = 0;
  // Ends the stream with `status` after what was sent before.
  virtual void End(const absl::Status& status) = 0;
  // Ends the stream at once, for a client that does not read.
  virtual void Cancel() = 0;
};

// Whose a lease is.
struct LeaseHolder {
  std::string tenant;   // the server's name for it; empty: the server asks nobody
  std::string machine;  // where its client is
  // The tenant's, by the server's policy.
  uint32_t max_leases = std::numeric_limits<uint32_t>::max();  // at a time
  absl::Duration max_ttl = absl::InfiniteDuration();
};

// Something that goes on under a lease and is to end with it, without holding its end up.
class LeaseWatch {
 public:
  virtual ~LeaseWatch() = default;
  // Once, on a thread of the table's. Does not block.
  virtual void OnLeaseEnded() = 0;
};

class LeaseTable {
 public:
  // Keeps a lease from being closed under a request that uses it.
  class Use {
   public:
    Use(Use&& other) noexcept
        : table_(other.table_), lease_(other.lease_), own_executors_(other.own_executors_) {
      other.table_ = nullptr;
    }
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (table_ != nullptr) table_->EndUse(lease_);
    }

    // Whether the lease has some, rather than the worker's that all share.
    bool own_executors() const { return own_executors_; }

   private:
    friend class LeaseTable;
    Use(LeaseTable* table, uint64_t lease, bool own_executors)
        : table_(table), lease_(lease), own_executors_(own_executors) {}
    LeaseTable* table_;
    uint64_t lease_;
    bool own_executors_;
  };

  // At the same time under one lease: more than a client's threads are likely to need, and no more
  // threads of the server's than it can spare, since a request may wait for a function that runs.
  static constexpr int kMostUses = 256;
  // The leases of clients on one machine, at a time: what each costs the server's memory and
  // threads is bounded.
  static constexpr uint32_t kMostOfMachine = 4096;

  // A random id, never 0: other clients must not be able to guess it.
  static absl::StatusOr<uint64_t> DrawId();

  using Clock = std::chrono::steady_clock;

  // `host` must outlive the table. `now` is the time, Clock's, for tests another one; any thread.
  LeaseTable(absl::Duration expiry, SessionHost* host,
             std::function<Clock::time_point()> now = Clock::now);
  ~LeaseTable();

  // A client that has not said its terms yet; it has as long as a lease lives without a heartbeat.
  // UNAVAILABLE while draining, ALREADY_EXISTS if the id is taken, RESOURCE_EXHAUSTED if the
  // holder's machine has kMostOfMachine, or its tenant max_leases.
  absl::Status Add(uint64_t lease, std::shared_ptr<LeaseStream> stream, LeaseHolder holder = {});
  // It has: the host is asked, and the stream hears the answer. Heartbeats are needed from the
  // grant on. Once for each lease.
  void Ask(uint64_t lease, const LeaseTerms& terms);
  // A heartbeat came. A lease that has ended stays ended.
  void Renew(uint64_t lease);
  // The client gives the lease back.
  void Release(uint64_t lease);
  // The client is gone.
  void End(uint64_t lease);
  // The client broke the protocol.
  void Refuse(uint64_t lease, const absl::Status& status);
  // The worker, or its operator, has ended it.
  void OnEnded(uint64_t lease, const LeaseEnd& end);
  // The stream is over on both sides; the table lets go of it.
  void StreamDone(uint64_t lease);

  // NOT_FOUND if the lease is unknown, is another tenant's, is not granted or has ended;
  // RESOURCE_EXHAUSTED if it has kMostUses.
  absl::StatusOr<Use> Acquire(uint64_t lease, absl::string_view tenant = "");
  // Tells the watch when the lease has ended, before its client hears of that. NOT_FOUND as
  // Acquire.
  absl::Status Watch(uint64_t lease, std::weak_ptr<LeaseWatch> watch,
                     absl::string_view tenant = "");

  // The client has an endpoint with that address: if it goes away without giving the lease back,
  // the files that endpoints of dead processes have left on this host are removed.
  void NoteEndpoint(const Use& use, absl::string_view address);

  void NotifySessionClosed(uint64_t lease, uint64_t handle, absl::string_view reason);
  // Tells every lease; ends those that are not granted, and refuses new ones from now on. Only the
  // first call counts.
  void Drain(absl::string_view reason);
  // Tells every lease that the executors end, and blocks until their clients have said that they
  // know, or have gone; at most for `limit`. Drain must have been called.
  void CloseToCalls(std::chrono::nanoseconds limit);
  // The client knows, and sends no further calls.
  void NoteClosingSeen(uint64_t lease);
  // OK, or UNAVAILABLE with the reason once Drain was called.
  absl::Status Admission() const;

  // Ends every lease with `status`, without waiting.
  void EndAll(const absl::Status& status);
  // Waits until the host has closed every lease. EndAll must have been called.
  void Join();

 private:
  class Observer;

  enum class Phase { kNew, kAsked, kGranted };

  struct Entry {
    std::shared_ptr<LeaseStream> stream;  // null after StreamDone
    LeaseHolder holder;
    Phase phase = Phase::kNew;
    // While live: when the terms, or a heartbeat, must have come. Once closed: when a stream that
    // still has not ended is cancelled.
    Clock::time_point deadline = Clock::time_point::max();
    Clock::time_point over_at = Clock::time_point::max();  // the end of its time
    absl::Duration ttl;
    bool own_executors = false;
    int uses = 0;
    std::vector<std::weak_ptr<LeaseWatch>> watches;
    bool has_files = false;  // an endpoint of the client is a file on this host, perhaps
    bool live = true;
    bool client_gone = false;  // that ended it
    bool announced = false;    // the stream has been told of the grant
    bool knows_end = true;     // CloseToCalls does not wait for its client
    // What to tell it once it has been.
    std::vector<std::function<void(LeaseStream*)>> held;
    bool retired = false;  // the host is being told, or has been, that it is not live
    bool closing = false;  // it is being closed
    bool closed = false;   // and that is over
    // Once it is not live: what the client hears.
    LeaseEnd end;
    absl::Status status;
  };
  struct Work;

  void OnQueued(uint64_t lease, uint32_t ahead);
  void OnGranted(uint64_t lease, const LeaseTerms& terms);

  absl::Status AdmissionLocked() const;
  // Nullptr if it has ended.
  Entry* FindLive(uint64_t lease);
  absl::StatusOr<Entry*> FindGranted(uint64_t lease, absl::string_view tenant);
  void EndUse(uint64_t lease);
  void EndUseLocked(Entry* entry);
  // Nothing if it has ended already.
  void EndEntry(Entry* entry, LeaseEndCause cause, absl::string_view reason, absl::Status status);
  void EndGone(Entry* entry);
  void EndLate(Entry* entry);
  // The tenant may take another one in its place.
  void GiveBackToTenant(const Entry& entry);
  void EraseIfOver(uint64_t lease);
  void Run();
  // What is due now, and when to look again.
  Work Collect(Clock::time_point now);
  void Forgive(Clock::duration absence);
  // Blocks for as long as the host does.
  void Close(uint64_t lease);

  const Clock::duration expiry_;
  const Clock::duration longest_sleep_;
  const std::string expiry_text_;
  SessionHost* const host_;
  const std::function<Clock::time_point()> now_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable knows_end_;
  std::unordered_map<uint64_t, Entry> entries_;
  std::unordered_map<std::string, uint32_t> of_machine_;  // entries, by holder.machine
  std::unordered_map<std::string, uint32_t> of_tenant_;   // by holder.tenant
  bool draining_ = false;
  std::string drain_reason_;
  bool stopping_ = false;
  // A host may wait for a function that runs, and other leases expire meanwhile.
  WorkThreads closers_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace invoker::bootstrap

#endif  // INVOKER_SRC_BOOTSTRAP_LEASE_LEASE_TABLE_H_
