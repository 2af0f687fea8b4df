// ClientSession: tags of messages, in sessions that have them.

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/invoke/session/client_session.h"

namespace invoker {

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
    response_bytes_ = copies.data();
  }
  geometry_ = geometry_.WithTags();
  authenticators_ =
      std::make_unique<SessionAuthenticators>(data_auth_, reply.data_keys, std::move(copies));
  return absl::OkStatus();
}

// Its run is that of a call that still waits, so the copy is at nobody else's place.
const std::byte* ClientSession::OpenAuthenticated(HeaderSnapshot snapshot, uint32_t payload_bytes,
                                                  uint32_t cell, const std::byte* payload) {
  std::byte* copies = authenticators_->copies.data();
  std::byte* copy = copies == nullptr ? nullptr : copies + geometry_.OffsetOf(cell);
  const std::byte* opened = authenticators_->responses.Open(snapshot, payload, payload_bytes, copy);
  if (opened == nullptr) ++dropped_.bad_tag;
  return opened;
}

}  // namespace invoker
