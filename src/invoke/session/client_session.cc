#include "src/invoke/session/client_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"

namespace invoker {
namespace {

// The executor can tell a replay only this far back, so no more calls than that are under way.
constexpr size_t kMaxCalls = SequenceWindow::kWidth;

}  // namespace

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
      staging_(std::move(staging)),
      responses_(std::move(responses)),
      response_bytes_(responses_.data()),
      request_cells_(geometry.cells()),
      response_cells_(geometry.cells()),
      next_sequence_(options.first_sequence),
      limit_(options.first_sequence + SequenceWindow::kWidth),
      response_mark_(Immediate{MessageKind::kResponse, options.number, 0}.Encode() >> kCellBits),
      by_response_cell_(geometry.cells(), 0) {}

ClientSession::~ClientSession() {
  reactor_->Disown(this);
  reactor_->Retire(std::move(staging_));
  reactor_->Retire(std::move(responses_));
  if (peer_ != nullptr) reactor_->peers().Release(peer_);
}

bootstrap::OpenSessionRequest ClientSession::MakeRequest(
    transport::Notification notification) const {
  bootstrap::OpenSessionRequest request;
  request.endpoint_address = reactor_->address();
  request.response_window = {responses_.remote_base(), responses_.size(), responses_.key()};
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
  epoch_ = reply.epoch;
  notification_ = reply.notification;
  const transport::RemoteWindow window = {peer_->address, reply.request_window.base,
                                          reply.request_window.length, reply.request_window.key,
                                          reply.eager_bytes};
  requests_.emplace(reactor_, &staging_, window, geometry_, reply.request_session,
                    transport::GetNotifier(notification_, reactor_->profile().send_order), this);
  return absl::OkStatus();
}

void ClientSession::SetNotification(transport::Notification notification) {
  notification_ = notification;
  requests_->set_notifier(transport::GetNotifier(notification, reactor_->profile().send_order));
}

// False if there are as many as there may be.
bool ClientSession::AddCall() {
  if (calls_.size() >= kMaxCalls) return false;
  calls_.emplace_back();
  calls_.back().index = static_cast<uint16_t>(calls_.size() - 1);
  by_index_.push_back(&calls_.back());
  free_calls_.push_back(&calls_.back());
  return true;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline Call* ClientSession::AcquireCall() {
  if (ABSL_PREDICT_FALSE(free_calls_.empty()) && !AddCall()) return nullptr;
  Call* call = free_calls_.back();
  free_calls_.pop_back();
  return call;
}

Call* ClientSession::Start(const Request& request, bool alone) {
  if (ABSL_PREDICT_FALSE(next_sequence_ == limit_) && !MayStart()) return nullptr;
  const bool in_buffer = request.cells.cells != 0;
  HeldCells cells = request.cells;
  if (!in_buffer) {
    cells = AllocateRequestCells(request.input.size());
    if (cells.cells == 0) return nullptr;
  }
  const uint32_t response_cells =
      geometry_.CellsFor(geometry_.MessageBytes(request.response_capacity));
  const std::optional<uint32_t> response = response_cells_.Allocate(response_cells);
  Call* call = response.has_value() ? AcquireCall() : nullptr;
  if (call == nullptr) {
    if (response.has_value()) FreeResponseCells({*response, response_cells});
    if (!in_buffer) FreeRequestCells(cells);
    return nullptr;
  }
  call->state = Call::State::kOutstanding;
  call->detached = false;
  call->owns_request_cells = !in_buffer;
  call->buffer_busy = request.buffer_busy;
  call->flags = request.flags;
  call->sequence = next_sequence_++;
  call->request = cells;
  call->response = {*response, response_cells};
  call->response_capacity = request.response_capacity;
  call->deadline_ns = request.deadline_ns;
  if (call->buffer_busy != nullptr) *call->buffer_busy = true;
  by_response_cell_[*response] = call->index + 1;
  ++outstanding_;
  ++changes_;

  uint32_t deadline_us = 0;
  if (request.deadline_ns != 0) {
    const int64_t left_us = (request.deadline_ns - transport::MonotonicNs()) / 1000;
    // What does not fit is further away than the field can say, and 0 says none.
    deadline_us = left_us > UINT32_MAX ? 0 : static_cast<uint32_t>(std::max<int64_t>(left_us, 1));
    if (earliest_deadline_ns_ == 0 || request.deadline_ns < earliest_deadline_ns_) {
      earliest_deadline_ns_ = request.deadline_ns;
    }
  }
  const auto payload_bytes = static_cast<uint32_t>(request.input.size());
  const auto message_bytes = static_cast<uint32_t>(geometry_.MessageBytes(payload_bytes));
  if (ABSL_PREDICT_FALSE(!requests_->IsPlain(message_bytes))) {
    AddSpecial(request, *call, deadline_us, alone);
    return call;
  }
  std::byte* message = staging_.data() + geometry_.OffsetOf(cells.first);
  CopyInput(request, *call, message);
  Pack(HeaderOf(request, *call, deadline_us)).CopyTo(message);
  requests_->Add(request.kind, cells.first, message_bytes);
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
ABSL_ATTRIBUTE_ALWAYS_INLINE inline void ClientSession::Complete(Call* call) {
  call->state = Call::State::kDone;
  --outstanding_;
  ++changes_;
  FreeRequest(call);
  if (call->waiter != nullptr) call->waiter->Wake();
  if (call->on_done) finished_.push_back(call);
}

void ClientSession::TakeLateResponse(Call* call) {
  if (call->marking) {
    call->answered = true;
  } else {
    FreeLate(call);
  }
}

// Too late for its caller, but now the cells are free.
void ClientSession::FreeLate(Call* call) {
  call->answered = false;
  FreeRequest(call);
  FreeResponseCells(call->response);
  call->response = HeldCells{};
  call->state = Call::State::kDone;
  --late_;
  if (call->detached) FreeSlot(call);
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
ABSL_ATTRIBUTE_ALWAYS_INLINE inline bool ClientSession::TakeResponse(const HeaderSnapshot& snapshot,
                                                                     const ResponseHeader& header,
                                                                     uint32_t cell,
                                                                     const std::byte* payload) {
  // A session that has failed has ended its calls already.
  if (ABSL_PREDICT_FALSE(by_response_cell_[cell] == 0 || !failure_.ok())) {
    ++dropped_.no_such_call;
    return false;
  }
  Call* call = by_index_[by_response_cell_[cell] - 1];
  if (ABSL_PREDICT_FALSE(header.epoch != epoch_)) {
    ++dropped_.wrong_epoch;
    return false;
  }
  if (ABSL_PREDICT_FALSE(header.sequence != call->sequence)) {
    ++dropped_.wrong_sequence;
    return false;
  }
  if (ABSL_PREDICT_FALSE(header.payload_bytes > call->response_capacity)) {
    ++dropped_.too_long;
    return false;
  }
  if constexpr (kAuthenticated) {
    payload = OpenAuthenticated(snapshot, header.payload_bytes, cell, payload);
    if (payload == nullptr) return false;
  } else {
    static_cast<void>(snapshot);
  }
  by_response_cell_[cell] = 0;
  ++answers_;
  if (ABSL_PREDICT_FALSE(call->state == Call::State::kTimedOut)) {
    TakeLateResponse(call);
    return true;
  }
  call->payload_bytes = header.payload_bytes;
  if (ABSL_PREDICT_FALSE(header.status != StatusCode::kOk)) {
    TakeFailure(header, payload, call);
  } else {
    Complete(call);
  }
  return true;
}

template <bool kAuthenticated>
ABSL_ATTRIBUTE_ALWAYS_INLINE inline void ClientSession::TakeMessages(uint32_t cell) {
  bool more = true;
  while (more) {
    if (!geometry_.Fits(cell, kHeaderBytes)) {
      ++dropped_.outside_window;
      return;
    }
    const std::byte* message = responses_.data() + geometry_.OffsetOf(cell);
    ResponseHeader header;
    const HeaderSnapshot snapshot = HeaderSnapshot::Take(message);
    if (DecodeResponse(snapshot, &header) != WireError::kNone) {
      ++dropped_.not_a_header;
      return;
    }
    const uint64_t bytes =
        uint64_t{kHeaderBytes} + header.payload_bytes + (kAuthenticated ? kTagBytes : 0);
    // Those behind one that is refused may be sound. Whose length is no reason to refuse it lies in
    // the window.
    if (ABSL_PREDICT_FALSE(
            !TakeResponse<kAuthenticated>(snapshot, header, cell, message + kHeaderBytes)) &&
        !geometry_.Fits(cell, bytes)) {
      return;
    }
    more = (header.flags & kMoreFollows) != 0;
    cell += geometry_.CellsFor(bytes);
  }
}

void ClientSession::TakeAuthenticatedMessages(uint32_t cell) { TakeMessages<true>(cell); }

void ClientSession::OnToken(uint64_t token) {
  if (ABSL_PREDICT_FALSE(token >> kCellBits != response_mark_)) return TakeRareToken(token);
  const uint32_t cell = Immediate::Split(static_cast<uint32_t>(token)).cell;
  if (ABSL_PREDICT_FALSE(authenticators_ != nullptr)) return TakeAuthenticatedMessages(cell);
  TakeMessages<false>(cell);
}

void ClientSession::FailCall(Call* call, absl::Status status) {
  call->status = std::move(status);
  Complete(call);
}

// The caller lets go of a call whose response is still to come.
void ClientSession::Detach(Call* call) {
  call->waiter = nullptr;
  call->on_done = nullptr;
  call->detached = true;
}

void ClientSession::Abandon(Call* call) {
  if (call->state == Call::State::kOutstanding) {
    call->state = Call::State::kTimedOut;
    ++late_;
    --outstanding_;
    ++changes_;
  }
  Finish(call, false);
}

HeldCells ClientSession::AllocateRequestCells(uint64_t payload_bytes) {
  const uint32_t cells = geometry_.CellsFor(geometry_.overhead() + payload_bytes);
  const std::optional<uint32_t> first = request_cells_.Allocate(cells);
  return first.has_value() ? HeldCells{*first, cells} : HeldCells{};
}

void ClientSession::ReleaseBuffer(HeldCells cells, const bool* busy) {
  if (!*busy) {
    FreeRequestCells(cells);
    return;
  }
  for (Call& call : calls_) {
    if (call.buffer_busy != busy) continue;
    call.buffer_busy = nullptr;
    call.owns_request_cells = true;
  }
}

void ClientSession::ForgetBusy(const bool* busy) {
  for (Call& call : calls_) {
    if (call.buffer_busy == busy) call.buffer_busy = nullptr;
  }
}

void ClientSession::WakeRoomWaiters() {
  for (CallWaiter* waiter : room_waiters_) waiter->Wake();
}

void ClientSession::RemoveRoomWaiter(CallWaiter* waiter) {
  room_waiters_.erase(std::find(room_waiters_.begin(), room_waiters_.end(), waiter));
}

std::byte* ClientSession::RequestPayload(HeldCells cells) const {
  return staging_.data() + geometry_.OffsetOf(cells.first) + kHeaderBytes;
}

void ClientSession::OnTick(int64_t now_ns) {
  if (ABSL_PREDICT_FALSE(now_ns >= look_at_ns_)) {
    look_at_ns_ = INT64_MAX;
    look_due_ = true;
    limit_ = next_sequence_;
  }
  if (ABSL_PREDICT_FALSE(!failed_posts_.empty())) HandleFailedPosts(now_ns);
  if (!reactor_->health().ok()) Fail(reactor_->health());
  if (earliest_deadline_ns_ == 0 || now_ns < earliest_deadline_ns_) return;
  earliest_deadline_ns_ = 0;
  for (Call& call : calls_) {
    if (call.state != Call::State::kOutstanding || call.deadline_ns == 0) continue;
    if (call.deadline_ns <= now_ns) {
      EndEarly(&call, absl::StatusCode::kDeadlineExceeded, "the deadline passed");
    } else if (earliest_deadline_ns_ == 0 || call.deadline_ns < earliest_deadline_ns_) {
      earliest_deadline_ns_ = call.deadline_ns;
    }
  }
}

void ClientSession::OnOperationFailed(const transport::Operation& operation,
                                      const absl::Status& status) {
  // Nothing due means that the peer has not been told: either nothing was posted, or the bytes are
  // there and the token is not.
  const CallFate fate =
      operation.completions_due == 0 ? CallFate::kNotSent : CallFate::kMaybeExecuted;
  // A mark is no request's cells.
  const bool mark = (operation.tag & kMarkTag) != 0;
  failed_posts_.push_back(
      {mark ? CellRun() : CellRun::FromTag(operation.tag), fate,
       absl::UnavailableError(absl::StrCat("cannot write to the worker: ", status.message()))});
}

// What the peer got of a failed write is not known, so nothing can be placed there again: the
// session ends. While it is held, its calls stay under way, and further ones may be started.
void ClientSession::HandleFailedPosts(int64_t now_ns) {
  if (hold_ns_ > 0) {
    if (held_until_ns_ == 0) held_until_ns_ = now_ns + hold_ns_;
    if (now_ns < held_until_ns_) return;
  }
  const absl::Status first = failed_posts_.front().status;
  Fail(first);
}

void ClientSession::Fail(const absl::Status& reason) {
  if (!failure_.ok()) return;
  failure_ = reason;
  last_byte_ = staging_.data()[geometry_.window_bytes() - 1];
  std::vector<CallFate> fates;
  for (const Call& call : calls_) {
    const bool outstanding = call.state == Call::State::kOutstanding;
    fates.push_back(outstanding && !HasLeft(call) ? CallFate::kNotSent : CallFate::kMaybeExecuted);
    if (call.buffer_busy != nullptr) failed_with_buffers_ = true;
  }
  // What has not left stays here.
  reactor_->Disown(this);
  for (const FailedPost& failed : std::exchange(failed_posts_, {})) {
    for (Call& call : calls_) {
      if (call.state == Call::State::kOutstanding && failed.run.Contains(call.request.first)) {
        FailCall(&call, WithFate(reason, failed.fate));
      }
    }
  }
  for (Call& call : calls_) {
    if (call.state == Call::State::kOutstanding) {
      FailCall(&call, WithFate(reason, fates[call.index]));
    }
  }
}

}  // namespace invoker
