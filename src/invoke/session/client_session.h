// A client's half of one session: it places messages in both windows, posts requests, and matches
// responses to calls.
//
// Not thread-safe: everything here happens under the turn lock of the CallDriver that owns it, on
// whichever thread holds it.

#ifndef INVOKER_SRC_INVOKE_SESSION_CLIENT_SESSION_H_
#define INVOKER_SRC_INVOKE_SESSION_CLIENT_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/call_fate.h"
#include "src/invoke/client_options.h"
#include "src/invoke/response.h"
#include "src/invoke/session/call_waiter.h"
#include "src/invoke/session/cell_allocator.h"
#include "src/invoke/session/path_check.h"
#include "src/invoke/wire/drop_counters.h"
#include "src/invoke/wire/message_authenticator.h"
#include "src/invoke/wire/message_batch.h"
#include "src/invoke/wire/sequence_window.h"
#include "src/invoke/wire/wire.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

// One call, from the allocation of its cells until its response has been handed over. A slot is its
// caller's until Finish or Abandon.
struct Call {
  enum class State : uint8_t {
    kFree,
    kOutstanding,  // posted or about to be
    kTimedOut,     // ended for its caller, by its deadline or because it was cancelled, but the
                   // cells wait for the response or the fence
    kDone,         // `status` and the payload are there
  };

  bool ended() const { return state >= State::kTimedOut; }

  State state = State::kFree;
  bool owns_request_cells = false;  // else a Buffer does
  bool detached = false;  // kTimedOut: the caller has let go, the slot waits for the response
  // The flags byte of its request is being written anew, which must not land in another message.
  bool marking = false;
  uint8_t flags = 0;      // of its request
  bool answered = false;  // kTimedOut and marking: the response has come
  uint8_t marks = 0;      // that have been written again
  uint64_t sequence = 0;
  HeldCells request;
  HeldCells response;
  uint16_t index = 0;  // of this slot
  uint32_t response_capacity = 0;
  uint32_t payload_bytes = 0;    // of the response
  int64_t deadline_ns = 0;       // MonotonicNs; 0: none
  absl::Status status;           // OK until it has failed
  bool* buffer_busy = nullptr;   // of the Buffer that the request lies in
  CallWaiter* waiter = nullptr;  // a thread that sleeps until this call is done
  CallDone on_done;              // of an asynchronous call with a callback
};

// Names a call, also once it has ended and its slot is another's. A value.
struct CallTicket {
  Call* call = nullptr;  // nullptr: it has not been started
  uint64_t sequence = 0;

  // Whether the call, and not another in its slot, is in this state.
  bool Is(Call::State state) const {
    return call != nullptr && call->state == state && call->sequence == sequence;
  }
};

class ClientSession final : public transport::ReactorHandler, public transport::OperationOwner {
 public:
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

  // What the worker must know of us.
  bootstrap::OpenSessionRequest MakeRequest(transport::Notification notification) const;

  // Takes the worker's half: from here on calls can be started.
  absl::Status Attach(const bootstrap::OpenSessionReply& reply);

  void SetNotification(transport::Notification notification);
  transport::Notification notification() const { return notification_; }

  // A request about to be started.
  struct Request {
    MessageKind kind = MessageKind::kRequest;
    uint16_t function_id = 0;
    // Copied, unless `cells` says that it stands in staging already.
    absl::Span<const std::byte> input;
    HeldCells cells;              // of a Buffer, whose payload is `input`; or none
    bool* buffer_busy = nullptr;  // set until the request has been answered
    uint32_t response_capacity = 0;
    int64_t deadline_ns = 0;
    bool (*interrupted)() = nullptr;  // see CallOptions
    WhenFull when_full = WhenFull::kWaitForCalls;
    uint8_t flags = 0;  // the header's
  };

