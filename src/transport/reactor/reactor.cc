// Reactor: its opening and end, its turns, and its sleeps.

#include "src/transport/reactor/reactor.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "src/base/cpu_relax.h"
#include "src/transport/base/ring_message.h"
#include "src/transport/base/shared_files.h"
#include "src/transport/base/status.h"
#include "src/transport/reactor/reactor_retirement.h"

namespace invoker::transport {
namespace {

// How long an unused entry of the address vector stays: a quarter of a second of busy polling.
// Counted in ticks, so that the time for which a driver is away does not count.
constexpr uint32_t kPeerRetirementTicks = 500;

}  // namespace

Reactor::Reactor(Fabric fabric, Domain domain, const ReactorOptions& options,
                 std::shared_ptr<QuarantineTotal> total)
    : fabric_(std::move(fabric)),
      domain_(std::move(domain)),
      retired_(options.retirement, options.quarantine_bytes, std::move(total)),
      slots_(std::max<size_t>(1, std::min(options.operations, fabric_.profile().transmit_depth)),
             fabric_.profile().eager_bytes, options.quarantine_after),
      retries_(options.retry_limit),
      stalls_(options.stall_limit),
      waker_(options.longest_sleep) {}

Reactor::~Reactor() {
  // A peer may still write. Some providers end the process at a write to a region that is closed,
  // also when that arrives while the endpoint closes. So the regions outlive the endpoint, unless
  // they are bound to it. Their memory always does.
  if (regions_outlive_endpoint()) {
    peers_.reset();
    endpoint_.reset();
  }
  retired_.CloseRegions();
  // A layered provider (libfabric 1.17 to 2.6) posts to the receive queue of a connection that it
  // has just freed, where a message of that connection is unread when the endpoint closes. With the
  // regions closed no peer's write becomes one any more, though a peer that was cut off and is back
  // may send answers by the hundred; messages of the provider's own flow control do.
  if (cq_.has_value() && profile().close_needs_quiet) cq_->ReadEmpty();
}

void Reactor::Close(std::unique_ptr<Reactor> reactor, bool quiet) {
  ReactorRetirement::Retire(std::move(reactor), quiet);
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
  absl::StatusOr<AddressVector> av = AddressVector::Open(fabric_, domain_);
  if (!av.ok()) return av.status();
  av_ = *std::move(av);
  // Every operation completes twice at most.
  const size_t entries = 2 * operations().capacity() + profile().receive_buffers + options.inbound;
  const bool without_wait = options.use == ReactorUse::kHot && profile().wait_slows_polling;
  const WaitMethod wait = without_wait ? WaitMethod::kBackoff : profile().wait;
  absl::StatusOr<CompletionQueue> cq = CompletionQueue::Open(fabric_, domain_, entries, wait);
  if (!cq.ok()) return cq.status();
  cq_ = *std::move(cq);
  if (absl::Status status = waker_.Open(&*cq_); !status.ok()) return status;
  absl::StatusOr<Endpoint> endpoint = Endpoint::Open(fabric_, domain_, *cq_, *av_);
  if (!endpoint.ok()) return endpoint.status();
  endpoint_ = *std::move(endpoint);
  if (options.shows_sleep && !profile().file_scheme.empty()) {
    waker_.set_sleep_flag(SleepFlag::Open(endpoint_->address()));
  }
  endpoint_->Guard(profile(), options.spin_limit, &*cq_);
  av_->set_example(endpoint_->address());
  if (profile().injected_is_placed) limits_.inject_bytes = profile().inject_bytes;
  if (profile().may_send_pieces)
    limits_.piece_bytes = static_cast<uint32_t>(profile().inject_bytes);
  native_atomics_ = profile().may_have_atomics && GrantsNativeAdd(domain_.get(), endpoint_->get());
  absl::StatusOr<ReceiveRing> ring =
      ReceiveRing::Open(fabric_, domain_, *endpoint_, profile().receive_buffers,
                        MaxRingMessageBytes(profile().eager_bytes));
  if (!ring.ok()) return ring.status();
  receiver_.set_ring(*std::move(ring));
  peers_.emplace(
      &*av_, [this] { return operations().Uses(); }, kPeerRetirementTicks);
  return slots_.Open([this](HostBuffer buffer) { return RegisterSource(std::move(buffer)); });
}

absl::StatusOr<MemoryRegion> Reactor::Register(HostBuffer buffer, RegionUse use) {
  if (use == RegionUse::kRemoteTarget) {
    if (absl::Status room = quarantine().HasRoom(); !room.ok()) return room;
  }
  absl::StatusOr<MemoryRegion> region =
      MemoryRegion::Register(fabric_, domain_, *endpoint_, std::move(buffer), use);
  if (!region.ok() || use != RegionUse::kRemoteTarget) return region;
  absl::StatusOr<RegionListing> listing =
      regions().Insert(region->key(), region->data(), region->size(), RegionRole::kWindow);
  if (!listing.ok()) return listing.status();
  region->set_listing(*std::move(listing));
  return region;
}

void Reactor::Retire(MemoryRegion region, std::shared_ptr<const void> share) {
  if (endpoint_->lost()) share = nullptr;
  retired_.Retire(std::move(region), std::move(share), operations(), MonotonicNs());
}

int Reactor::Poll() {
  turn_.Begin();
  ++counters_.turns;
  fi_cq_data_entry entries[kMostEvents];
  const ssize_t count = cq_->Read(entries, kMostEvents);
  int taken = 0;
  if (count > 0) {
    waker_.NoteCompletion();
    taken = static_cast<int>(count);
    for (int i = 0; i < taken; ++i) {
      turn_.set_entries_left(taken - i - 1);
      HandleEntry(entries[i]);
    }
  } else if (ABSL_PREDICT_FALSE(count < 0 && count != -FI_EAGAIN)) {
    HandleErrors(count);
  } else {
    // A provider looks into memory that its peers write, and may take a lock there that a peer
    // needs in order to post. A driver that polls without a pause keeps both from them.
    CpuRelax();
  }
  if (ABSL_PREDICT_FALSE(waker_.HasTasks())) waker_.RunTasks();
  if (ABSL_PREDICT_FALSE(turn_.End())) SlowTurn();
  return taken;
}

int Reactor::PollIfReady() {
  // Each read may accept a connection, and a check may be behind many.
  if (awaits_check()) return Poll();
  if (!waker_.MayHaveEvents(counters_.posts)) return 0;
  const int events = Poll();
  const bool asks =
      events == 0 && retries_.empty() && waker_.NoteEmpty(counters_.posts, 2 * DriverTurn::kTickNs);
  if (asks) turn_.MakeNextSlow();  // it comes a tick later
  return events;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline void Reactor::HandleEntry(const fi_cq_data_entry& entry) {
  // A provider may set FI_REMOTE_CQ_DATA on unrelated entries, which have FI_RECV. Some keep the
  // flag on the writer's own entry, too.
  constexpr uint64_t kFlags = FI_RECV | FI_REMOTE_CQ_DATA | FI_WRITE;
  if ((entry.flags & kFlags) == FI_REMOTE_CQ_DATA) {
    // Up to the layer above: only a session knows which call the bytes belong to, and it answers
    // within this turn.
    if (ABSL_PREDICT_TRUE(entry.data != kPieceData)) handler_->OnToken(entry.data);
    return;
  }
  if ((entry.flags & FI_RECV) != 0) {
    const auto token = receiver_.TakeReceive(entry.op_context, entry.len, &counters_);
    // Up for the same reason: the message has put the bytes in place.
    if (token.has_value()) handler_->OnToken(*token);
    return;
  }
  Operation* operation = slots_.pool().FromContext(entry.op_context);
  if (ABSL_PREDICT_FALSE(operation == nullptr)) return HandleForeign(entry);
  HandleCompletion(operation);
}

// Handles an entry that belongs to none of our operations. A provider may say FI_WRITE of a peer's
// write as well, and then gives it no context.
ABSL_ATTRIBUTE_NOINLINE void Reactor::HandleForeign(const fi_cq_data_entry& entry) {
  if (entry.op_context != nullptr || (entry.flags & FI_REMOTE_CQ_DATA) == 0) {
    ++counters_.stray_completions;
  } else if (entry.data != kPieceData) {
    handler_->OnToken(entry.data);
  }
}

inline void Reactor::HandleCompletion(Operation* operation) {
  ++counters_.completions;
  if (operation->completions_due > 0) --operation->completions_due;
  if (operation->completions_due > 0 || operation->queued) return;
  if (Notifier::HasNextStep(*operation) && operation->owner != nullptr) {
    PostLater(operation);
  } else {
    slots_.pool().Release(operation);
  }
}

void Reactor::HandleErrors(ssize_t code) {
  if (endpoint_->lost()) return HandleLostEndpoint();
  if (code != -FI_EAVAIL) return GiveUp(ToStatus("fi_cq_read", code));
  CompletionError error;
  while (cq_->ReadError(&error)) {
    ++counters_.completion_errors;
    if (error.code == FI_EOVERRUN) {
      health_ = absl::DataLossError(
          "the completion queue overran: notifications of peers may be lost, so every session on "
          "this endpoint ends");
      return;
    }
    if (Operation* operation = slots_.pool().FromContext(error.context); operation != nullptr) {
      ++counters_.completions;
      Fail(operation, ToStatus(error.text.empty() ? "completion"
                                                  : absl::StrCat("completion (", error.text, ")"),
                               error.code));
      if (operation->completions_due > 0) --operation->completions_due;
      ReleaseIfDone(operation);
    } else if (!receiver_.TakeFailure(error.context)) {
      ++counters_.stray_completions;
    }
  }
}

void Reactor::HandleLostEndpoint() {
  if (!health_.ok()) return;
  RemoveFileOf(endpoint_->address());
  // The flag itself stays, since another thread may be asleep on it.
  RemoveFilesBeside(endpoint_->address());
  // This memory stays until the process ends. Other reactors' shares do not stay with it.
  retired_.DropShares();
  health_ = absl::UnavailableError(
      "a peer was killed or stopped while it had the lock of this endpoint's queue, which nobody "
      "can use any more, so every session on it ends");
}

void Reactor::SlowTurn() {
  const int64_t now_ns = MonotonicNs();
  if (!retries_.empty()) RunRetries(now_ns);
  if (!turn_.TakeTick(now_ns)) return;
  receiver_.Replenish();
  counters_.stray_messages += endpoint_->TakeFaults();
  const absl::Status slots = slots_.Replace(
      now_ns, [this](HostBuffer buffer) { return RegisterSource(std::move(buffer)); });
  if (!slots.ok()) GiveUp(slots);
  LookForStall(now_ns);
  peers_->RemoveIdle();
  retired_.ReleaseDue(now_ns, operations());
  // Up to the layer above: deadlines are the sessions', and they have no timer but this one.
  handler_->OnTick(now_ns);
}

void Reactor::LookForStall(int64_t now_ns) {
  const OperationPool& pool = operations();
  StallDetector::Counts counts;
  counts.completions = counters_.completions;
  counts.refusals = counters_.posts_refused;
  counts.every_slot_is_posted = retries_.empty() && pool.outstanding() == pool.capacity();
  counts.quarantined = pool.quarantined();
  counts.depth = profile().transmit_depth;
  const std::optional<int64_t> stalled_ns = stalls_.Look(now_ns, counts, [&] {
    StallDetector::Posted posted = {pool.outstanding(), pool.quarantined_completions()};
    retries_.ForEach([&posted](const Operation& refused) {
      if (refused.completions_due == 0) --posted.operations;
    });
    return posted;
  });
  if (!stalled_ns.has_value() || !health_.ok()) return;
  GiveUp(absl::UnavailableError(
      absl::StrCat("the provider completes nothing any more: none of ", pool.outstanding(),
                   " operations, and none of ", pool.quarantined(),
                   " to peers that have gone, has completed for ", *stalled_ns / 1'000'000,
                   " ms, so every session on this endpoint ends")));
}

void Reactor::LetProviderWork() {
  if (DataProgress(*info().domain_attr) == FI_PROGRESS_MANUAL) cq_->Progress();
}

void Reactor::Wait(absl::Duration limit) {
  if (Arm()) Sleep(limit);
  Disarm();
}

void Reactor::Disarm() {
  waker_.Disarm();
  // Its ticks may be late, but they come after the queue has been read.
  turn_.MakeNextSlow();
}

void WaitAny(absl::Span<Reactor* const> reactors, absl::Duration limit) {
  if (reactors.size() == 1) return reactors.front()->Wait(limit);
  absl::InlinedVector<DriverWaker*, 8> armed;
  bool sleep = true;
  for (size_t i = 0; i < reactors.size() && sleep; ++i) {
    armed.push_back(&reactors[i]->waker_);
    sleep = reactors[i]->Arm(DriverWaker::Asleep::kInPoll);
  }
  if (sleep) DriverWaker::SleepOnAll(armed, limit);
  // Also the one that has something to do.
  for (size_t i = 0; i < armed.size(); ++i) reactors[i]->Disarm();
}

}  // namespace invoker::transport
