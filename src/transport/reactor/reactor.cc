#include "src/transport/reactor/reactor.h"

#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "src/base/cpu_relax.h"
#include "src/transport/base/ring_message.h"
#include "src/transport/base/shared_files.h"
#include "src/transport/base/status.h"

namespace invoker::transport {
namespace {

// The clock is read once in so many turns; an idle turn takes well under a microsecond.
constexpr uint32_t kTurnsPerSlowTurn = 64;

// Between two OnTick.
constexpr int64_t kTickNs = 500'000;

// Counted in ticks and not in time, so that a driver that is away for long counts as no time at
// all. A quarter of a second of busy polling.
constexpr uint32_t kPeerQuarantineTicks = 500;

// What belongs to no operation of ours. A provider may say FI_WRITE of a peer's write as well, and
// then gives it no context.
ABSL_ATTRIBUTE_NOINLINE void TakeForeign(const fi_cq_data_entry& entry, ReactorHandler* handler,
                                         ReactorCounters* counters) {
  if (entry.op_context != nullptr || (entry.flags & FI_REMOTE_CQ_DATA) == 0) {
    ++counters->stray_completions;
  } else if (entry.data != kPieceData) {
    handler->OnToken(entry.data);
  }
}

}  // namespace

int64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Reactor::Reactor(Fabric fabric, Domain domain, const ReactorOptions& options,
                 std::shared_ptr<QuarantineTotal> total)
    : fabric_(std::move(fabric)),
      domain_(std::move(domain)),
      quarantine_(options.quarantine_bytes, std::move(total)),
      operations_(
          std::max<size_t>(1, std::min(options.operations, fabric_.profile().transmit_depth))),
      retirement_ns_(absl::ToInt64Nanoseconds(options.retirement)),
      retry_limit_ns_(absl::ToInt64Nanoseconds(options.retry_limit)),
      write_off_after_ns_(absl::ToInt64Nanoseconds(options.write_off_after)),
      stall_limit_ns_(absl::ToInt64Nanoseconds(options.stall_limit)),
      longest_sleep_ns_(absl::ToInt64Nanoseconds(options.longest_sleep)) {}

Reactor::~Reactor() {
  // A peer may still write, and some providers end the process at a write to a region that is
  // closed, also when that arrives while the endpoint closes: so the regions outlive the endpoint,
  // unless they are bound to it. Their memory always does.
  if (regions_outlive_endpoint()) {
    peers_.reset();
    endpoint_.reset();
  }
  for (Retired& retired : retired_) retired.buffer = std::move(retired.region).Close();
  for (Retired& held : held_) held.buffer = std::move(held.region).Close();
  // A layered provider (libfabric 1.17 to 2.6) posts to the receive queue of a connection that it
  // has just freed, where a message of that connection is unread when the endpoint closes. With the
  // regions closed no peer's write becomes one any more, though a peer that was cut off and is back
  // may send answers by the hundred; messages of the provider's own flow control do.
  if (cq_.has_value() && profile().close_needs_quiet) cq_->Discard();
  if (wake_fd_ >= 0) close(wake_fd_);
}

absl::StatusOr<std::unique_ptr<Reactor>> Reactor::Open(FabricChoice choice,
                                                       const ReactorOptions& options,
                                                       std::shared_ptr<QuarantineTotal> total) {
  absl::StatusOr<Fabric> fabric = Fabric::Open(std::move(choice));
  if (!fabric.ok()) return fabric.status();
  absl::StatusOr<Domain> domain = Domain::Open(*fabric);
  if (!domain.ok()) return domain.status();
  std::unique_ptr<Reactor> reactor(
      new Reactor(*std::move(fabric), *std::move(domain), options, std::move(total)));
  if (absl::Status status = reactor->OpenEndpoint(options); !status.ok()) {
    return absl::Status(
        status.code(),
        absl::StrCat("opening an endpoint of provider ", reactor->profile().provider, " at ",
                     DescribeSource(reactor->info()), ": ", status.message()));
  }
  return reactor;
}

absl::Status Reactor::OpenEndpoint(const ReactorOptions& options) {
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0) return absl::ResourceExhaustedError(absl::StrCat("eventfd: ", strerror(errno)));