  // Encodes and queues a request; Flush posts it. nullptr if no cells or slots are free now, or an
  // earlier request has not been answered that the worker could take for too old behind this one.
  // The sizes have been checked. With `alone`, the input stays until the call has ended, and no
  // other request is to leave along with this one: it may leave at once, straight from the input.
  Call* Start(const Request& request, bool alone = false);

  // Whether messages that are too long to be injected whole may go in pieces, and payloads of up to
  // how many bytes do: 0 at first. What the executor's messages do, a probe tells it
  // (AnswersInPieces).
  bool may_send_pieces() const;
  uint64_t pieces_up_to() const { return pieces_up_to_; }
  void set_pieces_up_to(uint64_t payload_bytes);

  // From that time on (MonotonicNs), or the first tick after it, the next Start fails and TakeLook
  // is true, once: it is time to look at something that no call should wait for otherwise.
  void AskForLook(int64_t at_ns) { look_at_ns_ = at_ns; }
  bool TakeLook() { return std::exchange(look_due_, false); }

  // Posts what Start has queued. Called in every turn.
  void Flush() {
    if (requests_->pending() && failure_.ok()) requests_->Flush();
  }

  // The response's payload, of a call that is done with an OK status.
  absl::Span<const std::byte> Payload(const Call& call) const {
    return {ResponsePayload(call.response), call.payload_bytes};
  }

  // The detail of a response with an OK status, as it stands in the window: the worker may change
  // it.
  uint32_t Detail(const Call& call) const;

  // Gives back the slot of a call that has ended, and its response cells unless the caller keeps
  // them (only after an OK status).
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Finish(Call* call, bool keep_response_cells) {
    if (ABSL_PREDICT_FALSE(call->state == Call::State::kTimedOut)) return Detach(call);
    if (!keep_response_cells && call->response.cells != 0) FreeResponseCells(call->response);
    FreeSlot(call);
  }

  // Gives back a call in any state. If it is outstanding, it ends for nobody.
  void Abandon(Call* call);

  // Ends an outstanding call for its caller before its response has come; `what` has happened. What
  // has not left yet is NOT_SENT, and will not be executed; of the rest the worker is told, and
  // executes it only if it has begun.
  void EndEarly(Call* call, absl::StatusCode code, absl::string_view what);

  // Cells for a Buffer or from one; empty if there are none now.
  HeldCells AllocateRequestCells(uint64_t payload_bytes);
  void FreeRequestCells(HeldCells cells) { Freed(request_cells_.Free(cells.first, cells.cells)); }
  // Ends a Buffer: its cells are freed, or left to the call that still uses them.
  void ReleaseBuffer(HeldCells cells, const bool* busy);
  // Nobody wants to know any more whether the call of this flag is under way.
  void ForgetBusy(const bool* busy);
  void FreeResponseCells(HeldCells cells) { Freed(response_cells_.Free(cells.first, cells.cells)); }
  std::byte* RequestPayload(HeldCells cells) const;
  const std::byte* ResponsePayload(HeldCells cells) const {
    return response_bytes_ + geometry_.OffsetOf(cells.first) + kHeaderBytes;
  }

  // A thread to wake whenever cells become free.
  void AddRoomWaiter(CallWaiter* waiter) { room_waiters_.push_back(waiter); }
  void RemoveRoomWaiter(CallWaiter* waiter);

  // From now on the session does not end as soon as a post has failed, but so much later: if it has
  // failed because the other side has ended, the lease says why, and that is the better reason.
  void HoldFailures(int64_t hold_ns) { hold_ns_ = hold_ns; }

  // Reactor::PostQuiesceWrite, if there is anybody to say it to. The session has failed: requests
  // that have left may still run, as they are.
  void PostQuiesceWrite() {
    if (requests_.has_value()) reactor_->PostQuiesceWrite(requests_->window(), last_byte_);
  }

  // Ends every call and refuses new ones. The first reason stays.
  void Fail(const absl::Status& reason);
  const absl::Status& failure() const { return failure_; }

