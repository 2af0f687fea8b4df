#include "src/bootstrap/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/answer_mark.h"
#include "src/bootstrap/compatibility.h"
#include "src/bootstrap/convert.h"
#include "src/bootstrap/host_port.h"
#include "src/bootstrap/lease_table.h"

namespace invoker::bootstrap {
namespace {

// No request is larger than a few addresses and windows.
constexpr int kMaxRequestBytes = 64 << 10;
// How long requests and streams that are under way may take to end by themselves when the server
// stops.
constexpr auto kStopGrace = std::chrono::seconds(2);
// A connection whose other end vanished without a word is found out by gRPC's own pings, too.
constexpr int kKeepaliveTimeMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
// Pings more frequent than this would be refused: the client's may be as frequent as it likes.
constexpr int kMinClientPingMs = 100;

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

void Mark(grpc::ServerContextBase* context) {
  context->AddTrailingMetadata(kAnswerMarkKey, kAnswerMarkValue);
}

// One lease's stream. gRPC calls it from its own threads, the table from any; at most one write is
// under way, and Finish is called only when none is, which is what keeps the object alive for a
// write: OnDone comes after Finish.
class LeaseReactor final : public grpc::ServerBidiReactor<v1::LeaseRequest, v1::LeaseEvent>,
                           public LeaseStream {
 public:
  // The reactor owns itself until OnDone.
  static LeaseReactor* Start(grpc::CallbackServerContext* context, const ServerOptions& options,
                             LeaseTable* table) {
    auto reactor = std::shared_ptr<LeaseReactor>(new LeaseReactor(context, table));
    LeaseReactor* raw = reactor.get();
    reactor->self_ = reactor;
    raw->Begin(options, std::move(reactor));
    return raw;
  }

  void SendDraining(absl::string_view reason) override {
    v1::LeaseEvent event;
    event.mutable_draining()->set_reason(std::string(reason));
    Send(std::move(event));
  }

  void SendSessionClosed(uint64_t handle, absl::string_view reason) override {
    v1::LeaseEvent event;
    event.mutable_session_closed()->set_handle(handle);
    event.mutable_session_closed()->set_reason(std::string(reason));
    Send(std::move(event));
  }

  void SendExpired(absl::string_view reason) override {
    v1::LeaseEvent event;
    event.mutable_ended()->set_cause(v1::LeaseEvent::Ended::EXPIRED);
    event.mutable_ended()->set_reason(std::string(reason));
    Send(std::move(event));
  }

  void End(const absl::Status& status) override {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!end_.has_value()) end_ = ToGrpc(status);
    Advance(std::move(lock));
  }

  void Cancel() override {
    std::lock_guard<std::mutex> lock(context_mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      table_->End(lease_);
      End(absl::OkStatus());
      return;
    }
    table_->Renew(lease_);
    std::unique_lock<std::mutex> lock(mutex_);
    acknowledge_ = request_.heartbeat().sequence();
    const bool ending = end_.has_value();
    Advance(std::move(lock));
    if (!ending) StartRead(&request_);
  }

  void OnWriteDone(bool ok) override {
    std::unique_lock<std::mutex> lock(mutex_);
    writing_ = false;
    if (!ok) {
      // The client is gone; the read fails as well and ends the lease.
      broken_ = true;
      events_.clear();
      acknowledge_.reset();
    }
    Advance(std::move(lock));
  }

  void OnDone() override {
    {
      std::lock_guard<std::mutex> lock(context_mutex_);
      context_ = nullptr;
    }
    table_->StreamDone(lease_);
    // Every reaction has left its critical section: whoever frees this sees all that they wrote.
    { std::lock_guard<std::mutex> lock(mutex_); }
    // The last owner, unless the table is about to call: freed at the end of the scope.
    const std::shared_ptr<LeaseReactor> self = std::move(self_);
  }

 private:
  LeaseReactor(grpc::CallbackServerContext* context, LeaseTable* table)
      : table_(table), context_(context) {}

  void Begin(const ServerOptions& options, std::shared_ptr<LeaseStream> self) {
    Mark(context_);
    absl::StatusOr<uint64_t> id = LeaseTable::DrawId();
    absl::Status status = id.status();
    if (status.ok()) {
      lease_ = *id;
      v1::LeaseEvent event;
      event.mutable_granted()->set_lease(lease_);
      event.mutable_granted()->set_heartbeat_interval_us(
          absl::ToInt64Microseconds(options.heartbeat_interval));
      event.mutable_granted()->set_expiry_us(absl::ToInt64Microseconds(options.lease_expiry));
      {
        // Queued before anybody knows of the lease, so that it is the first event.
        std::lock_guard<std::mutex> lock(mutex_);
        events_.push_back(std::move(event));
      }
      status = table_->Add(lease_, std::move(self));
    }
    std::unique_lock<std::mutex> lock(mutex_);
    if (!status.ok()) {
      events_.clear();
      end_ = ToGrpc(status);
    }
    Advance(std::move(lock));
    if (status.ok()) StartRead(&request_);
  }

  void Send(v1::LeaseEvent event) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (end_.has_value() || broken_) return;
    events_.push_back(std::move(event));
    Advance(std::move(lock));
  }

