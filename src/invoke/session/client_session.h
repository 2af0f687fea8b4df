// A client's half of one session: it places messages in both windows, posts requests, and matches
// responses to calls.
//
// Turn polls the reactor, which calls back into this object: OnToken when responses have arrived,
// OnTick now and then for deadlines. Both only change the states of calls. The caller of Turn looks
// afterwards: at Call::ended() of the call that it waits for, and at finished().
//
// Not thread-safe: everything here happens under the turn lock of the CallDriver that owns it, on
// whichever thread holds it.

#ifndef INVOKER_SRC_INVOKE_SESSION_CLIENT_SESSION_H_
#define INVOKER_SRC_INVOKE_SESSION_CLIENT_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "invoker/client_options.h"
#include "invoker/response.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/session/call.h"
#include "src/invoke/session/call_meters.h"
#include "src/invoke/session/call_table.h"
#include "src/invoke/session/call_waiter.h"
#include "src/invoke/session/cancellation.h"
#include "src/invoke/session/failed_posts.h"
#include "src/invoke/session/path_check.h"
#include "src/invoke/session/request_sender.h"
#include "src/invoke/session/response_reader.h"
#include "src/invoke/session/session_cells.h"
#include "src/invoke/wire/message_authenticator.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class ClientSession final : public transport::ReactorHandler, public transport::OperationOwner {
 public:
  using Request = CallRequest;

  struct Options {
    uint64_t window_bytes = 0;
    uint16_t number = 0;  // in response immediates
    uint64_t first_sequence = 1;
    DataAuth data_auth = DataAuth::kOff;  // the least that will do
  };

  // Registers the windows of a session that is not open yet. `reactor` outlives the session.
  static absl::StatusOr<std::unique_ptr<ClientSession>> Create(transport::Reactor* reactor,
                                                               const Options& options);
  ~ClientSession() override;

  // What the worker must know of this side.
  bootstrap::OpenSessionRequest MakeRequest(Notification notification) const;

  // Takes the worker's half: from here on calls can be started.
  absl::Status Attach(const bootstrap::OpenSessionReply& reply);

  void SetNotification(Notification notification) { sender_.SetNotification(notification); }
  Notification notification() const { return sender_.notification(); }

  // One turn: polls the reactor, which tells this session what has arrived, and posts what has been
  // queued. Returns the number of completions.
  ABSL_ATTRIBUTE_ALWAYS_INLINE int Turn() {
    const int events = reactor_->Poll();
    Flush();
    return events;
  }

  // Encodes and queues a request; Flush posts it. nullptr if no cells or slots are free now, if
  // TakeLook is about to be true, or if the worker could take the oldest unanswered request for a
  // replay behind this one. The sizes have been checked. `alone`: see RequestSender::Add.
  Call* Start(const Request& request, bool alone = false);

  // RequestSender's. A probe tells the executor to send its messages in the same way
  // (AnswersInPieces).
  bool may_send_pieces() const { return sender_.may_send_pieces(); }
  uint64_t pieces_up_to() const { return sender_.pieces_up_to(); }
  void set_pieces_up_to(uint64_t payload_bytes) { sender_.set_pieces_up_to(payload_bytes); }

  // From the first tick after that time (MonotonicNs) on, the next Start fails and TakeLook is
  // true, once. So a call that blocks in any case can look at something else first.
  void AskForLook(int64_t at_ns) { look_at_ns_ = at_ns; }
  bool TakeLook() { return std::exchange(look_due_, false); }

  // Whether Start has queued requests that have not been posted.
  bool gathering() const { return sender_.pending(); }
  // Posts what Start has queued. Turn does so, too. FlushInline: see RequestSender.
  void Flush() {
    if (sender_.pending() && failure_.ok()) sender_.Flush();
  }
  ABSL_ATTRIBUTE_ALWAYS_INLINE void FlushInline() {
    if (sender_.pending() && failure_.ok()) sender_.FlushInline();
  }

  // The response's payload, of a call that is done with an OK status.
  absl::Span<const std::byte> Payload(const Call& call) const {
    return {reader_.Payload(call.response), call.payload_bytes};
  }
  uint32_t Detail(const Call& call) const { return reader_.Detail(call); }

  // Gives back the slot of a call that has ended, and its response cells unless the caller keeps
  // them (only after an OK status).
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Finish(Call* call, bool keep_response_cells) {
    if (!keep_response_cells && call->state == Call::State::kDone && call->response.cells != 0) {
      FreeResponseCells(call->response);
    }
    calls_.Release(call);
  }

  // Gives back a call in any state. If it is outstanding, it ends for nobody.
  void Retire(Call* call) { Finish(call, false); }

  // Ends an outstanding call for its caller before its response has come; `what` has happened. A
  // request that has not left is NOT_SENT and will not be executed. The worker is told of a request
  // that has left, and executes it only if it has begun.
  void EndEarly(Call* call, absl::StatusCode code, absl::string_view what);

  // Cells for a Buffer or from one; empty if there are none now.
  HeldCells AllocateRequestCells(uint64_t payload_bytes, bool highest = false) {
    return cells_.AllocateRequest(geometry_.CellsFor(geometry_.overhead() + payload_bytes),
                                  highest);
  }
  void FreeRequestCells(HeldCells cells) { cells_.FreeRequest(cells); }
  // Ends a Buffer: its cells are freed, or left to the call that still uses them.
  void ReleaseBuffer(HeldCells cells, const bool* busy);
  // Nobody wants to know any more whether the call of this flag is under way.
  void ForgetBusy(const bool* busy);
  void FreeResponseCells(HeldCells cells) { cells_.FreeResponse(cells); }
  std::byte* RequestPayload(HeldCells cells) const { return sender_.Payload(cells); }
  const std::byte* ResponsePayload(HeldCells cells) const { return reader_.Payload(cells); }

  // A thread to wake whenever cells become free.
  void AddRoomWaiter(CallWaiter* waiter) { cells_.AddWaiter(waiter); }
  void RemoveRoomWaiter(CallWaiter* waiter) { cells_.RemoveWaiter(waiter); }

  // FailedPosts::Hold.
  void HoldFailures(int64_t hold_ns) { failed_posts_.Hold(hold_ns); }

  // Reactor::PostQuiesceWrite, if the worker is known. The session has failed: requests that have
  // left may still run, as they are.
  void PostQuiesceWrite() {
    if (sender_.attached()) reactor_->PostQuiesceWrite(sender_.batch().window(), last_byte_);
  }

  // Ends every call and refuses new ones. The first reason stays.
  void Fail(const absl::Status& reason);
  const absl::Status& failure() const { return failure_; }
  // Takes no further calls. Those under way go on.
  void TakeNoMore(const absl::Status& reason) {
    if (refusal_.ok()) refusal_ = reason;
  }
  // Why no call may start: TakeNoMore's reason, or failure().
  const absl::Status& refusal() const { return refusal_; }

  const WindowGeometry& geometry() const { return geometry_; }
  // Calls whose callers still wait.
  uint32_t outstanding() const { return calls_.outstanding(); }
  // Whether every request has had its response.
  bool answered() const { return outstanding() == 0 && calls_.late() == 0; }
  // Whether it has failed with calls under way that used memory of their callers': a Buffer, or
  // registered windows.
  bool failed_with_buffers() const { return failed_with_buffers_; }
  // Moves whenever a call begins or ends, or cells become free.
  uint64_t changes() const { return calls_.changes() + cells_.frees(); }
  // Whether the session needs to be polled: calls are under way, or requests that nobody waits for
  // any more may still have to leave.
  bool needs_turns() const { return outstanding() > 0 || sending(); }
  bool sending() const {
    return calls_.late() > 0 && failure_.ok() &&
           (sender_.pending() || reactor_->operations().outstanding() > 0);
  }
  // Whether a request that has been answered keeps its cells until the mark on it has landed.
  bool marks_hold_room() const;
  uint32_t free_request_cells() const { return cells_.free_request_cells(); }
  uint32_t free_response_cells() const { return cells_.free_response_cells(); }
  const MessageBatch& requests() const { return sender_.batch(); }
  // CallTable::finished.
  std::vector<Call*>& finished() { return calls_.finished(); }

  const CallMeters& meters() const { return meters_; }
  const ResponseDropCounters& dropped() const { return reader_.dropped(); }
  uint64_t bad_frees() const { return cells_.bad_frees(); }
  DataAuth data_auth() const { return data_auth_; }

  // What a PathCheck needs to know. Looks at every call if no answer has come since
  // `known_answers`.
  PathView ViewPath(uint64_t known_answers) const;
  // Valid responses so far.
  uint64_t answers() const { return reader_.answers(); }

  void OnToken(uint64_t token) override;
  void OnTick(int64_t now_ns) override;
  void OnOperationFailed(const transport::Operation& operation,
                         const absl::Status& status) override;
  void OnTransferDone(uint64_t tag) override;
  void OnPostedLater() override { sender_.WakeReceiver(); }

 private:
  ClientSession(transport::Reactor* reactor, const Options& options, const WindowGeometry& geometry,
                transport::MemoryRegion staging, transport::MemoryRegion responses);

  absl::Status AttachAuthenticators(const bootstrap::OpenSessionReply& reply);
  template <bool kAuthenticated>
  void TakeResponses(uint32_t cell);
  ABSL_ATTRIBUTE_NOINLINE void TakeAuthenticatedResponses(uint32_t cell);
  ABSL_ATTRIBUTE_NOINLINE void TakeRareToken(uint64_t token);
  void TakeLateResponse(Call* call);
  // The header is passed by value: see ResponseReader::Authenticate.
  ABSL_ATTRIBUTE_NOINLINE void TakeFailure(ResponseHeader header, const std::byte* payload,
                                           Call* call);
  void End(Call* call);
  void FailCall(Call* call, absl::Status status);
  void FreeLate(Call* call);
  void FreeRequest(Call* call);

  transport::Reactor* reactor_;
  Options options_;
  WindowGeometry geometry_;
  std::unique_ptr<SessionAuthenticators> authenticators_;  // nullptr: messages have no tags
  DataAuth data_auth_ = DataAuth::kOff;
  const transport::Peer* peer_ = nullptr;
  CallTable calls_;
  CallMeters meters_;
  SessionCells cells_;
  RequestSender sender_;
  ResponseReader reader_;
  Cancellation cancellation_;
  FailedPosts failed_posts_;
  int64_t look_at_ns_ = INT64_MAX;
  bool look_due_ = false;
  absl::Status failure_;
  absl::Status refusal_;
  std::byte last_byte_{0};  // the request window's, when the session failed
  bool failed_with_buffers_ = false;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_CLIENT_SESSION_H_
