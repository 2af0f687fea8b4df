#include "src/bootstrap/client/client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/client/client_channel.h"
#include "src/bootstrap/client/failure.h"
#include "src/bootstrap/client/unary_call.h"
#include "src/bootstrap/conversion/convert.h"
#include "src/bootstrap/messages/host_port.h"

namespace invoker::bootstrap {
namespace {

// What a second connection needs to be worth trying.
constexpr absl::Duration kLeastToConnect = absl::Milliseconds(20);

bool Accepts(const HostPort& address, absl::Duration left) {
  return left >= kLeastToConnect && TryConnect(address, ReserveForExplanation(left)).ok();
}

}  // namespace

absl::StatusOr<std::unique_ptr<BootstrapClient>> BootstrapClient::Connect(
    absl::string_view target, absl::Duration timeout,
    const security::ClientCredentials& credentials) {
  absl::StatusOr<HostPort> address = ParseHostPort(target);
  if (!address.ok()) return address.status();
  if (address->port == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", target, "\" has port 0; give the port that the server printed when it started"));
  }
  absl::StatusOr<std::shared_ptr<ClientChannel>> channel =
      ClientChannel::Make(*address, credentials);
  if (!channel.ok()) return channel.status();
  std::unique_ptr<BootstrapClient> client(new BootstrapClient(*std::move(channel)));
  const absl::Time deadline = absl::Now() + timeout;
  absl::StatusOr<WorkerInfo> info = client->GetWorkerInfo(timeout);
  if (absl::IsUnavailable(info.status()) && Accepts(*address, deadline - absl::Now())) {
    client->channel_->Reconnect();
    info = client->GetWorkerInfo(deadline - absl::Now());
  }
  if (!info.ok()) return info.status();
  client->worker_info_ = *std::move(info);
  return client;
}

BootstrapClient::BootstrapClient(std::shared_ptr<ClientChannel> channel)
    : channel_(std::move(channel)) {}
BootstrapClient::~BootstrapClient() = default;

const std::string& BootstrapClient::target() const { return channel_->name(); }

absl::StatusOr<WorkerInfo> BootstrapClient::GetWorkerInfo(absl::Duration timeout) {
  UnaryCall call(*channel_, "tell about the worker", timeout);
  v1::GetWorkerInfoReply reply;
  absl::Status status = call.Run<v1::Bootstrap>(&v1::Bootstrap::Stub::GetWorkerInfo,
                                                v1::GetWorkerInfoRequest(), &reply);
  if (!status.ok()) return status;
  absl::StatusOr<WorkerInfo> info = FromProto(reply);
  if (!info.ok()) return call.BadReply(info.status());
  return info;
}

absl::StatusOr<OpenSessionReply> BootstrapClient::OpenSession(uint64_t lease,
                                                              const OpenSessionRequest& request,
                                                              absl::Duration timeout) {
  v1::OpenSessionRequest message = ToProto(lease, request);
  if (const std::shared_ptr<SessionTokenPool> tokens = channel_->SessionTokensOf(lease)) {
    absl::StatusOr<std::string> token = tokens->Take(timeout);
    if (!token.ok()) return token.status();
    message.set_session_token(*std::move(token));
  }
  UnaryCall call(*channel_, "open a session", timeout);
  v1::OpenSessionReply reply;
  absl::Status status = call.Run<v1::Bootstrap>(&v1::Bootstrap::Stub::OpenSession, message, &reply);
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
  return UnaryCall(*channel_, "switch the notification", timeout)
      .Run<v1::Bootstrap>(&v1::Bootstrap::Stub::SwitchNotification, request, &reply);
}

absl::StatusOr<RequestState> BootstrapClient::FindRequest(uint64_t lease, uint64_t handle,
                                                          uint64_t sequence,
                                                          absl::Duration timeout) {
  v1::FindRequestRequest request;
  request.set_lease(lease);
  request.set_handle(handle);
  request.set_sequence(sequence);
  v1::FindRequestReply reply;
  UnaryCall call(*channel_, "find a request", timeout);
  absl::Status status = call.Run<v1::Bootstrap>(&v1::Bootstrap::Stub::FindRequest, request, &reply);
  if (!status.ok()) return status;
  absl::StatusOr<RequestState> state = FromProto(reply.state());
  if (!state.ok()) return call.BadReply(state.status());
  return state;
}

absl::Status BootstrapClient::CloseSession(uint64_t lease, uint64_t handle,
                                           absl::Duration timeout) {
  v1::CloseSessionRequest request;
  request.set_lease(lease);
  request.set_handle(handle);
  v1::CloseSessionReply reply;
  return UnaryCall(*channel_, "close the session", timeout)
      .Run<v1::Bootstrap>(&v1::Bootstrap::Stub::CloseSession, request, &reply);
}

}  // namespace invoker::bootstrap