  const WindowGeometry& geometry() const { return geometry_; }
  // Calls whose callers still wait.
  uint32_t outstanding() const { return outstanding_; }
  // Whether every request has had its response.
  bool answered() const { return outstanding_ == 0 && late_ == 0; }
  // Whether it has failed with calls under way that used memory of their callers': a Buffer, or
  // registered windows.
  bool failed_with_buffers() const { return failed_with_buffers_; }
  // Moves whenever a call begins or ends, or cells become free.
  uint64_t changes() const { return changes_; }
  // Whether requests that nobody waits for any more may still have to leave: posting needs a
  // driver.
  bool sending() const {
    return late_ > 0 && failure_.ok() &&
           (requests_->pending() || reactor_->operations().outstanding() > 0);
  }
  // Whether a request that has been answered keeps its cells until the mark on it has landed.
  bool marks_hold_room() const;
  uint32_t free_request_cells() const { return request_cells_.free_cells(); }
  uint32_t free_response_cells() const { return response_cells_.free_cells(); }
  const MessageBatch& requests() const { return *requests_; }
  // Calls that have ended and have an on_done, which whoever empties this runs outside the lock.
  std::vector<Call*>& finished() { return finished_; }

  const ResponseDropCounters& dropped() const { return dropped_; }
  // Of cells that were free already: an error of this side's.
  uint64_t bad_frees() const { return bad_frees_; }
  DataAuth data_auth() const { return data_auth_; }

  // What a PathCheck needs to know. Looks at every call if no answer has come since
  // `known_answers`.
  PathView ViewPath(uint64_t known_answers) const;
  // Responses that have come and been taken. What anybody can ring is not among them: it shows
  // nothing of the worker.
  uint64_t answers() const { return answers_; }

  void OnToken(uint64_t token) override;
  void OnTick(int64_t now_ns) override;
  void OnOperationFailed(const transport::Operation& operation,
                         const absl::Status& status) override;
  void OnTransferDone(uint64_t tag) override;

 private:
  ClientSession(transport::Reactor* reactor, const Options& options, const WindowGeometry& geometry,
                transport::MemoryRegion staging, transport::MemoryRegion responses);

  Call* AcquireCall();
  // Queues a request that is no plain one: MessageBatch::IsPlain.
  ABSL_ATTRIBUTE_NOINLINE void AddSpecial(const Request& request, const Call& call,
                                          uint32_t deadline_us, bool alone);
  static void CopyInput(const Request& request, const Call& call, std::byte* message) {
    if (call.owns_request_cells && !request.input.empty()) {
      memcpy(message + kHeaderBytes, request.input.data(), request.input.size());
    }
  }
  ABSL_ATTRIBUTE_ALWAYS_INLINE RequestHeader HeaderOf(const Request& request, const Call& call,
                                                      uint32_t deadline_us) const {
    RequestHeader header;
    header.kind = request.kind;
    header.flags = request.flags;
    header.function_id = request.function_id;
    header.payload_bytes = static_cast<uint32_t>(request.input.size());
    header.sequence = call.sequence;
    header.epoch = epoch_;
    header.response_cell = static_cast<uint16_t>(call.response.first);
    header.response_capacity = request.response_capacity;
    header.deadline_us = deadline_us;
    return header;
  }
  ABSL_ATTRIBUTE_NOINLINE void TakeRareToken(uint64_t token);
  bool RestoreSequence(uint32_t cell, uint32_t repeat);
  bool AddCall();
  ABSL_ATTRIBUTE_NOINLINE bool MayStart();
  void Complete(Call* call);
  void FailCall(Call* call, absl::Status status);
  ABSL_ATTRIBUTE_ALWAYS_INLINE void FreeSlot(Call* call) {
    call->state = Call::State::kFree;
    call->waiter = nullptr;
    if (call->on_done) call->on_done = nullptr;
    if (!call->status.ok()) call->status = absl::OkStatus();
    free_calls_.push_back(call);
  }
  void Detach(Call* call);
  // The tag of the transfer that writes a flags byte, which no CellRun has.
  static constexpr uint64_t kMarkTag = uint64_t{1} << 63;

