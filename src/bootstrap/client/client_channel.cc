#include "src/bootstrap/client/client_channel.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/status.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/bootstrap/client/failure.h"
#include "src/bootstrap/messages/answer_mark.h"
#include "src/security/channel.h"
#include "src/security/client_credentials.h"
#include "src/security/token.h"

namespace invoker::bootstrap {
namespace {

// The names, signatures and docs of all functions that a worker can have fit.
constexpr int kMaxReplyBytes = 16 << 20;
constexpr int kMaxMetadataBytes = 16 << 10;

// In plaintext only where nobody else can listen, unless the user insists.
absl::Status CheckPlaintext(const HostPort& address, const ClientCredentials& credentials) {
  if (credentials.tls() || credentials.plaintext || IsLoopback(address.host)) {
    return absl::OkStatus();
  }
  const absl::StatusOr<bool> loopback = LeadsToLoopback(address.host);
  if (!loopback.ok()) {
    return absl::UnavailableError(absl::StrCat("no invoker_server answers at ",
                                               FormatHostPort(address), ": ",
                                               loopback.status().message(), "; check the host"));
  }
  if (*loopback) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      FormatHostPort(address),
      " is another machine's address, and the connection would not be encrypted",
      credentials.token_file.empty() ? "" : ", nor the token that goes over it",
      ": name the file of the authorities that sign its certificate (--tls-ca, INVOKER_TLS_CA, "
      "tls_ca=), or say that the network is trusted (--plaintext, INVOKER_PLAINTEXT=1, "
      "plaintext=True)"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<ClientChannel>> ClientChannel::Make(
    const HostPort& address, const ClientCredentials& credentials) {
  absl::StatusOr<ClientCredentials> complete = security::Complete(credentials);
  if (!complete.ok()) return complete.status();
  if (absl::Status status = CheckPlaintext(address, *complete); !status.ok()) return status;
  std::shared_ptr<ClientChannel> made(new ClientChannel(address, *complete));
  absl::MutexLock lock(&made->mutex_);
  if (!complete->token_file.empty()) {
    made->token_stamp_ = security::StampOf(complete->token_file);
    absl::StatusOr<std::vector<std::string>> tokens = security::ReadTokenFile(complete->token_file);
    if (!tokens.ok()) return tokens.status();
    made->token_ = std::move(tokens->front());
  }
  made->stamps_ = security::StampsOf(made->paths());
  absl::StatusOr<security::Certificates> certificates = security::LoadCertificates(made->paths());
  if (!certificates.ok()) return certificates.status();
  made->Connect(*certificates);
  return made;
}

ClientChannel::ClientChannel(const HostPort& address, const ClientCredentials& credentials)
    : address_(address), name_(FormatHostPort(address)), credentials_(credentials) {}

security::CertificatePaths ClientChannel::paths() const {
  return {credentials_.tls_cert, credentials_.tls_key, credentials_.tls_ca};
}

void ClientChannel::Connect(const security::Certificates& certificates) const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  arguments.SetMaxReceiveMessageSize(kMaxReplyBytes);
  if (!credentials_.tls_server_name.empty()) {
    arguments.SetSslTargetNameOverride(credentials_.tls_server_name);
  }
  channel_ = security::OpenChannel(GrpcTarget(address_),
                                   credentials_.tls() ? &certificates : nullptr, arguments);
}

std::shared_ptr<grpc::Channel> ClientChannel::channel() const {
  absl::MutexLock lock(&mutex_);
  if (credentials_.tls()) {
    std::vector<security::FileStamp> now = security::StampsOf(paths());
    if (now != stamps_) {
      const auto certificates = security::LoadCertificates(paths());
      if (certificates.ok()) Connect(*certificates);
      if (!security::WorthAnotherTry(certificates.status())) stamps_ = std::move(now);
    }
  }
  return channel_;
}

void ClientChannel::Reconnect() {
  absl::MutexLock lock(&mutex_);
  const auto certificates = security::LoadCertificates(paths());
  if (certificates.ok()) Connect(*certificates);
}

void ClientChannel::Authorize(grpc::ClientContext* context) const {
  if (credentials_.token_file.empty()) return;
  absl::MutexLock lock(&mutex_);
  const security::FileStamp now = security::StampOf(credentials_.token_file);
  if (now != token_stamp_) {
    auto tokens = security::ReadTokenFile(credentials_.token_file);
    if (!security::WorthAnotherTry(tokens.status())) token_stamp_ = now;
    if (tokens.ok()) token_ = std::move(tokens->front());
  }
  context->AddMetadata(security::kTokenMetadata, absl::StrCat(security::kTokenScheme, token_));
}

absl::Status ClientChannel::Explain(absl::string_view operation, const grpc::ClientContext& context,
                                    const grpc::Status& status, absl::Duration timeout) const {
  if (status.ok()) return absl::OkStatus();
  // CancelCalls or a server that ends has cancelled it.
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
  if (!credentials_.tls()) {
    return ExplainFailure(address_, call, nullptr, ReserveForExplanation(timeout));
  }
  TlsSettings tls;
  // Reads them now: those that the call had may have been replaced because they did not do.
  if (auto certificates = security::LoadCertificates(paths()); certificates.ok()) {
    tls.certificates = *std::move(certificates);
  }
  tls.authorities_file = credentials_.tls_ca;
  tls.certificate_file = credentials_.tls_cert;
  tls.server_name = credentials_.tls_server_name;
  return ExplainFailure(address_, call, &tls, ReserveForExplanation(timeout));
}

void ClientChannel::Begin(grpc::ClientContext* context) {
  absl::MutexLock lock(&mutex_);
  calls_.insert(context);
  if (silent_) context->TryCancel();
}

void ClientChannel::End(grpc::ClientContext* context) {
  absl::MutexLock lock(&mutex_);
  calls_.erase(context);
}

void ClientChannel::CancelCalls() {
  absl::MutexLock lock(&mutex_);
  silent_ = true;
  for (grpc::ClientContext* context : calls_) context->TryCancel();
}

bool ClientChannel::Answered(const grpc::ClientContext& context) {
  return context.GetServerTrailingMetadata().count(kAnswerMarkKey) > 0;
}

std::shared_ptr<SessionTokenPool> ClientChannel::SessionTokensOf(uint64_t lease) const {
  absl::MutexLock lock(&mutex_);
  const auto found = pools_.find(lease);
  return found == pools_.end() ? nullptr : found->second;
}

void ClientChannel::SetSessionTokens(uint64_t lease, std::shared_ptr<SessionTokenPool> pool) {
  absl::MutexLock lock(&mutex_);
  if (pool == nullptr) {
    pools_.erase(lease);
  } else {
    pools_[lease] = std::move(pool);
  }
}

}  // namespace invoker::bootstrap
