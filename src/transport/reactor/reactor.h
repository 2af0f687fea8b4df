// A reactor: one endpoint with its completion queue and address vector, and the turns that drive
// it.
//
// Threads. A reactor has no thread of its own. Exactly one thread at a time is its driver, and may
// call anything here. Any other thread may call only Submit, Sleep and the functions marked "any
// thread". Only Wait, Sleep, WaitAny and AwaitQuiesceWrite block.
//
// A turn (Poll) runs on the driver thread:
//   1. It reads a batch of completions. A peer's message goes up by ReactorHandler::OnToken. A
//      completion of our own operation posts its next step or frees its slot (OperationPool).
//   2. It runs the tasks that other threads have submitted (DriverWaker).
//   3. In one turn of 64 it looks at the clock, and tries refused posts again (RetryQueue). Every
//      half millisecond is a tick: it replaces slots that the provider keeps (OperationSlots),
//      looks for a stall (StallDetector), releases peers and memory (PeerTable, RetiredMemory), and
//      goes up by ReactorHandler::OnTick.
// OnToken and OnTick are the only calls into the layer above, besides OperationOwner's, which a
// failed operation or a finished transfer makes.
//
// Posts (PostWrite and the others) take a slot and post at once, on the driver thread.
//
// Hot path: a turn and a post neither allocate, lock nor enter the kernel. The provider may.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_REACTOR_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_REACTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/base/clock.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/fabric/address_vector.h"
#include "src/transport/fabric/completion_queue.h"
#include "src/transport/fabric/domain.h"
#include "src/transport/fabric/endpoint.h"
#include "src/transport/fabric/memory_region.h"
#include "src/transport/fabric/region_table.h"
#include "src/transport/fabric/remote_window.h"
#include "src/transport/operations/notifier.h"
#include "src/transport/operations/retry_queue.h"
#include "src/transport/operations/transfer.h"
#include "src/transport/reactor/address_run.h"
#include "src/transport/reactor/driver_turn.h"
#include "src/transport/reactor/driver_waker.h"
#include "src/transport/reactor/message_receiver.h"
#include "src/transport/reactor/operation_slots.h"
#include "src/transport/reactor/peer_table.h"
#include "src/transport/reactor/quarantine.h"
#include "src/transport/reactor/quiesce_write.h"
#include "src/transport/reactor/reactor_counters.h"
#include "src/transport/reactor/reactor_options.h"
#include "src/transport/reactor/remote_counter.h"
#include "src/transport/reactor/retired_memory.h"
#include "src/transport/reactor/stall_detector.h"

namespace invoker::transport {

// The layer above a reactor, which calls it on the driver thread from inside Poll.
class ReactorHandler {
 public:
  virtual ~ReactorHandler() = default;

  // A peer says that bytes are in one of our windows. The token comes from the network: check it.
  // Its upper half means nothing where immediates have fewer than 8 bytes (Profile), and is 0 in a
  // token that did not come as an immediate.
  virtual void OnToken(uint64_t token) = 0;

  // For deadlines: at least once per millisecond of polling. `now_ns` is MonotonicNs().
  virtual void OnTick(int64_t now_ns) = 0;
};

class Reactor {
 public:
  // Opens everything on the fabric that was chosen. Errors name the libfabric call. `total` counts
  // and limits the quarantined memory of several reactors; nullptr: it has no limit.
  static absl::StatusOr<std::unique_ptr<Reactor>> Open(
      FabricChoice choice, const ReactorOptions& options,
      std::shared_ptr<QuarantineTotal> total = nullptr);
  ~Reactor();

  // Ends a reactor: see ReactorRetirement::Retire.
  static void Close(std::unique_ptr<Reactor> reactor, bool quiet);

  // The program is about to get memory back that transfers with peers may still use. The provider
  // would go on with them, so nothing is posted or polled after this. Where regions may outlive the
  // endpoint, closes it: while it closes, an endpoint may still send from a region
  // (docs/design/libfabric.md).
  void QuarantineEndpoint() { endpoint_->Quarantine(/*close=*/regions_outlive_endpoint()); }
  // Also if the endpoint is lost. Then posts and polls do not call the provider.
  bool endpoint_quarantined() const { return endpoint_->quarantined(); }

  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Any thread.
  const Profile& profile() const { return fabric_.profile(); }
  const fi_info& info() const { return fabric_.info(); }
  const std::string& address() const { return endpoint_->address(); }

