#include "src/python/native/server/native_server.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "invoker/worker.h"
#include "src/base/start_thread.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/bootstrap/service/server.h"
#include "src/python/native/errors.h"
#include "src/python/native/gil.h"
#include "src/security/access_control.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

// The numeric address that `listen` stands for if it is that of one interface, else "".
absl::StatusOr<std::string> AddressToListenOn(const std::string& listen) {
  absl::StatusOr<bootstrap::HostPort> address = bootstrap::ParseHostPort(listen);
  if (!address.ok()) return address.status();
  address = bootstrap::ResolveListenAddress(*address);
  if (!address.ok()) return address.status();
  const bool any = address->host == "0.0.0.0" || address->host == "::";
  return any ? std::string() : address->host;
}

absl::StatusOr<WorkerOptions> MakeWorkerOptions(const NativeServer::Options& options) {
  WorkerOptions worker;
  if (!options.provider.empty()) worker.providers = absl::StrSplit(options.provider, ',');
  worker.addresses.given = options.fabric_address;
  absl::StatusOr<std::string> address = AddressToListenOn(options.listen);
  if (!address.ok()) return address.status();
  worker.addresses.preferred_ip = *std::move(address);
  if (!transport::ParseNotification(options.notify, &worker.notification)) {
    return absl::InvalidArgumentError(
        absl::StrCat("notify=\"", options.notify,
                     "\" is not one of \"auto\", \"write_imm\", \"send_after_write\""));
  }
  const std::optional<DataAuth> data_auth = ParseDataAuth(options.data_auth);
  if (!data_auth.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data_auth=\"", options.data_auth, "\" is not one of \"off\", \"header\", \"full\""));
  }
  worker.data_auth = *data_auth;
  if (options.window_bytes != 0) worker.window_bytes = options.window_bytes;
  worker.executors = options.executors;
  worker.endpoint_watch.period = kServersEndpointCheck;
  worker.executor.hot_timeout = absl::Seconds(options.hot_timeout_s);
  return worker;
}

// Refuses what `invoker_server --peer-timeout` refuses.
absl::Status CheckPeerTimeout(double seconds) {
  constexpr double kLeast = 0.1;
  constexpr double kMost = 24 * 3600;
  if (seconds >= kLeast && seconds <= kMost) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("peer_timeout=", seconds, " is not from ", kLeast, " to ", kMost, " seconds"));
}

// Files of security that have changed, what is wrong with them, and endpoints replaced. Any thread.
void LogLine(absl::string_view message) {
  const std::string line = absl::StrCat("invoker: ", message, "\n");
  fwrite(line.data(), 1, line.size(), stderr);
}

// The open servers'. Under the GIL.
std::vector<std::string>& OpenAddresses() {
  static auto* addresses = new std::vector<std::string>;
  return *addresses;
}

}  // namespace

// What has threads, without the GIL.
class NativeServer::Serving {
 public:
  static absl::StatusOr<std::shared_ptr<Serving>> Start(const Options& options,
                                                        FunctionRegistry functions) {
    const absl::StatusOr<WorkerOptions> worker_options = MakeWorkerOptions(options);
    if (!worker_options.ok()) return worker_options.status();
    if (absl::Status status = CheckPeerTimeout(options.peer_timeout_s); !status.ok()) return status;
    auto serving = std::make_shared<Serving>();
    absl::StatusOr<std::unique_ptr<security::AccessControl>> access =
        security::AccessControl::Open({options.token_file, options.policy_file, &LogLine});
    if (!access.ok()) return access.status();
    serving->access_ = *std::move(access);
    absl::StatusOr<std::unique_ptr<Worker>> worker =
        Worker::Start(*worker_options, std::move(functions));
    if (!worker.ok()) return worker.status();
    serving->worker_ = *std::move(worker);
    for (const std::string& note : serving->worker_->notes()) LogLine(note);
    bootstrap::ServerOptions server_options;
    server_options.listen = options.listen;
    server_options.lease_expiry = absl::Seconds(options.peer_timeout_s);
    server_options.heartbeat_interval =
        std::min(server_options.heartbeat_interval,
                 server_options.lease_expiry / bootstrap::kHeartbeatsPerTimeout);
    server_options.allow_plaintext = options.allow_plaintext;
    server_options.security = {options.tls, serving->access_.get(), &LogLine};
    absl::StatusOr<std::unique_ptr<bootstrap::Server>> server =
        bootstrap::Server::Start(server_options, serving->worker_.get());
    if (!server.ok()) return server.status();
    serving->server_ = *std::move(server);
    serving->worker_->set_on_endpoint(&LogLine);
    serving->worker_->set_on_session_closed(
        [server = serving->server_.get()](uint64_t lease, uint64_t handle,
                                          absl::string_view reason) {
          server->NotifySessionClosed(lease, handle, reason);
        });
    return serving;
  }

