#include "src/bootstrap/service/memory_service.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "src/bootstrap/service/caller.h"
#include "src/bootstrap/service/service_support.h"

namespace invoker::bootstrap {

grpc::Status MemoryService::RegisterWindow(grpc::ServerContext* context,
                                           const v1::RegisterWindowRequest* message,
                                           v1::RegisterWindowReply* reply) {
  Mark(context);
  const v1::Window& window = message->window();
  if (window.length() == 0) {
    return ToGrpc(absl::InvalidArgumentError("a window of no bytes cannot be registered"));
  }
  if (!message->readable() && !message->writable()) {
    return ToGrpc(absl::InvalidArgumentError(
        "a window that the executor may neither read nor write is of no use"));
  }
  absl::StatusOr<LeaseTable::Use> use = AcquireFor(*context, access_, table_, message->lease());
  if (!use.ok()) return ToGrpc(use.status());
  absl::StatusOr<uint16_t> number = host_->RegisterWindow(
      message->lease(), message->handle(), {window.base(), window.length(), window.key()},
      message->readable(), message->writable());
  if (!number.ok()) return ToGrpc(number.status());
  // Nobody learns the number any more: nobody could take the window back. While the answer is on
  // its way that may still happen; such a window goes with the session.
  if (context->IsCancelled()) {
    host_->ForgetWindow(message->lease(), message->handle(), *number).IgnoreError();
    return ToGrpc(absl::CancelledError("the client does not wait for the window any more"));
  }
  reply->set_number(*number);
  return grpc::Status::OK;
}

grpc::Status MemoryService::ForgetWindow(grpc::ServerContext* context,
                                         const v1::ForgetWindowRequest* message,
                                         v1::ForgetWindowReply*) {
  Mark(context);
  if (message->number() == 0 || message->number() > std::numeric_limits<uint16_t>::max()) {
    return ToGrpc(absl::InvalidArgumentError(
        absl::StrCat("window ", message->number(), " is none: numbers are 1 to 65535")));
  }
  absl::StatusOr<LeaseTable::Use> use = AcquireFor(*context, access_, table_, message->lease());
  if (!use.ok()) return ToGrpc(use.status());
  return ToGrpc(host_->ForgetWindow(message->lease(), message->handle(),
                                    static_cast<uint16_t>(message->number())));
}

}  // namespace invoker::bootstrap
