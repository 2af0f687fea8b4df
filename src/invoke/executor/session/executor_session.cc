#include "src/invoke/executor/session/executor_session.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "src/base/probes.h"

namespace invoker {
namespace {

// After so long a time in one turn, letting the provider work once more costs nothing by
// comparison.
constexpr int64_t kLongNs = 1'000'000;

ResponseWriter::Parts WriterParts(const ExecutorSession::Parts& parts, const transport::Peer* peer,
                                  const bootstrap::OpenSessionRequest& request) {
  const bootstrap::WindowDescriptor& window = request.response_window;
  ResponseWriter::Parts writer;
  writer.reactor = parts.reactor;
  writer.window = {peer->address, window.base, window.length, window.key, request.eager_bytes};
  writer.session = request.response_session;
  writer.epoch = parts.epoch;
  writer.notification = parts.notification;
  writer.client_address = request.endpoint_address;
  return writer;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExecutorSession>> ExecutorSession::Open(
    Parts parts, const bootstrap::OpenSessionRequest& request) {
  absl::StatusOr<WindowGeometry> geometry = WindowGeometry::Make(request.window_bytes);
  if (!geometry.ok()) return geometry.status();
  std::unique_ptr<SessionAuthenticators> authenticators;
  if (parts.data_auth != DataAuth::kOff) {
    geometry = geometry->WithTags();
    transport::HostBuffer copies;
    if (parts.data_auth == DataAuth::kFull) {
      absl::StatusOr<transport::HostBuffer> buffer =
          transport::HostBuffer::Allocate(2 * request.window_bytes);
      if (!buffer.ok()) return buffer.status();
      copies = *std::move(buffer);
    }
    authenticators = std::make_unique<SessionAuthenticators>(parts.data_auth, parts.data_keys,
                                                             std::move(copies));
    Wipe(&parts.data_keys);
  }
  absl::StatusOr<DoorbellQueue> waiting = DoorbellQueue::Allocate(geometry->cells(), parts.watch);
  if (!waiting.ok()) return waiting.status();
  transport::Reactor* reactor = parts.reactor;
  absl::StatusOr<transport::MemoryRegion> requests =
      reactor->Register(std::move(parts.request_window), transport::RegionUse::kRemoteTarget);
  if (!requests.ok()) return requests.status();
  absl::StatusOr<transport::MemoryRegion> staging =
      reactor->Register(std::move(parts.response_staging), transport::RegionUse::kSource);
  if (!staging.ok()) return staging.status();
  absl::StatusOr<const transport::Peer*> peer = reactor->peers().Insert(request.endpoint_address);
  if (!peer.ok()) return peer.status();
  return std::unique_ptr<ExecutorSession>(
      new ExecutorSession(std::move(parts), *peer, *std::move(requests), *std::move(staging),
                          request, *geometry, std::move(authenticators), *std::move(waiting)));
}

ExecutorSession::ExecutorSession(Parts parts, const transport::Peer* peer,
                                 transport::MemoryRegion requests, transport::MemoryRegion staging,
                                 const bootstrap::OpenSessionRequest& request,
                                 const WindowGeometry& geometry,
                                 std::unique_ptr<SessionAuthenticators> authenticators,
                                 DoorbellQueue waiting)
    : reactor_(parts.reactor),
      peer_(peer),
      draining_(parts.draining),
      times_(parts.times),
      unfinished_(parts.unfinished),
      ring_(parts.ring),
      failed_(parts.failed),
      number_(parts.number),
      authenticators_(std::move(authenticators)),
      usage_(parts.dropped, std::move(parts.meter), parts.function_meters, parts.scale),
      waiting_(std::move(waiting)),
      requests_(std::move(requests), geometry, parts.epoch, parts.first_sequence,
                authenticators_.get()),
      functions_(parts.functions, std::move(parts.filter), parts.watch, parts.epoch, parts.reactor,
                 std::move(parts.tenant), parts.deferred, parts.store),
      responses_(WriterParts(parts, peer, request), std::move(staging), geometry, this, &usage_,
                 authenticators_.get()),
      deferrals_(&functions_, &usage_, [this] { CallContinue(); }),
      bulk_(parts.reactor, parts.bulk_budget, peer->address, &functions_, &responses_, &usage_,
            &deferrals_, parts.store.get()),
      store_(std::move(parts.store)) {
  // An honest client's requests fit into one window, and their responses into the other.
  const uint64_t of_bulk = parts.bulk_budget == nullptr ? 0 : parts.bulk_budget->limit();
  functions_.control().CountFailuresIn(&usage_, parts.watch);
  functions_.control().set_most_deferred_bytes(2 * geometry.window_bytes() + of_bulk);
}

ExecutorSession::~ExecutorSession() {
  bulk_.Clear();
  reactor_->RetireAllOf(this);
  reactor_->Retire(requests_.TakeWindow());
  reactor_->Retire(responses_.TakeStaging());
  reactor_->peers().Release(peer_);
}

void ExecutorSession::Refuse(RequestHeader header, StatusCode status, absl::string_view message) {
  responses_.Refuse(header, status, message, turn_.clock_ns());
}

// A function that is not for this client is answered like one that does not exist.
void ExecutorSession::RefuseUnknown(RequestHeader header) {
  const FunctionRegistry& functions = functions_.functions();
  const bool exists = functions.Find(header.function_id) != nullptr;
  usage_.CountDrop(exists ? &DropCounters::forbidden : &DropCounters::unknown_function);
  Refuse(header, StatusCode::kUnknownFunction,
         absl::StrCat("the worker has no function with id ", header.function_id, "; it has ",
                      functions.size()));
}

void ExecutorSession::RespondFailure(RequestHeader header, const std::byte* flags) {
  usage_.CountRun(header.function_id, header.payload_bytes);
  if (deferrals_.Keep(header, header.payload_bytes, flags)) return;
  INVOKER_PROBE2(response, header.function_id, int64_t{-1});
  usage_.CountUntimedOf(header.function_id);
  responses_.RespondFailure(header, functions_.failure(), functions_.error(), turn_.clock_ns());
  functions_.ClearError();
}

void ExecutorSession::RunProbe(RequestHeader header, const std::byte* payload) {
  heard_ = true;
  responses_.AnswerProbe(header, payload, turn_.clock_ns());
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline void ExecutorSession::Run(const RequestHeader& header,
                                                              const std::byte* payload,
                                                              const std::byte* flags) {
  if (ABSL_PREDICT_FALSE(header.kind == MessageKind::kProbe)) return RunProbe(header, payload);
  if (ABSL_PREDICT_FALSE(draining()) &&
      !functions_.AsksForMore(header.function_id, payload, header.payload_bytes)) {
    return Refuse(header, StatusCode::kDraining, kTakesNoMoreCalls);
  }
  const FunctionEntry* function = functions_.Find(header.function_id);
  if (ABSL_PREDICT_FALSE(function == nullptr)) return RefuseUnknown(header);
  // A message that is alone holds nothing up, so the clock is not read for it.
  const bool waits = responses_.pending() || (header.deadline_us != 0 && !turn_.alone());
  const bool tiny = waits && turn_.RunsUnclocked(*times_, header.function_id, header.deadline_us);
  const bool clocked = waits && !tiny;
  if (clocked) {
    turn_.UpdateClock();
    const bool after_long = turn_.BusyNs() > kLongNs && !turn_.alone();
    if (ABSL_PREDICT_FALSE(after_long) && WasCancelledMeanwhile(flags)) {
      return Refuse(header, StatusCode::kCancelled, "");
    }
    if (responses_.pending() && (turn_.clock_ns() - responses_.pending_since_ns() > kCoalesceNs ||
                                 times_->IsSlow(header.function_id))) {
      responses_.Flush();
      // Posting takes its time too.
      turn_.ReadClock();
    }
    if (turn_.IsPast(header.deadline_us)) {
      return Refuse(header, StatusCode::kDeadlineExpired,
                    "the deadline passed before the function could begin; it did not run");
    }
  }
  const int64_t deadline_ns = ABSL_PREDICT_TRUE(header.deadline_us == 0)
                                  ? 0
                                  : turn_.DeadlineOf(header.deadline_us, clocked);
  INVOKER_PROBE2(run, header.function_id, header.payload_bytes);
  const int64_t output_size =
      functions_.Run(*function, header.function_id, {payload, header.payload_bytes},
                     responses_.PayloadOf(header), flags, deadline_ns, usage_.counters().executed);
  const int64_t took_ns = turn_.EndRun(clocked);
  if (clocked) times_->Add(header.function_id, took_ns);
  if (ABSL_PREDICT_FALSE(output_size < 0)) return RespondFailure(header, flags);
  INVOKER_PROBE2(response, header.function_id, output_size);
  FunctionMeter* const meter = usage_.CountCall(header.function_id, header.payload_bytes,
                                                static_cast<uint64_t>(output_size));
  if (waits) {
    usage_.CountTime(meter,
                     static_cast<uint64_t>(clocked ? took_ns : times_->Of(header.function_id)));
  } else {
    usage_.CountUntimed(meter);
  }
  responses_.Respond(header, StatusCode::kOk, static_cast<uint32_t>(output_size), 0,
                     turn_.clock_ns());
}

// Other functions of this turn have run for long, and clients may have cancelled calls meanwhile.
bool ExecutorSession::WasCancelledMeanwhile(const std::byte* flags) {
  reactor_->LetProviderWork();
  return IsMarkedCancelled(flags);
}

void ExecutorSession::RunOther(RequestHeader header, const std::byte* payload,
                               const std::byte* flags, uint32_t cell) {
  if ((header.flags & kCancelled) != 0) return Refuse(header, StatusCode::kCancelled, "");
  if (draining()) return Refuse(header, StatusCode::kDraining, kTakesNoMoreCalls);
  if ((header.flags & kStore) != 0) {
    if (!CanStore(header)) return;
    if ((header.flags & kBulk) == 0) return Store(header, payload);
  } else if (functions_.Find(header.function_id) == nullptr) {
    return RefuseUnknown(header);
  }
  const bool started =
      bulk_.Start(header, requests_.Keep(header, payload, cell), flags, transport::MonotonicNs());
  if (started) CallContinue();
}

// Refuses what cannot be done.
bool ExecutorSession::CanStore(const RequestHeader& header) {
  if (store_ != nullptr && header.kind == MessageKind::kRequest) return true;
  usage_.CountDrop(&DropCounters::invalid_request);
  Refuse(header, StatusCode::kInvalidRequest,
         "this executor stores no data: only those of a lease do");
  return false;
}

void ExecutorSession::Store(const RequestHeader& header, const std::byte* payload) {
  const absl::Status status =
      store_->Do(static_cast<StoreOperation>(header.function_id), {payload, header.payload_bytes});
  const int64_t now_ns = turn_.ReadClock();
  if (!status.ok()) return responses_.RefuseStored(header, status, now_ns);
  usage_.CountStored(header.payload_bytes);
  responses_.Respond(header, StatusCode::kOk, 0, 0, now_ns);
}

// Has Continue called in every turn until it is done.
void ExecutorSession::CallContinue() {
  if (unfinished_ != nullptr &&
      std::find(unfinished_->begin(), unfinished_->end(), number_) == unfinished_->end()) {
    unfinished_->push_back(number_);
  }
}

void ExecutorSession::AnswerDeferred(DeferredCall* call) {
  const RequestHeader& header = call->header();
  const int64_t now_ns = turn_.ReadClock();
  if ((header.flags & kBulk) != 0) return bulk_.FinishDeferred(call, now_ns);
  const absl::Span<const std::byte> output =
      SessionDeferrals::OutputOrAnswer(call, &responses_, now_ns);
  if (output.data() == nullptr) return;
  if (!output.empty()) memcpy(responses_.PayloadOf(header).data(), output.data(), output.size());
  usage_.CountOutput(header.function_id, output.size());
  responses_.Respond(header, StatusCode::kOk, static_cast<uint32_t>(output.size()), 0, now_ns);
}

void ExecutorSession::OnDoorbell(MessageKind kind, uint32_t cell, int64_t turn_began_ns) {
  turn_.BeginWrite(turn_began_ns);
  while (true) {
    turn_.CountMessage();
    RequestReader::Request request;
    const RequestReader::Drop drop = requests_.Read(kind, cell, &request);
    if (request.more) turn_.EndAlone();
    if (ABSL_PREDICT_FALSE(drop != nullptr)) {
      usage_.CountDrop(drop);
    } else if (ABSL_PREDICT_TRUE((request.header.flags & (kBulk | kCancelled | kStore)) == 0)) {
      Run(request.header, request.payload, request.flags);
    } else {
      RunOther(request.header, request.payload, request.flags, cell);
    }
    if (ABSL_PREDICT_TRUE(!request.more)) return;
    cell = requests_.CellAfter(cell, request.header);
    if (turn_.IsOver()) return LeaveRest(kind, cell);
  }
}

bool ExecutorSession::RestoreSequence(uint32_t cell, uint32_t upper) {
  const RequestReader::Drop drop = responses_.batch().repeats_headers()
                                       ? requests_.RestoreSequence(cell, upper)
                                       : &DropCounters::not_a_header;
  if (drop != nullptr) usage_.CountDrop(drop);
  return drop == nullptr;
}

// The rest of the write at hand, from `cell` on, goes before all that waits already.
void ExecutorSession::LeaveRest(MessageKind kind, uint32_t cell) {
  if (!requests_.HasCell(cell)) return usage_.CountDrop(&DropCounters::outside_window);
  waiting_.PushFront({kind, cell, turn_.others_since_ns()});
  ring_->Join(this);
}

void ExecutorSession::Wait(MessageKind kind, uint32_t cell, int64_t arrived_ns) {
  if (!requests_.HasCell(cell)) return usage_.CountDrop(&DropCounters::outside_window);
  waiting_.Push({kind, cell, arrived_ns});
  ring_->Join(this);
}

int32_t ExecutorSession::Serve() {
  assert(!waiting_.empty());
  turn_.BeginWaited();
  bool over = false;
  while (!over && !waiting_.empty()) {
    const DoorbellQueue::Doorbell doorbell = waiting_.Pop();
    OnDoorbell(doorbell.kind, doorbell.cell, doorbell.arrived_ns);
    over = turn_.IsOver();
  }
  if (!waiting_.empty()) ring_->Join(this);
  return over ? kQuantumCalls : kQuantumCalls - turn_.calls_left();
}

ExecutorSession::Progress ExecutorSession::Continue() {
  bool moved = false;
  for (const std::shared_ptr<DeferredCall>& call : deferrals_.Take()) AnswerDeferred(call.get());
  if (bulk_.active()) {
    moved = bulk_.Continue(turn_.ReadClock(), draining());
    if (bulk_.stalled()) {
      Fail(absl::UnavailableError(
          "the client takes no part in reading or writing its registered memory, or that is not "
          "what it registered"));
    }
  }
  const bool flushed = responses_.Flush();
  if (ABSL_PREDICT_FALSE(!flushed) && responses_.batch().overflowed()) {
    Fail(
        absl::ResourceExhaustedError("the client does not take its responses and has asked for "
                                     "more than it can have under way"));
  }
  if (moved || !flushed) return Progress::kMoving;
  return bulk_.active() ? Progress::kWaiting : Progress::kDone;
}

bootstrap::RequestState ExecutorSession::FindRequest(uint64_t sequence) {
  if (!requests_.Seen(sequence)) {
    // The sequences of messages that wait are not known before their turn.
    return waiting_.empty() ? bootstrap::RequestState::kNotArrived
                            : bootstrap::RequestState::kInHand;
  }
  const bool in_hand =
      bulk_.Has(sequence) || deferrals_.Has(sequence) || responses_.IsHeldUp(sequence);
  return in_hand ? bootstrap::RequestState::kInHand : bootstrap::RequestState::kAnswered;
}

void ExecutorSession::OnOperationFailed(const transport::Operation& operation,
                                        const absl::Status& status) {
  static_cast<void>(operation);
  Fail(absl::Status(status.code(), absl::StrCat("cannot write to the client: ", status.message())));
}

void ExecutorSession::Fail(const absl::Status& reason) {
  if (!failure_.ok()) return;
  failure_ = reason;
  if (failed_ != nullptr) failed_->push_back(number_);
}

}  // namespace invoker
