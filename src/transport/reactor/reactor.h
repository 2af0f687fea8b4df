// One endpoint with its queue and address vector, and whoever drives them.
//
// A reactor has no thread of its own. Exactly one thread at a time is its driver and may call
// anything here; every other thread may only call Submit, Sleep and the constant accessors marked
// so. Nothing blocks but Wait, Sleep and WaitAny.
//
// Hot path: Poll reads a batch of completions and hands each token to the handler; PostWrite takes
// a slot and posts. Neither allocates, locks or enters the kernel (what the provider does is its
// own affair).

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_REACTOR_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_REACTOR_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/base/inbox.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/fabric/address_vector.h"
#include "src/transport/fabric/completion_queue.h"
#include "src/transport/fabric/domain.h"
#include "src/transport/fabric/endpoint.h"
#include "src/transport/fabric/memory_region.h"
#include "src/transport/fabric/region_table.h"
#include "src/transport/fabric/remote_window.h"
#include "src/transport/reactor/address_run.h"
#include "src/transport/reactor/notifier.h"
#include "src/transport/reactor/operation_pool.h"
#include "src/transport/reactor/peer_table.h"
#include "src/transport/reactor/quarantine.h"
#include "src/transport/reactor/reactor_options.h"
#include "src/transport/reactor/receive_ring.h"
#include "src/transport/reactor/remote_counter.h"
#include "src/transport/reactor/transfer.h"

namespace invoker::transport {

// What a reactor tells its user. Called on the driver thread from inside Poll.
class ReactorHandler {
 public:
  virtual ~ReactorHandler() = default;

  // A peer says that bytes are in one of our windows. The token comes from the network: check it.
  // Its upper half means nothing where immediates have fewer than 8 bytes (Profile), and is 0 of
  // what has not come as an immediate.
  virtual void OnToken(uint64_t token) = 0;

  // Every so often while the reactor is polled (at least once per millisecond of polling), for
  // deadlines. `now_ns` is MonotonicNs().
  virtual void OnTick(int64_t now_ns) = 0;
};

// What can be counted on the data path. Written by the driver; read it on the driver thread.
struct ReactorCounters {
  uint64_t turns = 0;
  uint64_t posts = 0;
  uint64_t posts_refused = 0;      // -FI_EAGAIN, later tried again
  uint64_t posts_failed = 0;       // for good
  uint64_t completion_errors = 0;  // from fi_cq_readerr
  uint64_t stray_completions = 0;  // of no live operation
  uint64_t stray_messages = 0;     // received, but nothing that may be acted on, also those that
                                   // the provider found at fault
  uint64_t eager_messages = 0;     // received whole and put in their place
  uint64_t additions = 0;          // to counters of ours, by message
  uint64_t checks = 0;             // that were awaited
  uint64_t completions = 0;        // of operations, errors too
};

// CLOCK_MONOTONIC in nanoseconds.
int64_t MonotonicNs();

class Reactor {
 public:
  // Opens everything on the fabric that was chosen. Errors name the libfabric call. `total` counts
  // what is in quarantine together with what other reactors have there, and sets a limit to that;
  // nullptr: none.
  static absl::StatusOr<std::unique_ptr<Reactor>> Open(
      FabricChoice choice, const ReactorOptions& options,
      std::shared_ptr<QuarantineTotal> total = nullptr);
  ~Reactor();

  // Ends a reactor. Unless `quiet`, a peer's write may be half received; on a fabric whose
  // endpoints cannot be closed then, it is closed once PostQuiesceWrite's write is over, which this
  // waits for for some milliseconds. If that takes longer, as with a peer that is stopped, or there
  // is none, the reactor is set aside, with its memory: each further Dispose looks whether it can
  // be closed. One that was abandoned is not looked at again.
  static void Dispose(std::unique_ptr<Reactor> reactor, bool quiet);

