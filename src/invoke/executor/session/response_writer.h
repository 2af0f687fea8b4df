// Writes the responses of one session into its staging memory and posts them. Responses that are
// ready together leave in one write. Executor thread only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_RESPONSE_WRITER_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_RESPONSE_WRITER_H_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/invoke/executor/session/session_usage.h"
#include "src/invoke/function/function_registry.h"
#include "src/invoke/wire/message_authenticator.h"
#include "src/invoke/wire/message_batch.h"
#include "src/invoke/wire/wire.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class ResponseWriter {
 public:
  struct Parts {
    transport::Reactor* reactor = nullptr;
    transport::RemoteWindow window;  // the client's, for responses
    uint16_t session = 0;            // the client's number for the session
    uint32_t epoch = 0;
    Notification notification = Notification::kWriteImm;
    std::string client_address;  // raw bytes; empty: nobody has to wake the client
  };

  // All pointers outlive the writer. `staging` has the layout of the client's window. `owner` hears
  // of writes that fail. `authenticators` is nullptr where messages have no tags.
  ResponseWriter(const Parts& parts, transport::MemoryRegion staging,
                 const WindowGeometry& geometry, transport::OperationOwner* owner,
                 SessionUsage* usage, const SessionAuthenticators* authenticators);
  ResponseWriter(const ResponseWriter&) = delete;
  ResponseWriter& operator=(const ResponseWriter&) = delete;

  // Where the payload of the request's response goes. The request is valid.
  absl::Span<std::byte> PayloadOf(const RequestHeader& request) {
    return {staging_.data() + geometry_.OffsetOf(request.response_cell) + kHeaderBytes,
            request.response_capacity};
  }

  // Queues the response to a request. Its payload is at PayloadOf already. `now_ns` is MonotonicNs,
  // or a little before.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Respond(const RequestHeader& request, StatusCode status,
                                            uint32_t payload_bytes, uint32_t detail,
                                            int64_t now_ns) {
    assert(payload_bytes <= request.response_capacity);
    ResponseHeader header;
    header.status = status;
    header.payload_bytes = payload_bytes;
    header.sequence = request.sequence;
    header.epoch = epoch_;
    header.detail = detail;
    const auto message_bytes = static_cast<uint32_t>(geometry_.MessageBytes(payload_bytes));
    bool first;
    if (ABSL_PREDICT_TRUE(batch_.IsPlain(message_bytes))) {
      Pack(header).CopyTo(staging_.data() + geometry_.OffsetOf(request.response_cell));
      first = batch_.AddResponse(request.response_cell, message_bytes, request.response_capacity);
    } else {
      first = AddSpecial(header, request);
    }
    if (first) pending_since_ns_ = now_ns;
  }

  // Queues a response with this payload, cut to the room that the client has left. Returns its
  // bytes.
  uint32_t RespondWith(const RequestHeader& request, StatusCode status, absl::string_view payload,
                       uint32_t detail, int64_t now_ns);
  // Answers a request that does not run.
  void Refuse(const RequestHeader& request, StatusCode status, absl::string_view message,
              int64_t now_ns);
  // Answers a request to the data store, which has said why not.
  void RefuseStored(const RequestHeader& request, const absl::Status& status, int64_t now_ns);
  // Answers a request whose function has failed. `error` is the function's message.
  void RespondFailure(const RequestHeader& request, const CallOutcome& outcome,
                      absl::string_view error, int64_t now_ns);
  // Answers a probe with its own payload and with this thread's processor. The probe also says up
  // to which length its client wants messages in pieces.
  void AnswerProbe(const RequestHeader& request, const std::byte* payload, int64_t now_ns);

  // Posts queued responses. False if some had to stay for want of a slot.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Flush() { return batch_.FlushInline(); }
  bool pending() const { return batch_.pending(); }
  // When the first of the queued responses was queued, or a little before.
  int64_t pending_since_ns() const { return pending_since_ns_; }

  // Whether the response to this sequence is ready but has not left, for a reason that says nothing
  // of the path: operations of other sessions may hold it up.
  bool IsHeldUp(uint64_t sequence);

  // For transfers, and for what the reactor has posted later. Responses wake the client themselves.
  void WakeClient() { batch_.WakeReceiver(); }

  void SetNotification(Notification notification);
  const MessageBatch& batch() const { return batch_; }
  // For the session's end: nothing is written after this.
  transport::MemoryRegion TakeStaging() { return std::move(staging_); }

 private:
  // AddResponse for a response that is not plain: MessageBatch::IsPlain.
  ABSL_ATTRIBUTE_NOINLINE bool AddSpecial(ResponseHeader header, const RequestHeader& request);

  transport::Reactor* const reactor_;
  transport::OperationOwner* const owner_;
  SessionUsage* const usage_;
  const SessionAuthenticators* const authenticators_;
  const uint32_t epoch_;
  const WindowGeometry geometry_;
  transport::MemoryRegion staging_;
  MessageBatch batch_;
  int64_t pending_since_ns_ = 0;
  // A sequence that IsHeldUp was asked about, and whose response is not delivered yet; 0: none.
  uint64_t undelivered_ = 0;
  int64_t undelivered_since_ns_ = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_RESPONSE_WRITER_H_