  absl::StatusOr<AddressVector> av = AddressVector::Open(fabric_, domain_);
  if (!av.ok()) return av.status();
  av_ = *std::move(av);
  // Every operation completes twice at most.
  const size_t entries = 2 * operations_.capacity() + profile().receive_buffers + options.inbound;
  const bool without_wait = options.use == ReactorUse::kHot && profile().wait_slows_polling;
  const WaitMethod wait = without_wait ? WaitMethod::kBackoff : profile().wait;
  absl::StatusOr<CompletionQueue> cq = CompletionQueue::Open(fabric_, domain_, entries, wait);
  if (!cq.ok()) return cq.status();
  cq_ = *std::move(cq);
  absl::StatusOr<Endpoint> endpoint = Endpoint::Open(fabric_, domain_, *cq_, *av_);
  if (!endpoint.ok()) return endpoint.status();
  endpoint_ = *std::move(endpoint);
  endpoint_->Guard(profile(), options.spin_limit, &*cq_);
  av_->set_example(endpoint_->address());
  if (profile().injected_is_placed) limits_.inject_bytes = profile().inject_bytes;
  if (profile().may_send_pieces)
    limits_.piece_bytes = static_cast<uint32_t>(profile().inject_bytes);
  native_atomics_ = profile().may_have_atomics && GrantsNativeAdd(domain_.get(), endpoint_->get());
  absl::StatusOr<ReceiveRing> receives =
      ReceiveRing::Open(fabric_, domain_, *endpoint_, profile().receive_buffers,
                        MaxRingMessageBytes(profile().eager_bytes));
  if (!receives.ok()) return receives.status();
  receives_ = *std::move(receives);
  peers_.emplace(
      &*av_, [this] { return operations_.Uses(); }, kPeerQuarantineTicks);

  if (absl::Status status = AddStaging(operations_.capacity()); !status.ok()) return status;
  UseStaging(operations_.slots());
  return absl::OkStatus();
}

absl::StatusOr<MemoryRegion> Reactor::Register(HostBuffer buffer, RegionUse use) {
  if (use == RegionUse::kRemoteTarget) {
    if (absl::Status room = quarantine_.HasRoom(); !room.ok()) return room;
  }
  absl::StatusOr<MemoryRegion> region =
      MemoryRegion::Register(fabric_, domain_, *endpoint_, std::move(buffer), use);
  if (!region.ok() || use != RegionUse::kRemoteTarget) return region;
  absl::StatusOr<RegionListing> listing =
      regions_.Insert(region->key(), region->data(), region->size(), RegionRole::kWindow);
  if (!listing.ok()) return listing.status();
  region->set_listing(*std::move(listing));
  return region;
}

// Of an operation of ours.
inline void Reactor::HandleCompletion(Operation* operation) {
  ++counters_.completions;
  if (operation->completions_due > 0) --operation->completions_due;
  if (operation->completions_due > 0 || operation->queued) return;
  if (Notifier::HasNextStep(*operation) && operation->owner != nullptr) {
    PostStep(operation);
  } else {
    operations_.Release(operation);
  }
}

inline void Reactor::HandleEntry(const fi_cq_data_entry& entry) {
  // A provider may set FI_REMOTE_CQ_DATA on unrelated entries, which have FI_RECV; nor does the
  // flag alone mean a peer's write: some keep it on the writer's own entry.
  constexpr uint64_t kFlags = FI_RECV | FI_REMOTE_CQ_DATA | FI_WRITE;
  if ((entry.flags & kFlags) == FI_REMOTE_CQ_DATA) {
    if (ABSL_PREDICT_TRUE(entry.data != kPieceData)) {
      handler_->OnToken(entry.data);
    }
    return;
  }
  if ((entry.flags & FI_RECV) != 0) {
    HandleReceive(entry.op_context, entry.len);
    return;
  }
  Operation* operation = operations_.FromContext(entry.op_context);
  if (ABSL_PREDICT_FALSE(operation == nullptr)) {
    return TakeForeign(entry, handler_, &counters_);
  }
  HandleCompletion(operation);
}

int Reactor::Poll() {
  ++counters_.turns;
  fi_cq_data_entry entries[kMostEvents];
  const ssize_t count = cq_->Read(entries, kMostEvents);
  int taken = 0;
  if (count > 0) {
    waiting_since_ns_ = 0;
    taken = static_cast<int>(count);
    for (int i = 0; i < taken; ++i) {
      entries_left_ = taken - i - 1;
      HandleEntry(entries[i]);
    }
  } else if (ABSL_PREDICT_FALSE(count < 0 && count != -FI_EAGAIN)) {
    HandleErrors(count);
  } else {
    // A provider looks into memory that its peers write, and may take a lock there that a peer
    // needs in order to post. A driver that polls without a pause keeps both from them.
    CpuRelax();
  }
  if (ABSL_PREDICT_FALSE(inbox_.HasTasks())) inbox_.RunAll();
  if (--turns_to_slow_turn_ == 0) SlowTurn();
  return taken;
}

