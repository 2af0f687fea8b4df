#include "src/invoke/session/client_session.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "src/base/probes.h"

namespace invoker {

absl::StatusOr<std::unique_ptr<ClientSession>> ClientSession::Create(transport::Reactor* reactor,
                                                                     const Options& options) {
  absl::StatusOr<WindowGeometry> geometry = WindowGeometry::Make(options.window_bytes);
  if (!geometry.ok()) return geometry.status();
  absl::StatusOr<transport::HostBuffer> buffer =
      transport::HostBuffer::Allocate(options.window_bytes);
  if (!buffer.ok()) return buffer.status();
  absl::StatusOr<transport::MemoryRegion> staging =
      reactor->Register(*std::move(buffer), transport::RegionUse::kSource);
  if (!staging.ok()) return staging.status();
  buffer = reactor->AllocateTarget(options.window_bytes);
  if (!buffer.ok()) return buffer.status();
  absl::StatusOr<transport::MemoryRegion> responses =
      reactor->Register(*std::move(buffer), transport::RegionUse::kRemoteTarget);
  if (!responses.ok()) return responses.status();
  return std::unique_ptr<ClientSession>(
      new ClientSession(reactor, options, *geometry, *std::move(staging), *std::move(responses)));
}

ClientSession::ClientSession(transport::Reactor* reactor, const Options& options,
                             const WindowGeometry& geometry, transport::MemoryRegion staging,
                             transport::MemoryRegion responses)
    : reactor_(reactor),
      options_(options),
      geometry_(geometry),
      calls_(geometry.cells(), options.first_sequence),
      cells_(geometry.cells()),
      sender_(reactor, std::move(staging), geometry),
      reader_(reactor, std::move(responses), geometry, options.number),
      cancellation_(&sender_) {}

ClientSession::~ClientSession() {
  // Before the sender retires the memory that operations send from.
  reactor_->RetireAllOf(this);
  if (peer_ != nullptr) reactor_->peers().Release(peer_);
}

bootstrap::OpenSessionRequest ClientSession::MakeRequest(Notification notification) const {
  bootstrap::OpenSessionRequest request;
  request.endpoint_address = reactor_->address();
  request.response_window = reader_.descriptor();
  request.window_bytes = geometry_.window_bytes();
  request.first_sequence = options_.first_sequence;
  request.response_session = options_.number;
  request.notification = notification;
  request.eager_bytes = reactor_->eager_bytes();
  request.data_auth = options_.data_auth;
  return request;
}

absl::Status ClientSession::Attach(const bootstrap::OpenSessionReply& reply) {
  if (reply.request_window.length < geometry_.window_bytes()) {
    return absl::InternalError(absl::StrCat("the worker's request window has ",
                                            reply.request_window.length, " bytes; ",
                                            geometry_.window_bytes(), " were asked for"));
  }
  if (absl::Status status = AttachAuthenticators(reply); !status.ok()) return status;
  absl::StatusOr<const transport::Peer*> peer = reactor_->peers().Insert(reply.endpoint_address);
  if (!peer.ok()) return peer.status();
  peer_ = *peer;
  sender_.Attach(reply, peer_->address, geometry_,
                 authenticators_ == nullptr ? nullptr : &authenticators_->requests, this);
  reader_.Attach(geometry_, reply.epoch, authenticators_.get());
  return absl::OkStatus();
}

absl::Status ClientSession::AttachAuthenticators(const bootstrap::OpenSessionReply& reply) {
  if (reply.data_auth < options_.data_auth) {
    return absl::FailedPreconditionError(
        absl::StrCat("the client wants data_auth=", DataAuthName(options_.data_auth),
                     " at least, and the worker gives ", DataAuthName(reply.data_auth)));
  }
  data_auth_ = reply.data_auth;
  if (data_auth_ == DataAuth::kOff) return absl::OkStatus();
  transport::HostBuffer copies;
  if (data_auth_ == DataAuth::kFull) {
    absl::StatusOr<transport::HostBuffer> buffer =
        transport::HostBuffer::Allocate(geometry_.window_bytes());
    if (!buffer.ok()) return buffer.status();
    copies = *std::move(buffer);
  }
  geometry_ = geometry_.WithTags();
  authenticators_ =
      std::make_unique<SessionAuthenticators>(data_auth_, reply.data_keys, std::move(copies));
  return absl::OkStatus();
}

Call* ClientSession::Start(const Request& request, bool alone) {
  if (ABSL_PREDICT_FALSE(calls_.at_limit()) && (look_due_ || !calls_.MayBegin())) return nullptr;
  const bool in_buffer = request.cells.cells != 0;
  const HeldCells cells =
      in_buffer ? request.cells : AllocateRequestCells(request.input.size(), request.highest_cells);
  if (cells.cells == 0) return nullptr;
  const uint32_t response_cells =
      geometry_.CellsFor(geometry_.MessageBytes(request.response_capacity));
  const HeldCells response = cells_.AllocateResponse(response_cells, request.highest_cells);
  Call* call = response.cells != 0 ? calls_.Begin(response) : nullptr;
  if (call == nullptr) {
    if (response.cells != 0) FreeResponseCells(response);
    if (!in_buffer) FreeRequestCells(cells);
    return nullptr;
  }
  call->owns_request_cells = !in_buffer;
  call->buffer_busy = request.buffer_busy;
  call->flags = request.flags;
  call->request = cells;
  call->response_capacity = request.response_capacity;
  call->deadline_ns = request.deadline_ns;
  if (call->buffer_busy != nullptr) {
    assert(!*call->buffer_busy);
    *call->buffer_busy = true;
  }
  uint32_t deadline_us = 0;
  if (request.deadline_ns != 0) {
    const int64_t left_us = (request.deadline_ns - transport::MonotonicNs()) / 1000;
    // A deadline that does not fit the field is left out of it: 0 says none.
    deadline_us = left_us > UINT32_MAX ? 0 : static_cast<uint32_t>(std::max<int64_t>(left_us, 1));
    calls_.NoteDeadline(request.deadline_ns);
  }
  meters_.Begin(request, call);
  sender_.Add(request, *call, deadline_us, alone);
  INVOKER_PROBE2(post, call, request.input.size());
  return call;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline void ClientSession::FreeRequest(Call* call) {
  if (call->owns_request_cells) FreeRequestCells(call->request);
  call->owns_request_cells = false;
  if (call->buffer_busy != nullptr) *call->buffer_busy = false;
  call->buffer_busy = nullptr;
}

// The response, or the end of the session, has come: either proves that nothing reads the request's
// cells any more. The response's stay for the caller.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline void ClientSession::End(Call* call) {
  INVOKER_PROBE2(completion, call, call->payload_bytes);
  FreeRequest(call);
  calls_.End(call);
}

void ClientSession::FailCall(Call* call, absl::Status status) {
  meters_.Fail(*call);
  call->status = std::move(status);
  End(call);
}

void ClientSession::TakeLateResponse(Call* call) {
  if (call->marking) {
    call->answered = true;
  } else {
    FreeLate(call);
  }
}

// The response is too late for its caller, but now the cells are free.
void ClientSession::FreeLate(Call* call) {
  FreeRequest(call);
  FreeResponseCells(call->response);
  call->response = HeldCells{};
  calls_.EndLate(call);
}

void ClientSession::TakeFailure(ResponseHeader header, const std::byte* payload, Call* call) {
  const bool ran = header.status == StatusCode::kFunctionFailed ||
                   header.status == StatusCode::kResponseTooLarge ||
                   (header.status == StatusCode::kTransferFailed && header.detail != 0);
  const absl::string_view message(reinterpret_cast<const char*>(payload), header.payload_bytes);
  absl::Status status = WithFate(ToStatus(header.status, header.detail, message),
                                 ran ? CallFate::kExecuted : CallFate::kNotExecuted);
  if (header.status == StatusCode::kFunctionFailed) {
    status = WithFunctionCode(std::move(status), static_cast<int32_t>(header.detail));
  }
  FailCall(call, std::move(status));
}

template <bool kAuthenticated>
ABSL_ATTRIBUTE_ALWAYS_INLINE inline void ClientSession::TakeResponses(uint32_t cell) {
  reader_.Read<kAuthenticated>(
      cell, &calls_, [this](Call* call, const ResponseHeader& header, const std::byte* payload) {
        if (ABSL_PREDICT_FALSE(call->state == Call::State::kTimedOut)) {
          return TakeLateResponse(call);
        }
        call->payload_bytes = header.payload_bytes;
        if (ABSL_PREDICT_FALSE(header.status != StatusCode::kOk)) {
          return TakeFailure(header, payload, call);
        }
        meters_.End(*call, payload);
        End(call);
      });
}

void ClientSession::TakeAuthenticatedResponses(uint32_t cell) { TakeResponses<true>(cell); }

void ClientSession::TakeRareToken(uint64_t token) {
  const std::optional<uint32_t> doorbell = reader_.CompleteHeader(
      token, calls_, sender_.attached() && sender_.batch().repeats_headers());
  if (doorbell.has_value()) OnToken(*doorbell);
}

// Upcall: the reactor calls this from inside Poll, in Turn, for every doorbell of the worker's. The
// responses that it announces end their calls here; their callers see that after the turn.
void ClientSession::OnToken(uint64_t token) {
  if (ABSL_PREDICT_FALSE(!reader_.IsDoorbell(token))) return TakeRareToken(token);
  const uint32_t cell = Immediate::Split(static_cast<uint32_t>(token)).cell;
  if (ABSL_PREDICT_FALSE(reader_.authenticated())) return TakeAuthenticatedResponses(cell);
  TakeResponses<false>(cell);
}

// Upcall: the reactor calls this from inside Poll, in Turn, once in a millisecond or more often.
// Ends calls whose deadlines have passed, and the session if it cannot go on.
void ClientSession::OnTick(int64_t now_ns) {
  if (ABSL_PREDICT_FALSE(now_ns >= look_at_ns_)) {
    look_at_ns_ = INT64_MAX;
    look_due_ = true;
    calls_.StopAtNext();
  }
  // A copy, since Fail takes the failed posts away.
  if (const absl::Status* due = failed_posts_.Due(now_ns); due != nullptr) {
    Fail(absl::Status(*due));
  }
  if (!reactor_->health().ok()) Fail(reactor_->health());
  calls_.EndOverdue(now_ns, [this](Call* call) {
    EndEarly(call, absl::StatusCode::kDeadlineExceeded, "the deadline passed");
  });
}

void ClientSession::EndEarly(Call* call, absl::StatusCode code, absl::string_view what) {
  meters_.Fail(*call);
  const CallFate fate = cancellation_.Withdraw(call);
  const absl::string_view so = fate == CallFate::kNotSent
                                   ? " before the request left; it will not be executed"
                                   : " before the response came; the function may have run";
  calls_.EndEarly(call, WithFate(absl::Status(code, absl::StrCat(what, so)), fate));
}

bool ClientSession::marks_hold_room() const {
  return cancellation_.under_way() > 0 &&
         std::any_of(calls_.slots().begin(), calls_.slots().end(),
                     [](const Call& call) { return call.answered; });
}

void ClientSession::OnTransferDone(uint64_t tag) {
  Call* const call = &calls_.slots()[RequestSender::IndexOfMark(tag)];
  cancellation_.Landed(call);
  if (call->answered) FreeLate(call);
}

void ClientSession::OnOperationFailed(const transport::Operation& operation,
                                      const absl::Status& status) {
  // Nothing due means that the peer has not been told: either nothing was posted, or the bytes are
  // there and the token is not.
  const CallFate fate =
      operation.completions_due == 0 ? CallFate::kNotSent : CallFate::kMaybeExecuted;
  // A mark carries no request.
  const bool mark = RequestSender::IsMark(operation.tag);
  failed_posts_.Add(
      {mark ? CellRun() : CellRun::FromTag(operation.tag), fate,
       absl::UnavailableError(absl::StrCat("cannot write to the worker: ", status.message()))});
}

void ClientSession::Fail(const absl::Status& reason) {
  if (!failure_.ok()) return;
  failure_ = refusal_ = reason;
  last_byte_ = sender_.last_byte();
  std::vector<CallFate> fates;
  for (const Call& call : calls_.slots()) {
    const bool outstanding = call.state == Call::State::kOutstanding;
    fates.push_back(outstanding && !sender_.HasLeft(call.request.first) ? CallFate::kNotSent
                                                                        : CallFate::kMaybeExecuted);
    if (call.buffer_busy != nullptr) failed_with_buffers_ = true;
  }
  // Requests that have not left stay here, and responses that still come are dropped.
  reactor_->RetireAllOf(this);
  calls_.ForgetResponses();
  for (const FailedPosts::Post& failed : failed_posts_.Take()) {
    for (Call& call : calls_.slots()) {
      if (failed.run.Contains(call.request.first)) fates[call.index] = failed.fate;
    }
  }
  for (Call& call : calls_.slots()) {
    if (call.state == Call::State::kOutstanding) {
      FailCall(&call, WithFate(reason, fates[call.index]));
    }
  }
}

void ClientSession::ReleaseBuffer(HeldCells cells, const bool* busy) {
  if (!*busy) return FreeRequestCells(cells);
  for (Call& call : calls_.slots()) {
    if (call.buffer_busy != busy) continue;
    call.buffer_busy = nullptr;
    call.owns_request_cells = true;
  }
}

void ClientSession::ForgetBusy(const bool* busy) {
  for (Call& call : calls_.slots()) {
    if (call.buffer_busy == busy) call.buffer_busy = nullptr;
  }
}

PathView ClientSession::ViewPath(uint64_t known_answers) const {
  PathView view;
  view.answers = answers();
  view.turns = reactor_->counters().turns;
  view.under_way = !answered() && failure_.ok();
  if (!view.under_way || view.answers != known_answers) return view;
  uint64_t longest_ago = 0;
  for (const Call& call : calls_.slots()) {
    if (call.state != Call::State::kOutstanding && call.state != Call::State::kTimedOut) continue;
    longest_ago = std::max(longest_ago, calls_.next_sequence() - call.sequence);
    view.bytes += (uint64_t{call.request.cells} + call.response.cells) * geometry_.cell_bytes();
  }
  view.oldest = calls_.next_sequence() - longest_ago;
  return view;
}

}  // namespace invoker
