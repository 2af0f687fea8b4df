#include "src/bootstrap/client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/client_channel.h"
#include "src/bootstrap/convert.h"
#include "src/bootstrap/failure.h"

namespace invoker::bootstrap {
namespace {

// One unary call: its context with the deadline, and its result in words.
class Call {
 public:
  Call(const ClientChannel& channel, absl::string_view operation, absl::Duration timeout)
      : channel_(channel), operation_(operation), timeout_(timeout) {
    context_.set_deadline(
        absl::ToChronoTime(absl::Now() + timeout - ReserveForExplanation(timeout)));
  }

  template <typename Method, typename Request, typename Reply>
  absl::Status Run(Method method, const Request& request, Reply* reply) {
    const auto stub = v1::Bootstrap::NewStub(channel_.channel());
    const grpc::Status status = (stub.get()->*method)(&context_, request, reply);
    return channel_.Explain(operation_, context_, status, timeout_);
  }

  // A reply that makes no sense is the server's mistake, whatever code the conversion gave it.
  absl::Status BadReply(const absl::Status& status) const {
    const std::string message = absl::StrCat("invoker_server at ", channel_.name(),
                                             " sent a bad answer: ", status.message());
    return absl::IsInvalidArgument(status) ? absl::InternalError(message)
                                           : absl::Status(status.code(), message);
  }

 private:
  const ClientChannel& channel_;
  const absl::string_view operation_;
  const absl::Duration timeout_;
  grpc::ClientContext context_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BootstrapClient>> BootstrapClient::Connect(absl::string_view target,
                                                                          absl::Duration timeout) {
  absl::StatusOr<HostPort> address = ParseHostPort(target);
  if (!address.ok()) return address.status();
  if (address->port == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", target, "\" has port 0; give the port that the server printed when it started"));
  }
  std::unique_ptr<BootstrapClient> client(
      new BootstrapClient(std::make_shared<ClientChannel>(*address)));
  absl::StatusOr<WorkerInfo> info = client->GetWorkerInfo(timeout);
  if (!info.ok()) return info.status();
  client->worker_info_ = *std::move(info);
  return client;
}

BootstrapClient::BootstrapClient(std::shared_ptr<ClientChannel> channel)
    : channel_(std::move(channel)) {}
BootstrapClient::~BootstrapClient() = default;

const std::string& BootstrapClient::target() const { return channel_->name(); }

absl::StatusOr<WorkerInfo> BootstrapClient::GetWorkerInfo(absl::Duration timeout) {
  Call call(*channel_, "tell about the worker", timeout);
  v1::GetWorkerInfoReply reply;
  absl::Status status =
      call.Run(&v1::Bootstrap::Stub::GetWorkerInfo, v1::GetWorkerInfoRequest(), &reply);
  if (!status.ok()) return status;
  absl::StatusOr<WorkerInfo> info = FromProto(reply);
  if (!info.ok()) return call.BadReply(info.status());
  return info;
}

absl::StatusOr<OpenSessionReply> BootstrapClient::OpenSession(uint64_t lease,
                                                              const OpenSessionRequest& request,
                                                              absl::Duration timeout) {
  Call call(*channel_, "open a session", timeout);
  v1::OpenSessionReply reply;
  absl::Status status =
      call.Run(&v1::Bootstrap::Stub::OpenSession, ToProto(lease, request), &reply);
  if (!status.ok()) return status;
  absl::StatusOr<OpenSessionReply> opened = FromProto(reply);
  if (!opened.ok()) return call.BadReply(opened.status());
  return opened;
}

absl::Status BootstrapClient::SwitchNotification(uint64_t lease, uint64_t handle,
                                                 transport::Notification notification,
                                                 absl::string_view reason, absl::Duration timeout) {
  v1::SwitchNotificationRequest request;
  request.set_lease(lease);
  request.set_handle(handle);
  request.set_notification(ToProto(notification));
  request.set_reason(PrintableText(reason, kMaxReasonBytes));
  v1::SwitchNotificationReply reply;
  return Call(*channel_, "switch the notification", timeout)
      .Run(&v1::Bootstrap::Stub::SwitchNotification, request, &reply);
}

absl::Status BootstrapClient::CloseSession(uint64_t lease, uint64_t handle,
                                           absl::Duration timeout) {
  v1::CloseSessionRequest request;
  request.set_lease(lease);
  request.set_handle(handle);
  v1::CloseSessionReply reply;
  return Call(*channel_, "close the session", timeout)
      .Run(&v1::Bootstrap::Stub::CloseSession, request, &reply);
}

}  // namespace invoker::bootstrap
