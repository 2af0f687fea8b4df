#include "src/bootstrap/service/bootstrap_service.h"

#include "src/bootstrap/conversion/convert.h"
#include "src/bootstrap/messages/compatibility.h"
#include "src/bootstrap/service/allowed_functions.h"
#include "src/bootstrap/service/caller.h"
#include "src/bootstrap/service/service_support.h"

namespace invoker::bootstrap {

grpc::Status BootstrapService::GetWorkerInfo(grpc::ServerContext* context,
                                             const v1::GetWorkerInfoRequest*,
                                             v1::GetWorkerInfoReply* reply) {
  Mark(context);
  const absl::StatusOr<security::Caller> caller = CallerOf(*context, access_);
  if (!caller.ok()) return ToGrpc(caller.status());
  WorkerInfo info = host_->Info();
  HideForbidden(FilterFor(*caller, info.functions, /*own_executors=*/false).get(), &info.functions);
  info.draining = info.draining || !table_->Admission().ok();
  *reply = ToProto(info);
  return grpc::Status::OK;
}

grpc::ServerBidiReactor<v1::LeaseRequest, v1::LeaseEvent>* BootstrapService::Lease(
    grpc::CallbackServerContext* context) {
  return LeaseReactor::Start(context, times_, table_, tokens_, access_);
}

grpc::Status BootstrapService::OpenSession(grpc::ServerContext* context,
                                           const v1::OpenSessionRequest* message,
                                           v1::OpenSessionReply* reply) {
  Mark(context);
  absl::StatusOr<OpenSessionReply> opened = Open(*context, *message);
  if (!opened.ok()) return ToGrpc(opened.status());
  *reply = ToProto(*opened);
  return grpc::Status::OK;
}

grpc::Status BootstrapService::SwitchNotification(grpc::ServerContext* context,
                                                  const v1::SwitchNotificationRequest* message,
                                                  v1::SwitchNotificationReply*) {
  Mark(context);
  absl::StatusOr<Notification> notification =
      FromProto(message->notification(), /*allow_auto=*/false);
  if (!notification.ok()) return ToGrpc(notification.status());
  absl::StatusOr<LeaseTable::Use> use = AcquireFor(*context, access_, table_, message->lease());
  if (!use.ok()) return ToGrpc(use.status());
  return ToGrpc(host_->SwitchNotification(message->lease(), message->handle(), *notification,
                                          PrintableText(message->reason(), kMaxReasonBytes)));
}

grpc::Status BootstrapService::FindRequest(grpc::ServerContext* context,
                                           const v1::FindRequestRequest* message,
                                           v1::FindRequestReply* reply) {
  Mark(context);
  absl::StatusOr<LeaseTable::Use> use = AcquireFor(*context, access_, table_, message->lease());
  if (!use.ok()) return ToGrpc(use.status());
  absl::StatusOr<RequestState> state =
      host_->FindRequest(message->lease(), message->handle(), message->sequence());
  if (!state.ok()) return ToGrpc(state.status());
  reply->set_state(ToProto(*state));
  return grpc::Status::OK;
}

grpc::Status BootstrapService::CloseSession(grpc::ServerContext* context,
                                            const v1::CloseSessionRequest* message,
                                            v1::CloseSessionReply*) {
  Mark(context);
  absl::StatusOr<LeaseTable::Use> use = AcquireFor(*context, access_, table_, message->lease());
  if (!use.ok()) return ToGrpc(use.status());
  return ToGrpc(host_->CloseSession(message->lease(), message->handle()));
}

absl::StatusOr<OpenSessionReply> BootstrapService::Open(const grpc::ServerContext& context,
                                                        const v1::OpenSessionRequest& message) {
  absl::StatusOr<security::Caller> caller = CallerOf(context, access_);
  if (!caller.ok()) return caller.status();
  if (absl::Status status = table_->Admission(); !status.ok()) return status;
  absl::StatusOr<OpenSessionRequest> request = FromProto(message);
  const WorkerInfo info = host_->Info();
  if (!request.ok()) return request.status();
  if (absl::Status status = CheckCompatible(info, *request); !status.ok()) return status;
  absl::StatusOr<LeaseTable::Use> use = table_->Acquire(message.lease(), caller->name);
  if (!use.ok()) return use.status();
  absl::Status spent = tokens_->Spend(message.lease(), request->session_token);
  if (!spent.ok()) return spent;
  request->session_token.clear();
  table_->NoteEndpoint(*use, request->endpoint_address);
  request->filter = FilterFor(*caller, info.functions, use->own_executors());
  if (caller->tenant != nullptr) request->tenant = caller->tenant->name;
  absl::StatusOr<OpenSessionReply> reply = host_->OpenSession(message.lease(), *request);
  if (reply.ok()) HideForbidden(request->filter.get(), &reply->functions);
  return reply;
}

}  // namespace invoker::bootstrap
