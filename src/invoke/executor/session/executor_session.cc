#include "src/invoke/executor/session/executor_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "src/base/fork_guard.h"

namespace invoker {
namespace {

// What of a turn counts as long: letting the provider work once more is nothing beside it.
constexpr int64_t kLongNs = 1'000'000;

transport::RemoteWindow ResponseWindow(const transport::Peer* peer,
                                       const bootstrap::OpenSessionRequest& request) {
  const bootstrap::WindowDescriptor& window = request.response_window;
  return {peer->address, window.base, window.length, window.key, request.eager_bytes};
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
  absl::StatusOr<DoorbellQueue> waiting = DoorbellQueue::Allocate(geometry->cells());
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
    : parts_(std::move(parts)),
      watched_as_(ExecutorWatch::SessionOf(parts_.epoch)),
      peer_(peer),
      geometry_(geometry),
      requests_(std::move(requests)),
      staging_(std::move(staging)),
      responses_(parts_.reactor, &staging_, ResponseWindow(peer, request), geometry,
                 request.response_session,
                 transport::GetNotifier(parts_.notification, parts_.reactor->profile().send_order),
                 this),
      control_(parts_.reactor),
      authenticators_(std::move(authenticators)),
      windows_(parts_.bulk_budget == nullptr
                   ? nullptr
                   : std::make_shared<SessionWindows>(peer->address, parts_.reactor->profile())),
      sequences_(parts_.first_sequence),
      waiting_(std::move(waiting)) {}

ExecutorSession::~ExecutorSession() {
  bulk_.reset();
  parts_.reactor->Disown(this);
  parts_.reactor->Retire(std::move(requests_));
  parts_.reactor->Retire(std::move(staging_));
  parts_.reactor->peers().Release(peer_);
}

bootstrap::WindowDescriptor ExecutorSession::request_window() const {
  return {requests_.remote_base(), requests_.size(), requests_.key()};
}

void ExecutorSession::SetNotification(transport::Notification notification) {
  parts_.notification = notification;
  responses_.set_notifier(
      transport::GetNotifier(notification, parts_.reactor->profile().send_order));
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline void ExecutorSession::Respond(const RequestHeader& request,
                                                                  StatusCode status,
                                                                  uint32_t payload_bytes,
                                                                  uint32_t detail) {
  ResponseHeader header;
  header.status = status;
  header.payload_bytes = payload_bytes;
  header.sequence = request.sequence;
  header.epoch = parts_.epoch;
  header.detail = detail;
  const bool first = !responses_.pending();
  const auto message_bytes = static_cast<uint32_t>(geometry_.MessageBytes(payload_bytes));
  if (ABSL_PREDICT_TRUE(responses_.IsPlain(message_bytes))) {
    Pack(header).CopyTo(staging_.data() + geometry_.OffsetOf(request.response_cell));
    responses_.Add(MessageKind::kResponse, request.response_cell, message_bytes);
  } else {
    AddSpecial(header, request.response_cell);
  }
  if (first) pending_since_ns_ = clock_ns_;
}

void ExecutorSession::RespondTo(const RequestHeader& request, StatusCode status,
                                uint32_t payload_bytes, uint32_t detail) {
  Respond(request, status, payload_bytes, detail);
}

void ExecutorSession::Refuse(RequestHeader request, StatusCode status, absl::string_view message) {
  ++counters_.refused;
  const uint32_t bytes =
      static_cast<uint32_t>(std::min<uint64_t>(message.size(), request.response_capacity));
  memcpy(staging_.data() + geometry_.OffsetOf(request.response_cell) + kHeaderBytes, message.data(),
         bytes);
  Respond(request, status, bytes, 0);
}

// A function that is not for this client is answered as one that is not there.
void ExecutorSession::RefuseUnknown(RequestHeader request) {
  const bool there = parts_.functions->Find(request.function_id) != nullptr;
  Drop(there ? &DropCounters::forbidden : &DropCounters::unknown_function);
  Refuse(request, StatusCode::kUnknownFunction,
         absl::StrCat("the worker has no function with id ", request.function_id, "; it has ",
                      parts_.functions->size()));
}

// The function has run, and has not succeeded.
void ExecutorSession::RespondFailure(RequestHeader request) {
  const CallOutcome& outcome = failed_;
  if (outcome.kind == CallOutcome::Kind::kOutputTooSmall) {
    Respond(request, StatusCode::kResponseTooLarge, 0,
            static_cast<uint32_t>(std::min<uint64_t>(outcome.output_needed, UINT32_MAX)));
  } else {
    const uint32_t bytes =
        static_cast<uint32_t>(std::min<uint64_t>(outcome.error_size, request.response_capacity));
    memcpy(staging_.data() + geometry_.OffsetOf(request.response_cell) + kHeaderBytes,
           error_text_.data(), bytes);
    counters_.bytes_out += bytes;
    Respond(request, StatusCode::kFunctionFailed, bytes, static_cast<uint32_t>(outcome.code));
  }
  error_text_.fill(0);
}

void ExecutorSession::Drop(uint64_t DropCounters::*reason) {
  ++(counters_.dropped.*reason);
  if (parts_.dropped != nullptr) CountShared(reason, 1, parts_.dropped);
}

bool ExecutorSession::CountVerdict(SequenceWindow::Verdict verdict) {
  switch (verdict) {
    case SequenceWindow::Verdict::kNew:
      return true;
    case SequenceWindow::Verdict::kReplayed:
      Drop(&DropCounters::replayed);
      return false;
    case SequenceWindow::Verdict::kTooOld:
    case SequenceWindow::Verdict::kTooFar:
      Drop(&DropCounters::stale_sequence);
      return false;
  }
  return false;
}

bool ExecutorSession::AsksForMore(RequestHeader request, const std::byte* payload) const {
  const FunctionEntry* function = FindFunction(request.function_id);
  return function != nullptr && function->asks_for_more != nullptr &&
         function->asks_for_more(
             {reinterpret_cast<const uint8_t*>(payload), request.payload_bytes});
}

// Whether the tag is right. The cheap question first: a doorbell that is rung again for a message
// that has been served costs no look at its payload.
const std::byte* ExecutorSession::OpenAuthenticated(HeaderSnapshot snapshot, uint64_t sequence,
                                                    uint32_t payload_bytes,
                                                    const std::byte* payload) {
  if (!CountVerdict(sequences_.Judge(sequence))) return nullptr;
  const std::byte* opened = authenticators_->requests.Open(snapshot, payload, payload_bytes,
                                                           authenticators_->copies.data());
  if (opened == nullptr) Drop(&DropCounters::bad_tag);
  return opened;
}

// The input of a bulk call that comes in its message, to be read after other messages have been
// opened. Messages that are under way lie beside one another, and so do these.
const std::byte* ExecutorSession::KeepInput(const RequestHeader& header, const std::byte* payload,
                                            uint32_t cell) {
  if (authenticators_ == nullptr || authenticators_->copies.data() == nullptr) return payload;
  std::byte* kept = authenticators_->copies.data() + geometry_.window_bytes() +
                    geometry_.OffsetOf(cell) + kHeaderBytes;
  memcpy(kept, payload, header.payload_bytes);
  return kept;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline bool ExecutorSession::Admit(const HeaderSnapshot& snapshot,
                                                                const RequestHeader& header,
                                                                const std::byte** payload) {
  if (header.epoch != parts_.epoch) {
    Drop(&DropCounters::wrong_epoch);
    return false;
  }
  if (!geometry_.Fits(header.response_cell, geometry_.MessageBytes(header.response_capacity))) {
    Drop(&DropCounters::bad_response_run);
    return false;
  }
  if (ABSL_PREDICT_FALSE(authenticators_ != nullptr)) {
    *payload = OpenAuthenticated(snapshot, header.sequence, header.payload_bytes, *payload);
    if (*payload == nullptr) return false;
  }
  return CountVerdict(sequences_.Accept(header.sequence));
}

// Whether a function that has always been tiny runs without a look at the clock; only so many in a
// row, so that together they are not slow.
bool ExecutorSession::Unclocked(uint16_t function_id, uint32_t deadline_us) {
  constexpr uint32_t kMostUnclocked = 16;
  if (deadline_us != 0 || unclocked_ >= kMostUnclocked || !parts_.times->IsTiny(function_id)) {
    unclocked_ = 0;
    return false;
  }
  ++unclocked_;
  return true;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline void ExecutorSession::Run(const RequestHeader& header,
                                                              const std::byte* payload,
                                                              const std::byte* flags) {
  std::byte* output = staging_.data() + geometry_.OffsetOf(header.response_cell) + kHeaderBytes;
  if (ABSL_PREDICT_FALSE(header.kind == MessageKind::kProbe)) {
    AnswerProbe(header, payload);
    return;
  }
  if (ABSL_PREDICT_FALSE(parts_.draining->load(std::memory_order_relaxed)) &&
      !AsksForMore(header, payload)) {
    Refuse(header, StatusCode::kDraining, kTakesNoMoreCalls);
    return;
  }
  const FunctionEntry* function = FindFunction(header.function_id);
  if (ABSL_PREDICT_FALSE(function == nullptr)) {
    RefuseUnknown(header);
    return;
  }
  // The clock is looked at only where others of this turn may have run before this one: alone, it
  // holds nothing up.
  const bool clocked = (responses_.pending() || (header.deadline_us != 0 && turn_began_ns_ != 0)) &&
                       !Unclocked(header.function_id, header.deadline_us);
  if (clocked) {
    if (!clock_is_now_) clock_ns_ = transport::MonotonicNs();
    const bool after_long =
        clock_ns_ - std::max(turn_began_ns_, quantum_began_ns_) > kLongNs && turn_began_ns_ != 0;
    if (ABSL_PREDICT_FALSE(after_long) && WasCancelledMeanwhile(flags)) {
      return Refuse(header, StatusCode::kCancelled, "");
    }
    if (responses_.pending() &&
        (clock_ns_ - pending_since_ns_ > kCoalesceNs || parts_.times->IsSlow(header.function_id))) {
      responses_.Flush();
      // Posting takes its time too.
      clock_ns_ = transport::MonotonicNs();
    }
    if (header.deadline_us != 0 && turn_began_ns_ != 0 &&
        clock_ns_ - turn_began_ns_ > int64_t{header.deadline_us} * 1000) {
      Refuse(header, StatusCode::kDeadlineExpired,
             "the deadline passed before the function could begin; it did not run");
      return;
    }
  }
  control_.Begin(flags, ABSL_PREDICT_TRUE(header.deadline_us == 0)
                            ? 0
                            : DeadlineOf(header.deadline_us, clocked));
  parts_.watch->Begin(watched_as_, header.function_id, counters_.executed);
  const int64_t output_size = RunFunctionCleared(
      *function, {reinterpret_cast<const uint8_t*>(payload), header.payload_bytes},
      {reinterpret_cast<uint8_t*>(output), header.response_capacity}, absl::MakeSpan(error_text_),
      &failed_, &InvokerAskCancelled, &control_);
  EndForkedChild();
  parts_.watch->End();
  ++counters_.executed;
  counters_.bytes_in += header.payload_bytes;
  clock_is_now_ = clocked;
  if (clocked) {
    const int64_t began_ns = clock_ns_;
    clock_ns_ = transport::MonotonicNs();
    parts_.times->Add(header.function_id, clock_ns_ - began_ns);
  }
  if (ABSL_PREDICT_FALSE(output_size < 0)) {
    RespondFailure(header);
    return;
  }
  counters_.bytes_out += static_cast<uint64_t>(output_size);
  Respond(header, StatusCode::kOk, static_cast<uint32_t>(output_size), 0);
}

// When a function that begins now is to have ended. What came with others has waited since the turn
// began.
int64_t ExecutorSession::DeadlineOf(uint32_t deadline_us, bool clocked) const {
  const int64_t now_ns = clocked ? clock_ns_ : transport::MonotonicNs();
  const int64_t since_ns = turn_began_ns_ != 0 ? turn_began_ns_ : now_ns;
  return since_ns + int64_t{deadline_us} * 1000;
}

// Others of this turn have run for long, and their clients may have lost patience meanwhile.
bool ExecutorSession::WasCancelledMeanwhile(const std::byte* flags) {
  parts_.reactor->LetProviderWork();
  return IsMarkedCancelled(flags);
}

void ExecutorSession::RunOther(RequestHeader header, const std::byte* payload, uint32_t cell) {
  if ((header.flags & kCancelled) != 0) {
    Refuse(header, StatusCode::kCancelled, "");
  } else {
    StartBulk(header, KeepInput(header, payload, cell), cell);
  }
}

void ExecutorSession::OnDoorbell(MessageKind kind, uint32_t cell, int64_t turn_began_ns) {
  turn_began_ns_ = turn_began_ns;
  clock_ns_ = std::max(clock_ns_, turn_began_ns);
  while (true) {
    --quantum_left_;
    if (!geometry_.Fits(cell, kHeaderBytes)) {
      Drop(&DropCounters::outside_window);
      return;
    }
    const std::byte* message = requests_.data() + geometry_.OffsetOf(cell);
    RequestHeader header;
    const HeaderSnapshot snapshot = HeaderSnapshot::Take(message);
    if (DecodeRequest(snapshot, &header) != WireError::kNone) {
      Drop(&DropCounters::not_a_header);
      return;
    }
    if (header.kind != kind) {
      Drop(&DropCounters::kind_mismatch);
      return;
    }
    const uint64_t message_bytes = geometry_.MessageBytes(header.payload_bytes);
    if (!geometry_.Fits(cell, message_bytes)) {
      Drop(&DropCounters::outside_window);
      return;
    }
    const bool more = (header.flags & kMoreFollows) != 0;
    if (more && turn_began_ns_ == 0) turn_began_ns_ = clock_ns_ = transport::MonotonicNs();
    const std::byte* payload = message + kHeaderBytes;
    if (Admit(snapshot, header, &payload)) {
      if (ABSL_PREDICT_TRUE((header.flags & (kBulk | kCancelled)) == 0)) {
        Run(header, payload, message + kFlagsOffset);
      } else {
        RunOther(header, payload, cell);
      }
    }
    if (ABSL_PREDICT_TRUE(!more)) return;
    cell += geometry_.CellsFor(message_bytes);
    if (QuantumIsOver()) return LeaveRest(kind, cell);
  }
}

void ExecutorSession::Publish(const TickScale& scale, UsageCounters* sum) {
  unpublished_ = false;
  UsageCounters now = published_;
  now.calls = counters_.executed;
  now.bytes_in = counters_.bytes_in;
  now.bytes_out = counters_.bytes_out;
  const uint64_t busy_ns = scale.ToNs(counters_.busy_ticks - scaled_ticks_);
  now.function_ns += busy_ns;
  scaled_ticks_ = counters_.busy_ticks;
  sum->calls += now.calls - published_.calls;
  sum->function_ns += busy_ns;
  sum->bytes_in += now.bytes_in - published_.bytes_in;
  sum->bytes_out += now.bytes_out - published_.bytes_out;
  published_ = now;
  if (parts_.meter != nullptr) parts_.meter->Set(now);
}

void ExecutorSession::OnOperationFailed(const transport::Operation& operation,
                                        const absl::Status& status) {
  static_cast<void>(operation);
  Fail(absl::Status(status.code(), absl::StrCat("cannot write to the client: ", status.message())));
}

void ExecutorSession::Fail(const absl::Status& reason) {
  if (!failure_.ok()) return;
  failure_ = reason;
  if (parts_.failed != nullptr) parts_.failed->push_back(parts_.number);
}

}  // namespace invoker
