#include "src/bootstrap/service/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>

#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/lease/lease_table.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/bootstrap/service/bootstrap_service.h"
#include "src/bootstrap/service/memory_service.h"

namespace invoker::bootstrap {
namespace {

// No request is larger than a chunk of an upload, or a few addresses and windows.
constexpr int kMaxRequestBytes = 64 << 10;
// No answer is larger than the names, signatures and docs of all functions that a worker can have.
constexpr int kMaxReplyBytes = 96 << 20;
// The longest token fits twice.
constexpr int kMaxMetadataBytes = 16 << 10;
// Streams of one connection at a time: leases, uploads and requests. gRPC keeps what is beyond that
// waiting at the client.
constexpr int kMaxStreams = 1024;
// All connections together: under pressure gRPC refuses new ones and reads less from the others.
constexpr size_t kMaxBufferBytes = size_t{512} << 20;
// How long requests and streams that are under way may take to end by themselves when the server
// stops.
constexpr auto kStopGrace = std::chrono::seconds(2);
// A client whose own pings keep coming faster than this is sent away.
constexpr int kMinClientPingMs = 100;

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerOptions& options, SessionHost* host)
      : max_request_threads_(options.max_request_threads),
        handshake_timeout_ms_(absl::ToInt64Milliseconds(options.handshake_timeout)),
        keepalive_interval_ms_(absl::ToInt64Milliseconds(options.keepalive_interval)),
        keepalive_timeout_(options.keepalive_timeout),
        connection_limits_(options.connections),
        tokens_(options.session_token_expiry),
        host_(options.sessions, host),
        table_(options.lease_expiry, &host_) {
    const LeaseTimes times = {options.heartbeat_interval, options.lease_expiry};
    const ServiceParts parts = {&host_, &table_, options.security.access};
    services_.push_back(
        std::make_unique<BootstrapService>(times, &host_, &table_, &tokens_, parts.access));
    services_.push_back(std::make_unique<MemoryService>(&host_, &table_, parts.access));
    for (const ServiceFactory& make : options.services) services_.push_back(make(parts));
  }
  ~Impl() { Stop(); }