  // Must be set before the first Poll.
  void set_handler(ReactorHandler* handler) { handler_ = handler; }

  // The most completions that one Poll handles.
  static constexpr int kMostEvents = 32;

  // One turn: completions first, so that no deadline ends a call whose answer has come in time.
  // Returns how many completions there were.
  int Poll();

  // Poll for an endpoint that has so many peers that reading its queue takes long: where the queue
  // was empty and has a descriptor, asks that first. Reads all the same behind a post, a task or
  // two ticks, since a provider may have other things to do.
  int PollIfReady();

  // For the handler: how many more completions this turn has in hand.
  int entries_left() const { return turn_.entries_left(); }

  // Sleeps until a completion or a task is there, or `limit` has passed, or now and then for no
  // reason. Where there is no wait object, sleeps in steps of 50 us to 1 ms, each 1/16 of the wait
  // so far, and the driver polls the queue in between; a task ends such a sleep at once, and a peer
  // does where it sees that the driver sleeps (SleepFlag), so that steps grow longer. The next turn
  // has a tick if one is due. The same as `if (Arm()) Sleep(limit); Disarm();`.
  void Wait(absl::Duration limit);

  // Wait in three parts, for a driver that lets others drive while it sleeps. The driver calls Arm
  // and Disarm; any one thread at a time calls Sleep. False: there is something to do already, do
  // not sleep.
  bool Arm() { return Arm(waker_.OwnSleep()); }
  void Sleep(absl::Duration limit) { waker_.Sleep(limit); }
  void Disarm();

  // How Wait sleeps: the profile's method, or kBackoff where the provider refused that or the use
  // does without. Any thread.
  WaitMethod wait_method() const { return cq_->wait_method(); }

  // Any thread: runs `task` on the driver thread in one of its next turns, and wakes it from its
  // sleep.
  void Submit(Inbox::Task task) { waker_.Submit(std::move(task)); }

  // Runs the tasks that are waiting, without a turn: for a driver that is about to stop.
  void RunTasks() { waker_.RunTasks(); }

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
  void ExpectCheck(uint64_t nonce) { receiver_.ExpectCheck(nonce); }
  // Whether one is awaited that has not come. The nonce keeps others from answering for it.
  bool awaits_check() const { return receiver_.awaits_check(); }

  // The endpoint cannot be used any more, for this reason, which becomes its health unless that has
  // a reason already.
  void GiveUp(const absl::Status& reason) {
    if (health_.ok()) health_ = reason;
  }

  // Before Close, where a peer's write may be half received: writes the last byte of a window of
  // that peer's once more. `last` is what was written there last, since the peer may not have read
  // it yet. The write is delivered behind everything that the peer has begun to send, or fails
  // because the connection has gone, and the half-received bytes with it. Does nothing where
  // endpoints can be closed at any time.
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
  // on, where it does so only when it is called. A later Poll handles what completes.
  void LetProviderWork();

  // Retires the operations of an owner that goes away: they complete for nobody. Those that the
  // provider keeps for long are quarantined (OperationPool).
  void RetireAllOf(const OperationOwner* owner) { slots_.pool().RetireAllOf(owner, MonotonicNs()); }

  // Memory that peers are to write to: one piece lies beside the other, so that quarantined memory
  // has no gaps. As HostBuffer::Allocate. Any thread.
  absl::StatusOr<HostBuffer> AllocateTarget(size_t size) { return targets_.Allocate(size); }

  // RESOURCE_EXHAUSTED also where peers are to write to it and the quarantine is full.
  absl::StatusOr<MemoryRegion> Register(HostBuffer buffer, RegionUse use);

  // Takes a region out of use that peers may still write to, or that a provider may still read
  // (RetiredMemory). Addresses that peers could write to are not used again before the endpoint has
  // been closed (Quarantine). Drops `share`, if any, with the registration, or when the endpoint is
  // lost.
  void Retire(MemoryRegion region, std::shared_ptr<const void> share = nullptr);