  // The program is about to get memory back that transfers with peers may still use. Nothing is
  // posted or polled after this, since the provider would go on with them. Where regions may
  // outlive the endpoint, closes it.
  void Abandon();
  // Also if the endpoint is lost: then the provider is not called, whoever posts or polls.
  bool abandoned() const { return abandoned_ || endpoint_->lost(); }

  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Any thread.
  const Profile& profile() const { return fabric_.profile(); }
  const fi_info& info() const { return fabric_.info(); }
  const std::string& address() const { return endpoint_->address(); }

  // Must be set before the first Poll.
  void set_handler(ReactorHandler* handler) { handler_ = handler; }

  // That one Poll handles.
  static constexpr int kMostEvents = 32;

  // One turn: completions first, so that no deadline ends what has come in time, then tasks, and
  // now and then retries and ticks. Returns how many completions there were.
  int Poll();

  // For the handler: how many more completions this turn has in hand.
  int entries_left() const { return entries_left_; }

  // Sleeps until a completion or a task is there, or `limit` has passed, or now and then for no
  // reason. Where there is no wait object, sleeps in steps of 50 us to 1 ms, each 1/16 of the wait
  // so far, and the driver polls the queue in between; a task ends such a sleep at once. The same
  // as `if (Arm()) Sleep(limit); Disarm();`.
  // The next turn has a tick if one is due.
  void Wait(absl::Duration limit);

  // Wait in three parts, for a driver that lets others drive while it sleeps: Arm and Disarm are
  // the driver's, Sleep is anybody's, but one thread's at a time. False: there is something to do
  // already, do not sleep.
  bool Arm();
  void Sleep(absl::Duration limit);
  void Disarm();

  // How Wait sleeps: the profile's method, or kBackoff where the provider refused that or the use
  // does without. Any thread.
  WaitMethod wait_method() const { return cq_->wait_method(); }

  // Any thread: runs `task` on the driver thread in one of its next turns, and wakes it from its
  // sleep.
  void Submit(Inbox::Task task);

  // Runs the tasks that are waiting, without a turn: for a driver that is about to stop.
  void RunTasks() { inbox_.RunAll(); }

  // A notified write of `length` bytes from `source` to `offset` in the window. Returns false only
  // if every slot is taken: call again after a Poll. Otherwise the operation goes ahead, and the
  // owner hears of it again only if it fails, here or later. The caller has checked
  // window.Contains(offset, length), and leaves the source as it is until the peer's answer shows
  // delivery.
  bool PostWrite(const Notifier* notifier, const RemoteWindow& window, uint64_t offset,
                 const void* source, void* descriptor, uint64_t length, uint64_t token,
                 OperationOwner* owner, uint64_t tag) {
    struct Given {
      const Notifier* by;
      const RemoteWindow& to;
      NotifiedWrite write;
      const Notifier* notifier() const { return by; }
      const RemoteWindow& window() const { return to; }
      NotifiedWrite Make() const { return write; }
      void Describe(NotifiedWrite*) const {}
    };
    return PostWrite(
        Given{notifier, window, {offset, source, descriptor, length, token, tag, owner}});
  }

  // The same for the write that `maker` makes: notifier(), window(), Make(), and Describe(&write),
  // which adds the descriptor, the owner and the tag. An injected write needs none of those three,
  // and keeps nothing for the case that the provider does not inject it now: then `maker` is asked
  // for everything again.
  template <typename Maker>
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool PostWrite(Maker maker) {
    NotifiedWrite write = maker.Make();
    if (!maker.notifier()->Injects(write.length, limits_)) {
      maker.Describe(&write);
      return PostInSlot(maker.notifier(), maker.window(), write, /*code=*/0);
    }
    const ssize_t code = Inject(maker.window(), write);
    if (ABSL_PREDICT_FALSE(code != 0)) return PostRefused(maker, code);
    return true;
  }

