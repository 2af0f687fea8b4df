#include "src/bootstrap/client_channel.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/status.h>

#include "absl/strings/str_cat.h"
#include "src/bootstrap/answer_mark.h"
#include "src/bootstrap/failure.h"

namespace invoker::bootstrap {
namespace {

// After a failed connection gRPC refuses at once until this is over; a worker is often started in
// the same moment as its client.
constexpr int kFirstReconnectMs = 100;
constexpr int kLargestReconnectMs = 1000;

std::shared_ptr<grpc::Channel> MakeChannel(const HostPort& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // With the global pool, another client's back-off after a failure would hide a server that has
  // just been restarted.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLargestReconnectMs);
  return grpc::CreateCustomChannel(GrpcTarget(address), grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace

ClientChannel::ClientChannel(const HostPort& address)
    : address_(address), name_(FormatHostPort(address)), channel_(MakeChannel(address)) {}

absl::Status ClientChannel::Explain(absl::string_view operation, const grpc::ClientContext& context,
                                    const grpc::Status& status, absl::Duration timeout) const {
  if (status.ok()) return absl::OkStatus();
  // By CancelCalls, or by a server that ends.
  if (status.error_code() == grpc::StatusCode::CANCELLED && !Answered(context)) {
    return absl::UnavailableError(absl::StrCat(
        "could not ", operation, ": invoker_server at ", name_,
        " answers no more: it is shutting down, or is stopped, or the network is down"));
  }
  FailedCall call;
  call.operation = operation;
  call.status =
      absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  call.answered = Answered(context);
  call.timeout = timeout;
  return ExplainFailure(address_, call, ReserveForExplanation(timeout));
}

void ClientChannel::Begin(grpc::ClientContext* context) {
  absl::MutexLock lock(&mutex_);
  calls_.insert(context);
}

void ClientChannel::End(grpc::ClientContext* context) {
  absl::MutexLock lock(&mutex_);
  calls_.erase(context);
}

void ClientChannel::CancelCalls() {
  absl::MutexLock lock(&mutex_);
  for (grpc::ClientContext* context : calls_) context->TryCancel();
}

bool ClientChannel::Answered(const grpc::ClientContext& context) {
  return context.GetServerTrailingMetadata().count(kAnswerMarkKey) > 0;
}

}  // namespace invoker::bootstrap