  // Whether something has been retired so lately that its registration stands.
  bool has_retired() const { return retired_.has_recent(); }

  // Regions that were retired longer ago, and stay because operations from or to them are
  // outstanding.
  size_t held() const { return retired_.in_use(); }
  const Quarantine& quarantine() const { return retired_.quarantine(); }

  PeerTable& peers() { return *peers_; }
  // What messages may name: every kRemoteTarget region that Register has made, and counters.
  RegionTable& regions() { return receiver_.regions(); }
  const OperationPool& operations() const { return slots_.pool(); }
  const Endpoint& endpoint() const { return *endpoint_; }
  const CompletionQueue& completion_queue() const { return *cq_; }
  const ReactorCounters& counters() const { return counters_; }

  // OK, or why this reactor can serve no longer (the completion queue overran, so that
  // notifications may be lost; the provider completes nothing any more; the endpoint is lost to a
  // peer; it was given up): every session on it must end.
  const absl::Status& health() const { return health_; }

 private:
  friend class ReactorRetirement;
  friend void WaitAny(absl::Span<Reactor* const> reactors, absl::Duration limit);

  Reactor(Fabric fabric, Domain domain, const ReactorOptions& options,
          std::shared_ptr<QuarantineTotal> total);
  absl::Status OpenEndpoint(const ReactorOptions& options);
  absl::StatusOr<MemoryRegion> RegisterSource(HostBuffer buffer) {
    return Register(std::move(buffer), RegionUse::kSource);
  }
  // Whether regions are closed after the endpoint.
  bool regions_outlive_endpoint() const {
    return !profile().bind_region_to_endpoint && !profile().close_needs_quiet;
  }

  // The end of an operation of our own wakes nobody.
  bool Arm(DriverWaker::Asleep asleep) {
    const size_t peers = operations().outstanding() > 0 ? SIZE_MAX : peers_->live();
    return waker_.Arm(asleep, !retries_.empty(), peers);
  }
  void HandleEntry(const fi_cq_data_entry& entry);
  void HandleForeign(const fi_cq_data_entry& entry);
  void HandleCompletion(Operation* operation);
  void HandleErrors(ssize_t code);
  void HandleLostEndpoint();
  void SlowTurn();
  void LookForStall(int64_t now_ns);

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
    turn_.AssertDriver();
    Operation* operation = slots_.pool().Acquire();
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
  Operation* AcquireFor(const Notifier* notifier, fi_addr_t peer, OperationOwner* owner,
                        uint64_t tag);
  void PostStep(Operation* operation);
  void PostLater(Operation* operation);
  void Settle(Operation* operation, PostResult result, int error);
  void Fail(Operation* operation, const absl::Status& status);
  void ReleaseIfDone(Operation* operation);
  void RunRetries(int64_t now_ns);
  // Whether nothing is half received, as the quiesce write has shown.
  bool is_quiet() const;

  // In this order, so that every object is closed before the objects that it was opened on.
  Fabric fabric_;
  Domain domain_;
  std::optional<AddressVector> av_;
  std::optional<CompletionQueue> cq_;
  // Outlive the endpoint, which may still have work for them.
  MessageReceiver receiver_;
  AddressRun targets_;
  RetiredMemory retired_;
  OperationSlots slots_;
  QuiesceWrite quiesce_write_;
  std::optional<Endpoint> endpoint_;
  std::optional<PeerTable> peers_;

  ImmediateLimits limits_;
  bool native_atomics_ = false;
  ReactorHandler* handler_ = nullptr;
  RetryQueue retries_;
  StallDetector stalls_;
  DriverTurn turn_;
  ReactorCounters counters_;
  absl::Status health_;
  DriverWaker waker_;
};

// Wait, for a thread that drives all of `reactors`: sleeps until one of them has a completion or a
// task. A reactor without a descriptor of its own bounds the sleep by its back-off.
void WaitAny(absl::Span<Reactor* const> reactors, absl::Duration limit);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_REACTOR_H_