  // Posts the write only if the provider injects it now: then it is over, and its source may
  // change. False: nothing has been done.
  bool TryInject(const Notifier* notifier, const RemoteWindow& window, const NotifiedWrite& write) {
    return notifier->Injects(write.length, limits_) && Inject(window, write) == 0;
  }

  // Adds `value` to one counter of a peer, once. As PostWrite: false only if every slot is taken,
  // and the owner hears of it again only if it fails. The caller has checked
  // counters.Contains(index).
  bool PostAtomicAdd(const RemoteCounters& counters, uint32_t index, uint64_t value,
                     OperationOwner* owner, uint64_t tag);

  // Moves `length` bytes between `local`, registered for kTransfer, and `offset` in the window; the
  // peer is not told. As PostWrite: false only if every slot is taken. The owner hears of its end
  // either way. The caller has checked window.Contains(offset, length), 0 < length and
  // length <= profile().max_message_bytes.
  bool PostTransfer(TransferDirection direction, const RemoteWindow& window, uint64_t offset,
                    void* local, void* descriptor, uint64_t length, OperationOwner* owner,
                    uint64_t tag);

  // Sends a check with this nonce, which is not 0, to the endpoint `peer` (ExpectCheck). As
  // PostWrite: false only if every slot is taken, and the owner hears of it again only if it fails.
  bool PostCheck(fi_addr_t peer, uint64_t nonce, OperationOwner* owner);

  // Any thread, for these. From now on the check with this nonce is awaited, and no other; 0: none.
  void ExpectCheck(uint64_t nonce) { awaited_check_.store(nonce); }
  // Whether one is awaited that has not come. The nonce keeps others from answering for it.
  bool awaits_check() const { return awaited_check_.load() != 0; }

  // The endpoint cannot be used any more, for this reason, which becomes its health unless that has
  // a reason already.
  void GiveUp(const absl::Status& reason) {
    if (health_.ok()) health_ = reason;
  }

  // Before Dispose, where a peer's write may be half received: writes the last byte of a window of
  // that peer's once more. `last` is what was written there last, since the peer may not have read
  // it yet. It is delivered behind what the peer has begun to send, or fails because the connection
  // has gone, and what was half received with it. Does nothing where endpoints can be closed at any
  // time.
  void PostQuiesceWrite(const RemoteWindow& window, std::byte last);

  // Polls until that write is over, but no longer than `limit`. True if nothing is half received
  // any more. False at once where PostQuiesceWrite does nothing. Driver thread; blocks.
  bool AwaitQuiesceWrite(absl::Duration limit);

  // Whether the endpoint has atomics that add 64-bit numbers. Any thread.
  bool native_atomics() const { return native_atomics_; }

  // The most bytes that a peer may send here inside a message. Any thread.
  uint32_t eager_bytes() const { return static_cast<uint32_t>(profile().eager_bytes); }

  // Calls `visit` with every write of this owner's that waits to be posted again and of which the
  // peer has not been told.
  void ForEachUntold(const OperationOwner* owner,
                     absl::FunctionRef<void(const Operation&)> visit) const;

  // Calls `visit` with every write of this owner's that has been posted, and of which the peer is
  // to be told when it has been delivered. Linear in the slots.
  void ForEachUndelivered(const OperationOwner* owner,
                          absl::FunctionRef<void(const Operation&)> visit) const;

  // For a driver that is inside a handler's method and stays there for long: lets the provider go
  // on, where it does so only when it is called. What completes is handled by a later Poll.
  void LetProviderWork();

  // Forgets an owner that goes away; its operations complete for nobody. Those that the provider
  // keeps for long are written off (OperationPool).
  void Disown(const OperationOwner* owner);

  // Memory that peers are to write to: one piece lies beside the other, so that what is in
  // quarantine has no gaps. As HostBuffer::Allocate. Any thread.
  absl::StatusOr<HostBuffer> AllocateTarget(size_t size) { return targets_.Allocate(size); }

