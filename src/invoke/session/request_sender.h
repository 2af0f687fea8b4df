// Encodes requests in the staging region and posts them into the worker's request window.
//
// Not thread-safe. Attach comes before everything that sends. A post that fails is told to the
// session, which owns the operations.

#ifndef INVOKER_SRC_INVOKE_SESSION_REQUEST_SENDER_H_
#define INVOKER_SRC_INVOKE_SESSION_REQUEST_SENDER_H_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "invoker/response.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/session/call.h"
#include "src/invoke/wire/message_authenticator.h"
#include "src/invoke/wire/message_batch.h"
#include "src/invoke/wire/wire.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class RequestSender {
 public:
  // `staging` has the layout of the request window. `reactor` outlives this.
  RequestSender(transport::Reactor* reactor, transport::MemoryRegion staging,
                const WindowGeometry& geometry);
  // Retires the staging region: the provider may still read it.
  ~RequestSender();
  RequestSender(const RequestSender&) = delete;
  RequestSender& operator=(const RequestSender&) = delete;

  // Takes the worker's request window. `authenticator` is nullptr in sessions without tags; else
  // `geometry` has room for tags. `owner` hears of posts that fail and of marks that have landed.
  void Attach(const bootstrap::OpenSessionReply& reply, fi_addr_t worker,
              const WindowGeometry& geometry, const MessageAuthenticator* authenticator,
              transport::OperationOwner* owner);
  bool attached() const { return batch_.has_value(); }

  void SetNotification(Notification notification);
  Notification notification() const { return notification_; }

  // Encodes the request of a call and queues it; Flush posts it. `deadline_us`: see RequestHeader.
  // With `alone`, the input stays until the call has ended and no other request is to leave along
  // with this one, so it may leave at once, straight from the input.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Add(const CallRequest& request, const Call& call,
                                        uint32_t deadline_us, bool alone) {
    assert(attached());
    const auto payload_bytes = static_cast<uint32_t>(request.input.size());
    const auto message_bytes = static_cast<uint32_t>(geometry_.MessageBytes(payload_bytes));
    if (ABSL_PREDICT_FALSE(!batch_->IsPlain(message_bytes))) {
      return AddSpecial(request, call, deadline_us, alone);
    }
    std::byte* message = MessageAt(call.request.first);
    CopyInput(request, call, message);
    Pack(HeaderOf(request, call, deadline_us)).CopyTo(message);
    batch_->Add(request.kind, call.request.first, message_bytes);
  }

  bool pending() const { return batch_->pending(); }
  // For what the reactor has posted later.
  void WakeReceiver() {
    if (attached()) batch_->WakeReceiver();
  }
  // Posts what Add has queued. FlushInline is for the one place where most requests leave.
  void Flush() { batch_->Flush(); }
  ABSL_ATTRIBUTE_ALWAYS_INLINE void FlushInline() { batch_->FlushInline(); }

  // Whether messages that are too long to be injected whole may go in pieces, and payloads of up to
  // how many bytes do: 0 at first.
  bool may_send_pieces() const { return batch_->may_send_pieces(); }
  uint64_t pieces_up_to() const { return pieces_up_to_; }
  void set_pieces_up_to(uint64_t payload_bytes);

  // Whether the worker may have heard of the request at this cell. A request that waits to be
  // posted, or to be posted again, is still in staging alone and can be changed there.
  bool HasLeft(uint32_t cell) const;
  // Sets kCancelled in the request at this cell. A request that has not left takes it along.
  // Returns HasLeft.
  bool MarkCancelled(uint32_t cell);
  // Writes the flags byte of a request that has left again, into the worker's window. False if no
  // slot is free; else the owner hears of the end with `tag`, which IsMark.
  bool PostMark(const Call& call);
  static bool IsMark(uint64_t tag) { return (tag & kMarkTag) != 0; }
  // The index of the call that the mark belongs to.
  static size_t IndexOfMark(uint64_t tag) { return tag & ~kMarkTag; }
  // Whether the request itself may be put into its place after a mark on it has landed: a request
  // inside a send is placed when the executor gets to it.
  bool marks_may_be_covered() const { return batch_->may_place_late(); }

  std::byte* Payload(HeldCells cells) const { return MessageAt(cells.first) + kHeaderBytes; }
  // The last byte of the request window, which PostQuiesceWrite needs.
  std::byte last_byte() const { return staging_.data()[geometry_.window_bytes() - 1]; }
  const MessageBatch& batch() const { return *batch_; }

 private:
  // The tag of the transfer that writes a flags byte. No CellRun has it.
  static constexpr uint64_t kMarkTag = uint64_t{1} << 63;

  std::byte* MessageAt(uint32_t cell) const { return staging_.data() + geometry_.OffsetOf(cell); }
  static void CopyInput(const CallRequest& request, const Call& call, std::byte* message) {
    if (!call.owns_request_cells) return;
    if (ABSL_PREDICT_TRUE(request.input.data() != nullptr)) {
      memcpy(message + kHeaderBytes, request.input.data(), request.input.size());
    } else if (request.writer != nullptr) {
      request.writer->write(request.writer->source, request.writer->count, message + kHeaderBytes);
    }
  }
  ABSL_ATTRIBUTE_ALWAYS_INLINE RequestHeader HeaderOf(const CallRequest& request, const Call& call,
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
  // Queues a request that is not MessageBatch::IsPlain.
  ABSL_ATTRIBUTE_NOINLINE void AddSpecial(const CallRequest& request, const Call& call,
                                          uint32_t deadline_us, bool alone);

  transport::Reactor* reactor_;
  transport::MemoryRegion staging_;
  WindowGeometry geometry_;
  std::optional<MessageBatch> batch_;
  const MessageAuthenticator* authenticator_ = nullptr;
  transport::OperationOwner* owner_ = nullptr;
  uint32_t epoch_ = 0;
  Notification notification_ = Notification::kWriteImm;
  uint64_t pieces_up_to_ = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_REQUEST_SENDER_H_
