#include "src/invoke/executor/session/response_writer.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "src/transport/self_test/method_trial.h"

namespace invoker {
namespace {

// Longer than it takes until operations to clients that have gone are put into quarantine.
constexpr int64_t kLongestDeliveryNs = 15'000'000'000;

}  // namespace

ResponseWriter::ResponseWriter(const Parts& parts, transport::MemoryRegion staging,
                               const WindowGeometry& geometry, transport::OperationOwner* owner,
                               SessionUsage* usage, const SessionAuthenticators* authenticators)
    : reactor_(parts.reactor),
      owner_(owner),
      usage_(usage),
      authenticators_(authenticators),
      epoch_(parts.epoch),
      geometry_(geometry),
      staging_(std::move(staging)),
      batch_(parts.reactor, &staging_, parts.window, geometry, parts.session,
             transport::GetNotifier(parts.notification, parts.reactor->profile().send_order),
             owner) {
  if (!reactor_->profile().file_scheme.empty()) {
    batch_.set_peer_waker(transport::PeerWaker::Open(parts.client_address));
  }
}

void ResponseWriter::SetNotification(Notification notification) {
  batch_.set_notifier(transport::GetNotifier(notification, reactor_->profile().send_order));
}

uint32_t ResponseWriter::RespondWith(const RequestHeader& request, StatusCode status,
                                     absl::string_view payload, uint32_t detail, int64_t now_ns) {
  const auto bytes =
      static_cast<uint32_t>(std::min<uint64_t>(payload.size(), request.response_capacity));
  memcpy(PayloadOf(request).data(), payload.data(), bytes);
  Respond(request, status, bytes, detail, now_ns);
  return bytes;
}

void ResponseWriter::Refuse(const RequestHeader& request, StatusCode status,
                            absl::string_view message, int64_t now_ns) {
  usage_->CountRefusal();
  RespondWith(request, status, message, 0, now_ns);
}

void ResponseWriter::RefuseStored(const RequestHeader& request, const absl::Status& status,
                                  int64_t now_ns) {
  Refuse(request,
         absl::IsResourceExhausted(status) ? StatusCode::kNoMemory : StatusCode::kInvalidRequest,
         status.message(), now_ns);
}

void ResponseWriter::RespondFailure(const RequestHeader& request, const CallOutcome& outcome,
                                    absl::string_view error, int64_t now_ns) {
  if (outcome.kind == CallOutcome::Kind::kNoRoom) {
    return Refuse(request, StatusCode::kNoMemory,
                  "the session has more calls under way that are answered later, or larger ones, "
                  "than the worker has room for; wait for some",
                  now_ns);
  }
  if (outcome.kind == CallOutcome::Kind::kOutputTooSmall) {
    const auto needed =
        static_cast<uint32_t>(std::min<uint64_t>(outcome.output_needed, UINT32_MAX));
    return Respond(request, StatusCode::kResponseTooLarge, 0, needed, now_ns);
  }
  usage_->CountFailure(request.function_id);
  usage_->CountOutput(request.function_id,
                      RespondWith(request, StatusCode::kFunctionFailed, error,
                                  static_cast<uint32_t>(outcome.code), now_ns));
}

void ResponseWriter::AnswerProbe(const RequestHeader& request, const std::byte* payload,
                                 int64_t now_ns) {
  if (request.function_id != 0 && batch_.may_send_pieces()) {
    const uint64_t wanted = (request.function_id - uint64_t{1}) * kPiecesUnit;
    const uint64_t most = transport::MethodTrial::kLongest * reactor_->profile().inject_bytes;
    const auto bytes = static_cast<uint32_t>(std::min(wanted, most));
    batch_.set_pieces_up_to(bytes == 0 ? 0 : geometry_.MessageBytes(bytes));
  }
  RespondWith(request, StatusCode::kOk,
              {reinterpret_cast<const char*>(payload), request.payload_bytes},
              static_cast<uint32_t>(sched_getcpu() + 1), now_ns);
}

bool ResponseWriter::AddSpecial(ResponseHeader header, const RequestHeader& request) {
  const uint32_t cell = request.response_cell;
  const uint32_t repeat = batch_.PutHeader(cell, Pack(header));
  if (authenticators_ != nullptr) {
    authenticators_->responses.Close(staging_.data() + geometry_.OffsetOf(cell),
                                     header.payload_bytes);
  }
  const auto message_bytes = static_cast<uint32_t>(geometry_.MessageBytes(header.payload_bytes));
  const bool first = batch_.AddResponse(cell, message_bytes, request.response_capacity);
  batch_.SetRepeat(cell, repeat);
  return first;
}

bool ResponseWriter::IsHeldUp(uint64_t sequence) {
  bool held = false;
  const auto look = [&](CellRun run) {
    for (uint32_t cell = run.first; !held && run.Contains(cell);) {
      ResponseHeader header;
      HeaderSnapshot snapshot = HeaderSnapshot::Take(staging_.data() + geometry_.OffsetOf(cell));
      Relocation::Undo(&snapshot);
      if (DecodeResponse(snapshot, &header) != WireError::kNone) break;
      held = header.sequence == sequence;
      cell += geometry_.CellsFor(geometry_.MessageBytes(header.payload_bytes));
    }
  };
  const auto look_at = [&](const transport::Operation& operation) {
    look(CellRun::FromTag(operation.tag));
  };
  // The fabric has not taken these. That ends: a post that is refused for long fails, and the
  // session with it.
  batch_.ForEachPending(look);
  reactor_->ForEachUntold(owner_, look_at);
  if (held || !reactor_->profile().same_host_only) return held;
  // No wire can be cut here. A response that is not delivered waits behind operations to clients
  // that take no part any more.
  reactor_->ForEachUndelivered(owner_, look_at);
  const int64_t now_ns = transport::MonotonicNs();
  if (!held || undelivered_ != sequence) {
    undelivered_ = held ? sequence : 0;
    undelivered_since_ns_ = now_ns;
  }
  return held && now_ns - undelivered_since_ns_ < kLongestDeliveryNs;
}

}  // namespace invoker