  // RESOURCE_EXHAUSTED also where peers are to write to it and the quarantine is full.
  absl::StatusOr<MemoryRegion> Register(HostBuffer buffer, RegionUse use);

  // Takes a region out of use that peers may still write to, or that a provider may still read. Its
  // pages are given back at once, but those that an outstanding operation sends from, and nobody
  // looks at them again. Its registration stays for a while, so that what is under way ends well: a
  // write to a region that has been closed costs the connection on some fabrics, and leaves the
  // operation outstanding for ever on others. All of it stays for as long as an operation from or
  // to it is outstanding, written off or not. Addresses that peers could write to are not used
  // again before the endpoint has been closed (Quarantine). `share`, if any, is let go of with the
  // registration, or when the endpoint is lost.
  void Retire(MemoryRegion region, std::shared_ptr<const void> share = nullptr);

  // Whether something has been retired so lately that its registration stands.
  bool has_retired() const { return !retired_.empty(); }

  // What is retired for longer, because operations from or to it are outstanding.
  size_t held() const { return held_.size(); }
  const Quarantine& quarantine() const { return quarantine_; }

  PeerTable& peers() { return *peers_; }
  // What messages may name: every kRemoteTarget region that Register has made, and counters.
  RegionTable& regions() { return regions_; }
  const OperationPool& operations() const { return operations_; }
  const Endpoint& endpoint() const { return *endpoint_; }
  const CompletionQueue& completion_queue() const { return *cq_; }
  const ReactorCounters& counters() const { return counters_; }

  // OK, or why this reactor can serve no longer (the completion queue overran, so that
  // notifications may be lost; the provider completes nothing any more; the endpoint is lost to a
  // peer; it was given up): every session on it must end.
  const absl::Status& health() const { return health_; }

 private:
  // Whether regions are closed after the endpoint.
  bool regions_outlive_endpoint() const {
    return !profile().bind_region_to_endpoint && !profile().close_needs_quiet;
  }

  Reactor(Fabric fabric, Domain domain, const ReactorOptions& options,
          std::shared_ptr<QuarantineTotal> total);

  // Hears of PostQuiesceWrite's write.
  struct QuiesceWrite final : public OperationOwner {
    void OnOperationFailed(const Operation& operation, const absl::Status& status) override;
    void OnTransferDone(uint64_t) override { over = true; }
    bool under_way() const { return posted && !failed && !over; }

    bool posted = false;
    bool failed = false;
    bool over = false;  // and nothing is half received
  };

  bool QuietAfterQuiesceWrite() const;
  static std::vector<std::unique_ptr<Reactor>> TakeQuiet();
  absl::Status OpenEndpoint(const ReactorOptions& options);
  void HandleEntry(const fi_cq_data_entry& entry);
  void HandleReceive(void* context, size_t bytes);
  std::optional<uint32_t> TakeMessage(absl::Span<const std::byte> message);
  void TakeCheck(uint64_t nonce);
  void HandleCompletion(Operation* operation);
  void HandleErrors(ssize_t code);
  ssize_t Inject(const RemoteWindow& window, const NotifiedWrite& write) {
    const ssize_t code =
        PostWriteImm(endpoint_->poster(), write.source, write.length, write.descriptor, write.token,
                     window.peer, window.AddressOf(write.offset), window.key, /*context=*/nullptr);
    if (ABSL_PREDICT_TRUE(code == 0)) ++counters_.posts;
    return code;
  }
  // `code`: Inject's, or 0 if the write is not one to inject.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool PostInSlot(const Notifier* notifier, const RemoteWindow& window,
                                               const NotifiedWrite& write, ssize_t code) {
    Operation* operation = operations_.Acquire();
    if (operation == nullptr) return false;
    ++counters_.posts;
    if (ABSL_PREDICT_FALSE(
            !notifier->Begin(endpoint_->poster(), window, write, limits_, operation, &code))) {
      PostFirst(operation, code);
    }
    return true;
  }
  void PostFirst(Operation* operation, ssize_t code);
  template <typename Maker>
  ABSL_ATTRIBUTE_NOINLINE bool PostRefused(Maker maker, ssize_t code) {
    NotifiedWrite write = maker.Make();
    maker.Describe(&write);
    return PostInSlot(maker.notifier(), maker.window(), write, code);
  }
  void PostStep(Operation* operation);
  void Settle(Operation* operation, PostResult result, int error);
  void Fail(Operation* operation, const absl::Status& status);
  void QueueRetry(Operation* operation);
  void RunRetries(int64_t now_ns);
  void SlowTurn();
  void ReleaseIfDone(Operation* operation);
  absl::Status AddStaging(size_t slots);
  void UseStaging(absl::Span<Operation> slots);
  void WriteOff(int64_t now_ns);
  void ReleaseRetired(int64_t now_ns);
  void LookForStall(int64_t now_ns);
  std::optional<int64_t> StallLimitNs() const;