  absl::Status Listen(const HostPort& address,
                      const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                               static_cast<int>(keepalive_interval_ms_));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                               static_cast<int>(absl::ToInt64Milliseconds(keepalive_timeout_)));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kMinClientPingMs);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                               static_cast<int>(handshake_timeout_ms_));
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
    builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
    builder.SetMaxSendMessageSize(kMaxReplyBytes);
    grpc::ResourceQuota quota;
    quota.Resize(kMaxBufferBytes);
    quota.SetMaxThreads(max_request_threads_);
    builder.SetResourceQuota(quota);
    absl::StatusOr<std::unique_ptr<Acceptor>> acceptor =
        Acceptor::Listen(address, connection_limits_, keepalive_timeout_);
    if (!acceptor.ok()) return acceptor.status();
    connections_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
    for (const auto& service : services_) builder.RegisterService(service.get());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return absl::UnavailableError(absl::StrCat("cannot serve at ", FormatHostPort(address),
                                                 ": gRPC could not start its server"));
    }
    acceptor_ = *std::move(acceptor);
    listen_address_ = FormatHostPort(HostPort{address.host, acceptor_->port()});
    SetServing(true);
    acceptor_->Start([connections = connections_.get()](int fd) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters one;
      one.fd = fd;
      connections->HandleNewConnection(&one);
    });
    return absl::OkStatus();
  }

  const std::string& listen_address() const { return listen_address_; }
  LeaseTable& table() { return table_; }
  LimitedHost& host() { return host_; }
  const SessionTokens& tokens() const { return tokens_; }
  AcceptorCounters refused_connections() const { return acceptor_->counters(); }

  void Drain(absl::string_view reason) {
    table_.Drain(reason);
    SetServing(false);
  }

  void Stop() {
    std::lock_guard<std::mutex> lock(stop_mutex_);
    if (stopped_) return;
    stopped_ = true;
    table_.EndAll(absl::UnavailableError("the server is stopping"));
    if (acceptor_ != nullptr) acceptor_->Stop();
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now() + kStopGrace);
      server_->Wait();
    }
    table_.Join();
  }

 private:
  void SetServing(bool serving) {
    grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
    if (health == nullptr) return;
    health->SetServingStatus(v1::Bootstrap::service_full_name(), serving);
    health->SetServingStatus(serving);
  }

  const int max_request_threads_;
  const int64_t handshake_timeout_ms_;
  const int64_t keepalive_interval_ms_;
  const absl::Duration keepalive_timeout_;
  const ConnectionLimits connection_limits_;
  SessionTokens tokens_;
  LimitedHost host_;
  LeaseTable table_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;  // after the services: it goes first
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<Acceptor> acceptor_;  // last: its thread uses all of the above
  std::string listen_address_;
  std::mutex stop_mutex_;
  bool stopped_ = false;
};

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      SessionHost* host) {
  if (options.heartbeat_interval <= absl::ZeroDuration() ||
      options.lease_expiry <= options.heartbeat_interval ||
      options.lease_expiry > absl::Hours(24)) {
    return absl::InvalidArgumentError(
        absl::StrCat("leases need 0 < heartbeat interval < expiry <= 24h, but the interval is ",
                     absl::FormatDuration(options.heartbeat_interval), " and the expiry ",
                     absl::FormatDuration(options.lease_expiry)));
  }
  if (options.max_request_threads < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("a server needs 2 threads for requests, not ", options.max_request_threads));
  }
  const auto outside = [](absl::Duration duration) {
    return duration < absl::Milliseconds(1) || duration > absl::Hours(1);
  };
  if (options.session_token_expiry <= absl::ZeroDuration() || outside(options.handshake_timeout)) {
    return absl::InvalidArgumentError(
        "session tokens need an expiry of more than 0, and handshakes a timeout of 1ms to 1h");
  }
  if (outside(options.keepalive_interval) || outside(options.keepalive_timeout)) {
    return absl::InvalidArgumentError(
        "connections need a keepalive interval and a keepalive timeout of 1ms to 1h");
  }
  const security::CertificatePaths& tls = options.security.tls;
  if (tls.certificate.empty() != tls.key.empty() ||
      (tls.certificate.empty() && !tls.authorities.empty())) {
    return absl::InvalidArgumentError(
        "TLS needs both a certificate and its private key; clients can be asked for certificates "
        "only then");
  }
  absl::StatusOr<HostPort> wanted = ParseHostPort(options.listen);
  if (!wanted.ok()) return wanted.status();
  absl::StatusOr<HostPort> address = ResolveListenAddress(*wanted);
  if (!address.ok()) return address.status();
  if (tls.certificate.empty() && !options.allow_plaintext && !IsLoopback(address->host)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "other machines reach ", FormatHostPort(*address),
        ", and nothing that goes there would be encrypted: give a certificate and its key "
        "(--tls-cert, --tls-key), listen on 127.0.0.1, or say --allow-plaintext if the network is "
        "trusted"));
  }
  const absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials =
      MakeServerCredentials(options.security);
  if (!credentials.ok()) return credentials.status();
  auto impl = std::make_unique<Impl>(options, host);
  if (absl::Status status = impl->Listen(*address, *credentials); !status.ok()) return status;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

const std::string& Server::listen_address() const { return impl_->listen_address(); }

SessionTokens::Counters Server::refused_session_tokens() const {
  return impl_->tokens().counters();
}

AcceptorCounters Server::refused_connections() const { return impl_->refused_connections(); }

uint64_t Server::refused_sessions() const { return impl_->host().refused(); }

void Server::NotifySessionClosed(uint64_t lease, uint64_t handle, absl::string_view reason) {
  impl_->host().OnSessionEnded(lease, handle);
  impl_->table().NotifySessionClosed(lease, handle, reason);
}

void Server::Drain(absl::string_view reason) { impl_->Drain(reason); }

void Server::CloseToCalls(absl::Duration limit) {
  impl_->table().CloseToCalls(absl::ToChronoNanoseconds(limit));
}

void Server::Stop() { impl_->Stop(); }

}  // namespace invoker::bootstrap
