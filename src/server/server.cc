#include "invoker/server.h"

#include <algorithm>
#include <cstdio>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/bootstrap/service/server.h"
#include "src/invoke/worker/worker.h"
#include "src/security/access_control.h"

namespace invoker {
namespace {

constexpr absl::Duration kLeastPeerTimeout = absl::Milliseconds(100);
constexpr absl::Duration kMostPeerTimeout = absl::Hours(24);

void LogToStandardError(absl::string_view message) {
  const std::string line = absl::StrCat("invoker: ", message, "\n");
  fwrite(line.data(), 1, line.size(), stderr);
}

absl::StatusOr<WorkerOptions> MakeWorkerOptions(const ServerOptions& options) {
  WorkerOptions worker;
  if (!options.provider.empty()) worker.providers = absl::StrSplit(options.provider, ',');
  worker.addresses.given = options.fabric_address;
  absl::StatusOr<std::string> address = bootstrap::InterfaceToListenOn(options.listen);
  if (!address.ok()) return address.status();
  worker.addresses.preferred_ip = *std::move(address);
  worker.notification = options.notification;
  worker.data_auth = options.data_auth;
  if (options.window_bytes != 0) worker.window_bytes = options.window_bytes;
  worker.executors = options.executors;
  worker.endpoint_watch.period = kServersEndpointCheck;
  worker.executor.hot_timeout = options.hot_timeout;
  return worker;
}

absl::Status CheckPeerTimeout(absl::Duration timeout) {
  if (timeout >= kLeastPeerTimeout && timeout <= kMostPeerTimeout) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "peer_timeout is ", absl::FormatDuration(timeout), ", and must be from ",
      absl::FormatDuration(kLeastPeerTimeout), " to ", absl::FormatDuration(kMostPeerTimeout)));
}

}  // namespace

class Server::Parts {
 public:
  explicit Parts(ServerOptions options) : options_(std::move(options)) {
    if (!options_.log) options_.log = &LogToStandardError;
  }

  void Add(FunctionEntry entry, std::shared_ptr<const void> context) {
    if (entry.library.empty()) entry.library = "this program";
    entries_.push_back(std::move(entry));
    contexts_.push_back(std::move(context));
  }

  absl::Status Start() {
    if (started_) return absl::FailedPreconditionError("the server has been started already");
    started_ = true;
    const absl::StatusOr<WorkerOptions> worker_options = MakeWorkerOptions(options_);
    if (!worker_options.ok()) return worker_options.status();
    absl::Status status = CheckPeerTimeout(options_.peer_timeout);
    FunctionRegistry functions;
    if (status.ok()) status = functions.AddAll(std::move(entries_));
    if (!status.ok()) return status;
    absl::StatusOr<std::unique_ptr<security::AccessControl>> access =
        security::AccessControl::Open({options_.token_file, options_.policy_file, options_.log});
    if (!access.ok()) return access.status();
    access_ = *std::move(access);
    absl::StatusOr<std::unique_ptr<Worker>> worker =
        Worker::Start(*worker_options, std::move(functions));
    if (!worker.ok()) return worker.status();
    worker_ = *std::move(worker);
    for (const std::string& note : worker_->notes()) options_.log(note);
    absl::StatusOr<std::unique_ptr<bootstrap::Server>> service =
        bootstrap::Server::Start(MakeServiceOptions(), worker_.get());
    if (!service.ok()) return service.status();
    service_ = *std::move(service);
    worker_->set_on_endpoint(options_.log);
    worker_->set_on_session_closed(
        [service = service_.get()](uint64_t lease, uint64_t handle, absl::string_view reason) {
          service->NotifySessionClosed(lease, handle, reason);
        });
    address_ = service_->listen_address();
    return absl::OkStatus();
  }

  const std::string& address() const { return address_; }
  Worker* worker() const { return worker_.get(); }

  void Drain() {
    if (service_ == nullptr) return;
    service_->Drain("the server is stopping");
    worker_->Drain();
  }

  void Stop(absl::Duration limit) {
    if (service_ == nullptr || stopped_) return;
    stopped_ = true;
    Drain();
    worker_->Stop(limit);
    service_->Stop();
  }

 private:
  bootstrap::ServerOptions MakeServiceOptions() const {
    bootstrap::ServerOptions service;
    service.listen = options_.listen;
    service.lease_expiry = options_.peer_timeout;
    service.heartbeat_interval = std::min(service.heartbeat_interval,
                                          service.lease_expiry / bootstrap::kHeartbeatsPerTimeout);
    service.allow_plaintext = options_.allow_plaintext;
    service.security = {
        {options_.tls_cert, options_.tls_key, options_.tls_client_ca}, access_.get(), options_.log};
    return service;
  }

  ServerOptions options_;
  bool started_ = false;
  bool stopped_ = false;
  std::string address_;
  std::vector<FunctionEntry> entries_;                 // until Start
  std::vector<std::shared_ptr<const void>> contexts_;  // outlive what runs the functions
  std::unique_ptr<security::AccessControl> access_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<bootstrap::Server> service_;
};

Server::Server(ServerOptions options) : parts_(std::make_unique<Parts>(std::move(options))) {}

Server::~Server() { Stop(absl::ZeroDuration()); }

void Server::Register(FunctionEntry entry) { Keep(std::move(entry), nullptr); }

void Server::Keep(FunctionEntry entry, std::shared_ptr<const void> context) {
  parts_->Add(std::move(entry), std::move(context));
}

absl::Status Server::Start() { return parts_->Start(); }

const std::string& Server::address() const { return parts_->address(); }

std::vector<std::string> Server::providers() const {
  std::vector<std::string> providers;
  if (parts_->worker() == nullptr) return providers;
  for (const transport::FabricChoice& fabric : parts_->worker()->fabrics()) {
    providers.push_back(fabric.profile.provider);
  }
  return providers;
}

uint64_t Server::CallsRun() const {
  return parts_->worker() == nullptr ? 0 : parts_->worker()->Counters().executed;
}

void Server::Drain() { parts_->Drain(); }

void Server::Stop(absl::Duration limit) { parts_->Stop(limit); }

}  // namespace invoker
