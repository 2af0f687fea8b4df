#include "src/server/assembled_server.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/log/log.h"
#include "src/security/certificates.h"
#include "src/server/operations_service.h"
#include "src/status/status_server.h"
#include "src/status/status_service.h"

namespace invoker {
namespace {

// For clients to say that they send no further calls. A client that is stopped says nothing.
constexpr absl::Duration kClosingLimit = absl::Seconds(1);

// One that cannot be read is the bootstrap's to report.
void AddCertificates(const std::string& path, bootstrap::ServerStatus* status) {
  if (path.empty()) return;
  const absl::StatusOr<std::vector<security::CertificateDates>> dates = security::ReadDates(path);
  if (!dates.ok()) return;
  for (const security::CertificateDates& each : *dates) {
    status->certificates.emplace_back(each.subject, each.not_after);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<AssembledServer>> AssembledServer::Start(
    AssemblyOptions options, FunctionRegistry functions) {
  // Before anything is started: a mistake in these is found out at once.
  if (absl::Status status = cluster::Registration::Check(options.cluster); !status.ok()) {
    return status;
  }
  absl::StatusOr<std::unique_ptr<security::AccessControl>> access =
      security::AccessControl::Open(options.access);
  if (!access.ok()) return access.status();
  absl::StatusOr<std::string> address = bootstrap::InterfaceToListenOn(options.service.listen);
  if (!address.ok()) return address.status();
  options.worker.addresses.preferred_ip = *std::move(address);
  absl::StatusOr<std::unique_ptr<Worker>> worker =
      Worker::Start(options.worker, std::move(functions));
  if (!worker.ok()) return worker.status();
  return std::unique_ptr<AssembledServer>(
      new AssembledServer(std::move(options), *std::move(access), *std::move(worker)));
}

AssembledServer::AssembledServer(AssemblyOptions options,
                                 std::unique_ptr<security::AccessControl> access,
                                 std::unique_ptr<Worker> worker)
    : options_(std::move(options)), access_(std::move(access)), worker_(std::move(worker)) {}

AssembledServer::~AssembledServer() { Stop(absl::ZeroDuration()); }

absl::Status AssembledServer::Serve(std::unique_ptr<ServerExtension> extension,
                                    ServerEvents events) {
  extension_ = std::move(extension);
  events_ = std::move(events);
  bootstrap::ServerOptions& service = options_.service;
  service.lease_expiry = options_.peer_timeout;
  service.heartbeat_interval =
      std::min(service.heartbeat_interval, service.lease_expiry / bootstrap::kHeartbeatsPerTimeout);
  service.security.access = access_.get();
  if (extension_ != nullptr) service.services = extension_->services();
  service.services.push_back(status::MakeStatusService([this] { return Status(); }));
  service.services.push_back(MakeOperationsService(options_.drain));
  absl::StatusOr<std::unique_ptr<bootstrap::Server>> started =
      bootstrap::Server::Start(service, host());
  if (!started.ok()) return started.status();
  service_ = *std::move(started);
  serving_.store(true, std::memory_order_release);

  const auto session_closed = [this](uint64_t lease, uint64_t handle, absl::string_view reason) {
    if (events_.on_session_closed) events_.on_session_closed(lease, handle, reason);
    service_->NotifySessionClosed(lease, handle, reason);
  };
  worker_->set_on_session_closed(session_closed);
  worker_->set_on_downgraded(events_.on_downgraded);
  worker_->set_on_endpoint(events_.on_endpoint);
  if (extension_ != nullptr) extension_->Watch(session_closed, events_.on_downgraded);
  if (absl::Status status = StartMetrics(); !status.ok()) return status;
  return options_.cluster.cluster.empty() ? absl::OkStatus() : Register();
}

absl::Status AssembledServer::StartMetrics() {
  if (options_.metrics.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<status::HttpServer>> server =
      status::StartStatusServer({options_.metrics, options_.service.security.tls,
                                 options_.service.allow_plaintext, access_.get()},
                                [this] { return Status(); });
  if (!server.ok()) return server.status();
  metrics_ = *std::move(server);
  LogInfo(absl::StrCat("metrics and status at ", metrics_->address()));
  return absl::OkStatus();
}

bootstrap::ServerStatus AssembledServer::Status() const {
  bootstrap::ServerStatus status;
  const bootstrap::WorkerInfo info = Info();
  status.version = info.software_version;
  for (const bootstrap::FabricOffer& fabric : info.fabrics) {
    status.fabrics.push_back(fabric.identity.provider);
  }
  status.capacity = info.capacity;
  host()->AddStatus(&status.worker);
  for (bootstrap::UsageRecord& record : host()->GetUsage("")) {
    if (record.open) status.open_leases.push_back(std::move(record));
  }
  status.started = started_;
  status.draining = draining_.load(std::memory_order_relaxed);
  status.refused_requests = access_->refused();
  status.bulk_bytes = worker_->bulk_bytes_used();
  AddCertificates(options_.service.security.tls.certificate, &status);
  // A client may ask while Serve still runs.
  if (!serving_.load(std::memory_order_acquire)) return status;
  status.address = service_->listen_address();
  const bootstrap::AcceptorCounters closed = service_->refused_connections();
  status.refused_connections = {{"too_many", closed.too_many},
                                {"too_many_of_one", closed.too_many_of_one},
                                {"no_descriptor", closed.no_descriptor}};
  const bootstrap::SessionTokens::Counters tokens = service_->refused_session_tokens();
  status.refused_session_tokens = {{"unknown", tokens.unknown},
                                   {"replayed", tokens.replayed},
                                   {"expired", tokens.expired},
                                   {"foreign", tokens.foreign}};
  status.refused_sessions = service_->refused_sessions();
  return status;
}

absl::Status AssembledServer::Register() {
  const bootstrap::WorkerInfo info = Info();
  cluster::Member self;
  self.incarnation = info.incarnation;
  self.version = info.software_version;
  for (const bootstrap::FabricOffer& fabric : info.fabrics) {
    self.fabrics.push_back(fabric.identity.provider);
  }
  self.executors = info.executors;
  self.cores = info.capacity.cores;
  self.memory_bytes = info.capacity.memory_bytes;
  self.python = info.capacity.python;
  for (const bootstrap::FunctionInfo& function : info.functions) {
    self.functions.push_back(function.name);
  }
  const auto load = [this] {
    const bootstrap::Capacity now = Info().capacity;
    return cluster::Load{now.free_cores, now.free_memory_bytes, now.waiting};
  };
  absl::StatusOr<std::unique_ptr<cluster::Registration>> registration =
      cluster::Registration::Start(options_.cluster, service_->listen_address(), std::move(self),
                                   options_.peer_timeout, load);
  if (!registration.ok()) return registration.status();
  registration_ = *std::move(registration);
  return absl::OkStatus();
}

void AssembledServer::Drain() {
  if (service_ == nullptr || draining_) return;
  draining_ = true;
  if (registration_ != nullptr) registration_->Leave();
  service_->Drain("the server is stopping");
  worker_->Drain();
  if (extension_ != nullptr) extension_->Drain();
}

void AssembledServer::Stop(absl::Duration limit) {
  if (service_ == nullptr || stopped_) return;
  stopped_ = true;
  Drain();
  const absl::Time deadline = absl::Now() + limit;
  // First: the worker's executors go on refusing calls while others still run their last ones.
  if (extension_ != nullptr) extension_->Stop(limit);
  const auto left = [deadline] { return std::max(absl::ZeroDuration(), deadline - absl::Now()); };
  worker_->Finish(left());
  // Meanwhile the executors refuse what clients send before they hear of the end: no call is lost.
  service_->CloseToCalls(std::min(limit, kClosingLimit));
  worker_->Stop(left());
  registration_.reset();
  service_->Stop();
}

}  // namespace invoker
