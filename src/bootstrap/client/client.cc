#include "src/bootstrap/client/client.h"

#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/client/client_channel.h"
#include "src/bootstrap/client/failure.h"
#include "src/bootstrap/client/unary_call.h"
#include "src/bootstrap/conversion/convert.h"
#include "src/bootstrap/conversion/convert_accounting.h"
#include "src/bootstrap/conversion/convert_lease.h"
#include "src/bootstrap/conversion/convert_status.h"
#include "src/bootstrap/messages/host_port.h"

namespace invoker::bootstrap {
namespace {

// What a second connection needs to be worth trying.
constexpr absl::Duration kLeastToConnect = absl::Milliseconds(20);

bool Accepts(const HostPort& address, absl::Duration left) {
  return left >= kLeastToConnect && TryConnect(address, ReserveForExplanation(left)).ok();
}

// Together with the fields around it, a chunk is shorter than the longest message that a server
// takes.
constexpr size_t kChunkBytes = 48 << 10;

}  // namespace

// The service Bootstrap.

absl::StatusOr<std::unique_ptr<BootstrapClient>> BootstrapClient::Connect(
    absl::string_view target, absl::Duration timeout, const ClientCredentials& credentials) {
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
                                                 Notification notification,
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

// The service Memory.

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

// The service Code.

absl::StatusOr<bool> BootstrapClient::Upload(uint64_t lease, absl::string_view sha256,
                                             absl::string_view bytes, absl::Duration timeout) {
  grpc::ClientContext context;
  channel_->Begin(&context);
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout - ReserveForExplanation(timeout)));
  channel_->Authorize(&context);
  const auto stub = v1::Code::NewStub(channel_->channel());
  v1::UploadReply reply;
  const std::unique_ptr<grpc::ClientWriter<v1::UploadChunk>> writer =
      stub->Upload(&context, &reply);
  v1::UploadChunk chunk;
  chunk.set_lease(lease);
  chunk.set_sha256(std::string(sha256));
  chunk.set_size(bytes.size());
  // The first alone: the server may know the file already, or refuse it.
  bool more = writer->Write(chunk);
  chunk.Clear();
  while (more && !bytes.empty()) {
    const size_t size = std::min(bytes.size(), kChunkBytes);
    chunk.set_data(bytes.data(), size);
    bytes.remove_prefix(size);
    // False once the server has answered.
    more = writer->Write(chunk);
  }
  if (more) writer->WritesDone();
  const grpc::Status status = writer->Finish();
  channel_->End(&context);
  if (!status.ok()) return channel_->Explain("take an upload", context, status, timeout);
  return reply.was_there();
}

absl::StatusOr<std::vector<FunctionInfo>> BootstrapClient::Load(uint64_t lease,
                                                                absl::string_view sha256,
                                                                CodeKind kind,
                                                                absl::string_view name,
                                                                absl::Duration timeout) {
  UnaryCall call(*channel_, "load code", timeout);
  v1::LoadRequest request;
  request.set_lease(lease);
  request.set_sha256(std::string(sha256));
  request.set_kind(kind == CodeKind::kLibrary ? v1::CODE_KIND_LIBRARY : v1::CODE_KIND_PYTHON);
  request.set_name(std::string(name));
  v1::LoadReply reply;
  absl::Status status = call.Run<v1::Code>(&v1::Code::Stub::Load, request, &reply);
  if (!status.ok()) return status;
  return FromProto(reply.functions());
}

// The service Accounting.

absl::StatusOr<std::vector<UsageRecord>> BootstrapClient::GetUsage(absl::string_view tenant,
                                                                   absl::Duration timeout) {
  UnaryCall call(*channel_, "tell about usage", timeout);
  v1::GetUsageRequest request;
  request.set_tenant(std::string(tenant));
  v1::GetUsageReply reply;
  absl::Status status = call.Run<v1::Accounting>(&v1::Accounting::Stub::GetUsage, request, &reply);
  if (!status.ok()) return status;
  std::vector<UsageRecord> records;
  records.reserve(static_cast<size_t>(reply.records_size()));
  for (const v1::UsageRecord& record : reply.records()) records.push_back(FromProto(record));
  return records;
}

absl::StatusOr<ResourceUsage> BootstrapClient::GetLeaseUsage(uint64_t lease,
                                                             absl::Duration timeout) {
  UnaryCall call(*channel_, "tell about usage", timeout);
  v1::GetUsageRequest request;
  request.set_lease(lease);
  v1::GetUsageReply reply;
  absl::Status status = call.Run<v1::Accounting>(&v1::Accounting::Stub::GetUsage, request, &reply);
  if (!status.ok()) return status;
  if (!reply.has_lease_usage()) {
    return call.BadReply(absl::UnimplementedError("it does not tell of a single lease"));
  }
  return FromProto(reply.lease_usage());
}

absl::StatusOr<std::vector<DropCount>> BootstrapClient::GetDropped(absl::Duration timeout) {
  UnaryCall call(*channel_, "tell what it has dropped", timeout);
  v1::GetDroppedReply reply;
  absl::Status status =
      call.Run<v1::Accounting>(&v1::Accounting::Stub::GetDropped, v1::GetDroppedRequest(), &reply);
  if (!status.ok()) return status;
  std::vector<DropCount> counts;
  counts.reserve(static_cast<size_t>(reply.dropped_size()));
  for (const auto& drop : reply.dropped()) counts.push_back({drop.reason(), drop.count()});
  return counts;
}

absl::StatusOr<ServerStatus> BootstrapClient::GetStatus(absl::Duration timeout) {
  UnaryCall call(*channel_, "tell its status", timeout);
  v1::GetStatusReply reply;
  absl::Status status =
      call.Run<v1::Status>(&v1::Status::Stub::GetStatus, v1::GetStatusRequest(), &reply);
  if (!status.ok()) return status;
  return FromProto(reply);
}

absl::Status BootstrapClient::EndLease(uint64_t number, absl::Duration timeout) {
  UnaryCall call(*channel_, "end the lease", timeout);
  v1::EndLeaseRequest request;
  request.set_number(number);
  v1::EndLeaseReply reply;
  return call.Run<v1::Operations>(&v1::Operations::Stub::EndLease, request, &reply);
}

absl::Status BootstrapClient::Drain(absl::Duration timeout) {
  UnaryCall call(*channel_, "drain", timeout);
  v1::DrainReply reply;
  return call.Run<v1::Operations>(&v1::Operations::Stub::Drain, v1::DrainRequest(), &reply);
}

absl::StatusOr<ContributionTarget> BootstrapClient::Contribute(const Contribution& contribution,
                                                               absl::Duration timeout) {
  UnaryCall call(*channel_, "take usage", timeout);
  v1::ContributeReply reply;
  absl::Status status =
      call.Run<v1::Accounting>(&v1::Accounting::Stub::Contribute, ToProto(contribution), &reply);
  if (!status.ok()) return status;
  absl::StatusOr<ContributionTarget> target = FromProto(reply, contribution.tenants.size());
  if (!target.ok()) return call.BadReply(target.status());
  return target;
}

}  // namespace invoker::bootstrap