void Reactor::HandleErrors(ssize_t code) {
  if (endpoint_->lost()) {
    if (!health_.ok()) return;
    RemoveFileOf(endpoint_->address());
    // What is shared by other reactors is not kept with what stays here for good.
    for (Retired& retired : retired_) retired.share = nullptr;
    for (Retired& held : held_) held.share = nullptr;
    health_ = absl::UnavailableError(
        "a peer was killed or stopped while it had the lock of this endpoint's queue, which nobody "
        "can use any more, so every session on it ends");
    return;
  }
  if (code != -FI_EAVAIL) {
    if (health_.ok()) health_ = ToStatus("fi_cq_read", code);
    return;
  }
  CompletionError error;
  while (cq_->ReadError(&error)) {
    ++counters_.completion_errors;
    if (error.code == FI_EOVERRUN) {
      health_ = absl::DataLossError(
          "the completion queue overran: notifications of peers may be lost, so every session on "
          "this endpoint ends");
      return;
    }
    if (Operation* operation = operations_.FromContext(error.context); operation != nullptr) {
      const absl::Status reason = ToStatus(
          error.text.empty() ? "completion" : absl::StrCat("completion (", error.text, ")"),
          error.code);
      ++counters_.completions;
      Fail(operation, reason);
      if (operation->completions_due > 0) --operation->completions_due;
      ReleaseIfDone(operation);
    } else if (!receives_->Recycle(error.context)) {
      ++counters_.stray_completions;
    }
  }
}

bool Reactor::PostAtomicAdd(const RemoteCounters& counters, uint32_t index, uint64_t value,
                            OperationOwner* owner, uint64_t tag) {
  Operation* operation = operations_.Acquire();
  if (operation == nullptr) return false;
  const CounterDescriptor& at = counters.descriptor;
  const uint64_t offset = index * uint64_t{kCounterBytes};
  operation->notifier = GetAdder(at.method);
  operation->source = nullptr;
  operation->length = 0;
  operation->peer = counters.peer;
  operation->remote_address = at.base + offset;
  operation->remote_key = at.key;
  operation->owner = owner;
  operation->tag = tag;
  PrepareAdd(at.method, offset, value, operation);
  ++counters_.posts;
  PostStep(operation);
  return true;
}

bool Reactor::PostCheck(fi_addr_t peer, uint64_t nonce, OperationOwner* owner) {
  Operation* operation = operations_.Acquire();
  if (operation == nullptr) return false;
  operation->notifier = GetCheckSender();
  operation->source = nullptr;
  operation->length = 0;
  operation->peer = peer;
  operation->owner = owner;
  operation->tag = 0;
  EncodeCheck(nonce, operation->staging);
  ++counters_.posts;
  PostStep(operation);
  return true;
}

bool Reactor::PostTransfer(TransferDirection direction, const RemoteWindow& window, uint64_t offset,
                           void* local, void* descriptor, uint64_t length, OperationOwner* owner,
                           uint64_t tag) {
  Operation* operation = operations_.Acquire();
  if (operation == nullptr) return false;
  operation->notifier = GetTransferrer(direction);
  operation->peer = window.peer;
  operation->source = local;
  operation->descriptor = descriptor;
  operation->length = length;
  operation->remote_address = window.AddressOf(offset);
  operation->remote_key = window.key;
  operation->owner = owner;
  operation->tag = tag;
  ++counters_.posts;
  PostStep(operation);
  return true;
}

void Reactor::LetProviderWork() {
  if (DataProgress(*info().domain_attr) == FI_PROGRESS_MANUAL) cq_->Progress();
}

void Reactor::Disown(const OperationOwner* owner) { operations_.Disown(owner, MonotonicNs()); }

void Reactor::SlowTurn() {
  turns_to_slow_turn_ = kTurnsPerSlowTurn;
  const int64_t now_ns = MonotonicNs();
  if (retry_head_ != nullptr) RunRetries(now_ns);
  if (now_ns < next_tick_ns_) return;
  next_tick_ns_ = now_ns + kTickNs;
  receives_->Replenish();
  counters_.stray_messages += endpoint_->TakeFaults();
  WriteOff(now_ns);
  LookForStall(now_ns);
  peers_->RemoveIdle();
  ReleaseRetired(now_ns);
  handler_->OnTick(now_ns);
}

}  // namespace invoker::transport
