// BootstrapClient: the service Memory.

#include <limits>

#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/client_channel.h"
#include "src/bootstrap/client/unary_call.h"

namespace invoker::bootstrap {

absl::StatusOr<uint16_t> BootstrapClient::RegisterWindow(uint64_t lease, uint64_t handle,
                                                         const WindowDescriptor& window,
                                                         bool readable, bool writable,
                                                         absl::Duration timeout) {
  UnaryCall call(*channel_, "register memory", timeout);
  v1::RegisterWindowRequest request;
  request.set_lease(lease);
  request.set_handle(handle);
  request.mutable_window()->set_base(window.base);
  request.mutable_window()->set_length(window.length);
  request.mutable_window()->set_key(window.key);
  request.set_readable(readable);
  request.set_writable(writable);
  v1::RegisterWindowReply reply;
  absl::Status status = call.Run<v1::Memory>(&v1::Memory::Stub::RegisterWindow, request, &reply);
  if (!status.ok()) return status;
  if (reply.number() == 0 || reply.number() > std::numeric_limits<uint16_t>::max()) {
    return call.BadReply(absl::InvalidArgumentError(
        absl::StrCat("window ", reply.number(), "; numbers are 1 to 65535")));
  }
  return static_cast<uint16_t>(reply.number());
}

absl::Status BootstrapClient::ForgetWindow(uint64_t lease, uint64_t handle, uint16_t number,
                                           absl::Duration timeout) {
  v1::ForgetWindowRequest request;
  request.set_lease(lease);
  request.set_handle(handle);
  request.set_number(number);
  v1::ForgetWindowReply reply;
  return UnaryCall(*channel_, "forget memory", timeout)
      .Run<v1::Memory>(&v1::Memory::Stub::ForgetWindow, request, &reply);
}

}  // namespace invoker::bootstrap