  void Stop(absl::Duration drain_timeout) {
    server_->Drain("the server was closed");
    worker_->Drain();
    worker_->Stop(drain_timeout);
    server_->Stop();
  }

  Worker& worker() { return *worker_; }
  const std::string& address() const { return server_->listen_address(); }

 private:
  std::unique_ptr<security::AccessControl> access_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<bootstrap::Server> server_;
};

NativeServer::NativeServer() = default;

std::unique_ptr<NativeServer> NativeServer::Start(std::vector<Function> functions,
                                                  const Options& options) {
  if (const absl::Status status = BeginUse(); !status.ok()) Raise(status);
  if (std::isnan(options.hot_timeout_s)) throw py::value_error("hot_timeout is not a number");
  std::unique_ptr<NativeServer> server(new NativeServer);
  FunctionRegistry registry;
  for (Function& function : functions) {
    server->functions_.push_back(std::make_unique<PythonFunction>(
        std::move(function.callable),
        function.framed ? PythonFunction::Form::kFramed : PythonFunction::Form::kPlain));
    const absl::StatusOr<uint16_t> id = registry.Add(server->functions_.back()->Entry(
        std::move(function.name), std::move(function.doc), "the call of invoker.serve"));
    if (!id.ok()) Raise(id.status());
  }
  absl::StatusOr<std::shared_ptr<Serving>> serving =
      WithoutGil([&] { return Serving::Start(options, std::move(registry)); });
  if (!serving.ok()) Raise(serving.status());
  server->serving_ = *std::move(serving);
  server->address_ = server->serving_->address();
  OpenAddresses().push_back(server->address_);
  for (const transport::FabricChoice& fabric : server->serving_->worker().fabrics()) {
    server->providers_.push_back(fabric.profile.provider);
  }
  return server;
}

// The host may have many names, so the port decides. If another process has the same port at
// another address of this host, all that its clients here lose is a faster fabric.
bool NativeServer::MayServe(const std::string& address) {
  const absl::StatusOr<bootstrap::HostPort> asked = bootstrap::ParseHostPort(address);
  if (!asked.ok()) return false;
  return std::any_of(OpenAddresses().begin(), OpenAddresses().end(), [&](const auto& open) {
    const absl::StatusOr<bootstrap::HostPort> served = bootstrap::ParseHostPort(open);
    return served.ok() && served->port == asked->port;
  });
}

uint64_t NativeServer::CallsRun() {
  const std::shared_ptr<Serving> serving = serving_;
  if (serving == nullptr || forked()) {
    Raise(absl::FailedPreconditionError(serving == nullptr ? "the server has been closed"
                                                           : "this server is another process's"));
  }
  return WithoutGil([&] { return serving->worker().Counters().executed; });
}

void NativeServer::Close(double drain_timeout_s) {
  if (serving_ == nullptr) return;
  if (PythonFunction::IsRunning() && !forked()) {
    Raise(absl::FailedPreconditionError(
        "a function cannot close the server that runs it: let another thread do it"));
  }
  std::shared_ptr<Serving> serving = Take();
  if (forked()) {
    // The threads that it needs to end are the parent's: leave it alone, for good.
    Leave(std::move(serving));
    return;
  }
  WithoutGil([&] {
    serving->Stop(absl::Seconds(drain_timeout_s));
    serving.reset();
    return true;
  });
}

void NativeServer::LetGo() {
  if (serving_ == nullptr) return;
  if (!PythonFunction::IsRunning() || forked()) return Close(0);
  std::shared_ptr<Serving> serving = Take();
  std::thread thread;
  const absl::Status started =
      transport::StartThread(&thread, [serving] { serving->Stop(absl::ZeroDuration()); });
  Leave(std::move(serving));
  if (started.ok()) thread.detach();
}

std::shared_ptr<NativeServer::Serving> NativeServer::Take() {
  OpenAddresses().erase(std::find(OpenAddresses().begin(), OpenAddresses().end(), address_));
  return std::exchange(serving_, nullptr);
}

// Keeps what may still run, and the functions that it refers to, for as long as the process lives.
void NativeServer::Leave(std::shared_ptr<Serving> serving) {
  new std::shared_ptr<Serving>(std::move(serving));
  for (std::unique_ptr<PythonFunction>& function : functions_) function.release();
}

}  // namespace invoker::python