  bool HasLeft(const Call& call) const;
  CallFate Withdraw(Call* call);
  void PostMark(Call* call);
  void FreeLate(Call* call);
  void FreeRequest(Call* call);
  void Freed(bool valid) {
    if (!valid) ++bad_frees_;
    ++changes_;
    if (!room_waiters_.empty()) WakeRoomWaiters();
  }
  void WakeRoomWaiters();
  void HandleFailedPosts(int64_t now_ns);
  absl::Status AttachAuthenticators(const bootstrap::OpenSessionReply& reply);
  // Of a write whose first message is at `cell`. Without tags nothing of theirs is in the code.
  template <bool kAuthenticated>
  void TakeMessages(uint32_t cell);
  ABSL_ATTRIBUTE_NOINLINE void TakeAuthenticatedMessages(uint32_t cell);
  template <bool kAuthenticated>
  bool TakeResponse(const HeaderSnapshot& snapshot, const ResponseHeader& header, uint32_t cell,
                    const std::byte* payload);
  // Headers go to what is rarely called by value: whose address is taken stays in memory, for every
  // message. nullptr: the tag is wrong.
  ABSL_ATTRIBUTE_NOINLINE const std::byte* OpenAuthenticated(HeaderSnapshot snapshot,
                                                             uint32_t payload_bytes, uint32_t cell,
                                                             const std::byte* payload);
  void TakeLateResponse(Call* call);
  ABSL_ATTRIBUTE_NOINLINE void TakeFailure(ResponseHeader header, const std::byte* payload,
                                           Call* call);

  transport::Reactor* reactor_;
  Options options_;
  WindowGeometry geometry_;
  transport::MemoryRegion staging_;                        // requests are encoded here
  transport::MemoryRegion responses_;                      // the executor writes here
  std::unique_ptr<SessionAuthenticators> authenticators_;  // nullptr: messages have no tags
  const std::byte* response_bytes_;  // where callers read them: responses_, or copies
  DataAuth data_auth_ = DataAuth::kOff;
  const transport::Peer* peer_ = nullptr;
  uint32_t epoch_ = 0;
  transport::Notification notification_ = transport::Notification::kWriteImm;
  std::optional<MessageBatch> requests_;
  CellAllocator request_cells_;
  CellAllocator response_cells_;
  uint64_t next_sequence_;
  uint64_t limit_;                // the next sequence that MayStart is to look at
  const uint64_t response_mark_;  // a response's immediate, without the cell
  uint64_t pieces_up_to_ = 0;
  int64_t look_at_ns_ = INT64_MAX;
  bool look_due_ = false;

  std::deque<Call> calls_;  // grows to the most that were ever under way at once; never moves them
  std::vector<Call*> by_index_;
  std::vector<Call*> free_calls_;
  std::vector<uint16_t> by_response_cell_;  // 1 + the index of the call whose response begins there
  uint32_t outstanding_ = 0;
  uint32_t late_ = 0;   // calls in kTimedOut
  uint32_t marks_ = 0;  // that are being written
  uint64_t changes_ = 0;
  int64_t earliest_deadline_ns_ = 0;  // no call's deadline is before it; 0: none has one
  std::vector<Call*> finished_;
  std::vector<CallWaiter*> room_waiters_;
  struct FailedPost {
    CellRun run;
    CallFate fate;
    absl::Status status;
  };
  std::vector<FailedPost> failed_posts_;  // handled on a tick, since a post may fail inside Start
  int64_t hold_ns_ = 0;                   // how long after the first of them
  int64_t held_until_ns_ = 0;             // 0: none is held
  ResponseDropCounters dropped_;
  uint64_t bad_frees_ = 0;  // of cells that were free
  uint64_t answers_ = 0;
  absl::Status failure_;
  std::byte last_byte_{0};  // of the request window, when the session failed
  bool failed_with_buffers_ = false;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_CLIENT_SESSION_H_