  // Starts the next write or the end, if nothing is under way. Starts it without the lock: gRPC may
  // call back from inside.
  void Advance(std::unique_lock<std::mutex> lock) {
    if (writing_ || finished_) return;
    if (!events_.empty()) {
      outgoing_ = std::move(events_.front());
      events_.pop_front();
    } else if (end_.has_value()) {
      finished_ = true;
      const grpc::Status status = *end_;
      lock.unlock();
      Finish(status);
      return;
    } else if (acknowledge_.has_value() && !broken_) {
      // Only the newest is kept: a client that sends faster than it reads costs no memory.
      outgoing_.Clear();
      outgoing_.mutable_heartbeat_ack()->set_sequence(*acknowledge_);
      acknowledge_.reset();
    } else {
      return;
    }
    writing_ = true;
    lock.unlock();
    StartWrite(&outgoing_);
  }

  LeaseTable* const table_;
  uint64_t lease_ = 0;
  std::shared_ptr<LeaseReactor> self_;

  std::mutex context_mutex_;
  grpc::CallbackServerContext* context_;  // null after OnDone

  v1::LeaseRequest request_;  // of the read that is under way
  std::mutex mutex_;
  v1::LeaseEvent outgoing_;  // of the write that is under way
  std::deque<v1::LeaseEvent> events_;
  std::optional<uint64_t> acknowledge_;
  std::optional<grpc::Status> end_;
  bool writing_ = false;
  bool finished_ = false;
  bool broken_ = false;
};

// Unary methods have threads of their own, since the host may block in them; lease streams have
// none, since there may be thousands.
class Service final : public v1::Bootstrap::WithCallbackMethod_Lease<v1::Bootstrap::Service> {
 public:
  Service(const ServerOptions& options, SessionHost* host)
      : options_(options), host_(host), table_(options.lease_expiry, host) {}

  LeaseTable& table() { return table_; }

  grpc::Status GetWorkerInfo(grpc::ServerContext* context, const v1::GetWorkerInfoRequest*,
                             v1::GetWorkerInfoReply* reply) override {
    Mark(context);
    WorkerInfo info = host_->Info();
    info.draining = info.draining || !table_.Admission().ok();
    *reply = ToProto(info);
    return grpc::Status::OK;
  }

  grpc::ServerBidiReactor<v1::LeaseRequest, v1::LeaseEvent>* Lease(
      grpc::CallbackServerContext* context) override {
    return LeaseReactor::Start(context, options_, &table_);
  }

  grpc::Status OpenSession(grpc::ServerContext* context, const v1::OpenSessionRequest* message,
                           v1::OpenSessionReply* reply) override {
    Mark(context);
    absl::StatusOr<OpenSessionReply> opened = Open(*message);
    if (!opened.ok()) return ToGrpc(opened.status());
    *reply = ToProto(*opened);
    return grpc::Status::OK;
  }

  grpc::Status SwitchNotification(grpc::ServerContext* context,
                                  const v1::SwitchNotificationRequest* message,
                                  v1::SwitchNotificationReply*) override {
    Mark(context);
    absl::StatusOr<transport::Notification> notification =
        FromProto(message->notification(), /*allow_auto=*/false);
    if (!notification.ok()) return ToGrpc(notification.status());
    absl::StatusOr<LeaseTable::Use> use = table_.Acquire(message->lease());
    if (!use.ok()) return ToGrpc(use.status());
    return ToGrpc(host_->SwitchNotification(message->lease(), message->handle(), *notification,
                                            PrintableText(message->reason(), kMaxReasonBytes)));
  }

  grpc::Status CloseSession(grpc::ServerContext* context, const v1::CloseSessionRequest* message,
                            v1::CloseSessionReply*) override {
    Mark(context);
    absl::StatusOr<LeaseTable::Use> use = table_.Acquire(message->lease());
    if (!use.ok()) return ToGrpc(use.status());
    return ToGrpc(host_->CloseSession(message->lease(), message->handle()));
  }

 private:
  absl::StatusOr<OpenSessionReply> Open(const v1::OpenSessionRequest& message) {
    if (absl::Status status = table_.Admission(); !status.ok()) return status;
    absl::StatusOr<OpenSessionRequest> request = FromProto(message);
    if (!request.ok()) return request.status();
    if (absl::Status status = CheckCompatible(host_->Info(), *request); !status.ok()) return status;
    absl::StatusOr<LeaseTable::Use> use = table_.Acquire(message.lease());
    if (!use.ok()) return use.status();
    return host_->OpenSession(message.lease(), *request);
  }

  const ServerOptions options_;
  SessionHost* const host_;
  LeaseTable table_;
};

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerOptions& options, SessionHost* host) : service_(options, host) {}
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
    int port = 0;
    builder.AddListeningPort(FormatHostPort(address), grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
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
  LeaseTable& table() { return service_.table(); }

  void Drain(absl::string_view reason) {
    table().Drain(reason);
    SetServing(false);
  }

  void Stop() {
    std::lock_guard<std::mutex> lock(stop_mutex_);
    if (stopped_) return;
    stopped_ = true;
    table().EndAll(absl::UnavailableError("the server is stopping"));
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now() + kStopGrace);
      server_->Wait();
    }
    table().Join();
  }

 private:
  void SetServing(bool serving) {
    grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
    if (health == nullptr) return;
    health->SetServingStatus(v1::Bootstrap::service_full_name(), serving);
    health->SetServingStatus(serving);
  }

  Service service_;
  std::unique_ptr<grpc::Server> server_;  // after the service: it goes first
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