  // In this order, so that every object is closed before what it was opened on.
  Fabric fabric_;
  Domain domain_;
  std::optional<AddressVector> av_;
  std::optional<CompletionQueue> cq_;
  RegionTable regions_;
  // Outlive the endpoint, which may still have work for them.
  AddressRun targets_;
  Quarantine quarantine_;
  struct Retired {
    MemoryRegion region;
    HostBuffer buffer;  // the region's, once that is closed
    int64_t until_ns;
    std::shared_ptr<const void> share;
  };
  std::deque<Retired> retired_;
  std::vector<Retired> held_;
  OperationPool operations_;
  QuiesceWrite quiesce_write_;
  bool abandoned_ = false;
  std::vector<MemoryRegion> staging_;  // of the slots, one for each time that slots were added
  // Memory under posted receives cannot be released before the endpoint on some fabrics.
  std::optional<ReceiveRing> receives_;
  std::optional<Endpoint> endpoint_;
  std::optional<PeerTable> peers_;

  ImmediateLimits limits_;
  bool native_atomics_ = false;
  ReactorHandler* handler_ = nullptr;
  Operation* retry_head_ = nullptr;
  Operation* retry_tail_ = nullptr;
  int64_t retirement_ns_;
  int64_t next_look_at_held_ns_ = 0;
  int64_t next_discard_ns_ = 0;
  int64_t retry_limit_ns_;
  int64_t write_off_after_ns_;
  int64_t stall_limit_ns_;
  int64_t longest_sleep_ns_;
  int entries_left_ = 0;
  uint32_t turns_to_slow_turn_ = 1;
  int64_t next_tick_ns_ = 0;
  int64_t next_write_off_ns_ = 0;
  int64_t looked_for_stall_ns_ = 0;
  int64_t stalled_ns_ = 0;
  uint64_t completions_at_stall_ = 0;
  uint64_t refused_at_stall_ = 0;
  ReactorCounters counters_;
  absl::Status health_;
  std::atomic<uint64_t> awaited_check_{0};  // its nonce; 0: none

  // What a sleeping driver's thread blocks in, and so what wakes it.
  enum class Asleep : uint8_t { kNo, kInPoll, kInQueue };

  friend void WaitAny(absl::Span<Reactor* const> reactors, absl::Duration limit);
  bool ArmFor(Asleep asleep);

  Inbox inbox_;
  std::atomic<Asleep> asleep_{Asleep::kNo};
  int wake_fd_ = -1;
  std::atomic<bool> signalled_{false};  // wake_fd_ is readable
  int64_t waiting_since_ns_ = 0;        // of a driver without a wait object; 0: it does not wait
  int64_t sleep_limit_ns_ = 0;          // set by Arm
};

// Wait, for a thread that drives all of `reactors`: sleeps until one of them has a completion or a
// task. A reactor without a descriptor of its own bounds the sleep by its back-off.
void WaitAny(absl::Span<Reactor* const> reactors, absl::Duration limit);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_REACTOR_H_
