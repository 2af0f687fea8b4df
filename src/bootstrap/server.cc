#include "src/bootstrap/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/bootstrap_service.h"
#include "src/bootstrap/host_port.h"
#include "src/bootstrap/lease_table.h"
#include "src/bootstrap/memory_service.h"

namespace invoker::bootstrap {
namespace {

// No request is larger than a chunk of an upload, or a few addresses and windows.
constexpr int kMaxRequestBytes = 64 << 10;
// How long requests and streams that are under way may take to end by themselves when the server
// stops.
constexpr auto kStopGrace = std::chrono::seconds(2);
// A connection whose other end vanished without a word is found out by gRPC's own pings, too.
constexpr int kKeepaliveTimeMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
// Pings more frequent than this would be refused: the client's may be as frequent as it likes.
constexpr int kMinClientPingMs = 100;

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerOptions& options, SessionHost* host)
      : max_request_threads_(options.max_request_threads), table_(options.lease_expiry, host) {
    const LeaseTimes times = {options.heartbeat_interval, options.lease_expiry};
    services_.push_back(std::make_unique<BootstrapService>(times, host, &table_));
    services_.push_back(std::make_unique<MemoryService>(host, &table_));
    for (const ServiceFactory& make : options.services) services_.push_back(make(host, &table_));
  }
  ~Impl() { Stop(); }

  absl::Status Listen(const HostPort& address) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    // Otherwise two servers would share a port without a word, and each get some of the clients.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kMinClientPingMs);
    builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
    grpc::ResourceQuota quota;
    quota.SetMaxThreads(max_request_threads_);
    builder.SetResourceQuota(quota);
    int port = 0;
    builder.AddListeningPort(FormatHostPort(address), grpc::InsecureServerCredentials(), &port);
    for (const auto& service : services_) builder.RegisterService(service.get());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port <= 0) {
      // Somebody may have been quicker; then this finds out who is in the way.
      absl::StatusOr<HostPort> again = ResolveListenAddress(address);
      if (!again.ok()) return again.status();
      return absl::UnavailableError(absl::StrCat("cannot listen on ", FormatHostPort(address),
                                                 ": gRPC could not start its server there"));
    }
    listen_address_ = FormatHostPort(HostPort{address.host, static_cast<uint16_t>(port)});
    SetServing(true);
    return absl::OkStatus();
  }

  const std::string& listen_address() const { return listen_address_; }
  LeaseTable& table() { return table_; }

  void Drain(absl::string_view reason) {
    table_.Drain(reason);
    SetServing(false);
  }

  void Stop() {
    std::lock_guard<std::mutex> lock(stop_mutex_);
    if (stopped_) return;
    stopped_ = true;
    table_.EndAll(absl::UnavailableError("the server is stopping"));
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
  LeaseTable table_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;  // after the services: it goes first
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
  absl::StatusOr<HostPort> wanted = ParseHostPort(options.listen);
  if (!wanted.ok()) return wanted.status();
  absl::StatusOr<HostPort> address = ResolveListenAddress(*wanted);
  if (!address.ok()) return address.status();
  auto impl = std::make_unique<Impl>(options, host);
  if (absl::Status status = impl->Listen(*address); !status.ok()) return status;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

const std::string& Server::listen_address() const { return impl_->listen_address(); }

void Server::NotifySessionClosed(uint64_t lease, uint64_t handle, absl::string_view reason) {
  impl_->table().NotifySessionClosed(lease, handle, reason);
}

void Server::Drain(absl::string_view reason) { impl_->Drain(reason); }

void Server::Stop() { impl_->Stop(); }

}  // namespace invoker::bootstrap
