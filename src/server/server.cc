#include "invoker/server.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/invoke/worker/worker.h"
#include "src/log/log.h"
#include "src/server/assembled_server.h"

namespace invoker {
namespace {

constexpr absl::Duration kLeastPeerTimeout = absl::Milliseconds(100);
constexpr absl::Duration kMostPeerTimeout = absl::Hours(24);

AssemblyOptions MakeAssemblyOptions(const ServerOptions& options) {
  AssemblyOptions assembly;
  WorkerOptions& worker = assembly.worker;
  if (!options.provider.empty()) worker.providers = absl::StrSplit(options.provider, ',');
  worker.addresses.given = options.fabric_address;
  worker.notification = options.notification;
  worker.data_auth = options.data_auth;
  if (options.window_bytes != 0) worker.window_bytes = options.window_bytes;
  worker.executors = options.executors;
  worker.endpoint_watch.period = kServersEndpointCheck;
  worker.executor.hot_timeout = options.hot_timeout;
  assembly.service.listen = options.listen;
  assembly.service.allow_plaintext = options.allow_plaintext;
  assembly.service.security.tls = {options.tls_cert, options.tls_key, options.tls_client_ca};
  assembly.peer_timeout = options.peer_timeout;
  assembly.access = {options.token_file, options.policy_file};
  assembly.metrics = options.metrics;
  assembly.cluster = {options.cluster, options.cluster_credentials, options.advertise,
                      options.labels};
  return assembly;
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
  explicit Parts(ServerOptions options) : options_(std::move(options)) {}

  void Add(FunctionEntry entry, std::shared_ptr<const void> context) {
    if (entry.library.empty()) entry.library = "this program";
    entries_.push_back(std::move(entry));
    contexts_.push_back(std::move(context));
  }

  absl::Status Start() {
    if (started_) return absl::FailedPreconditionError("the server has been started already");
    started_ = true;
    absl::Status status = CheckPeerTimeout(options_.peer_timeout);
    FunctionRegistry functions;
    if (status.ok()) status = functions.AddAll(std::move(entries_));
    if (!status.ok()) return status;
    absl::StatusOr<std::unique_ptr<AssembledServer>> server =
        AssembledServer::Start(MakeAssemblyOptions(options_), std::move(functions));
    if (!server.ok()) return server.status();
    for (const std::string& note : (*server)->worker().notes()) LogWarning(note);
    status = (*server)->Serve(nullptr,
                              {nullptr, nullptr, [](absl::string_view note) { LogWarning(note); }});
    if (status.ok()) server_ = *std::move(server);
    if (status.ok()) address_ = server_->service().listen_address();
    return status;
  }

  const std::string& address() const { return address_; }
  // nullptr: not started.
  AssembledServer* server() const { return server_.get(); }

 private:
  ServerOptions options_;
  bool started_ = false;
  std::string address_;
  std::vector<FunctionEntry> entries_;                 // until Start
  std::vector<std::shared_ptr<const void>> contexts_;  // outlive what runs the functions
  std::unique_ptr<AssembledServer> server_;
};

Server::Server(ServerOptions options) : parts_(std::make_unique<Parts>(std::move(options))) {}

Server::~Server() { Stop(absl::ZeroDuration()); }

void Server::Register(FunctionEntry entry) { Keep(std::move(entry), nullptr); }

void Server::Keep(FunctionEntry entry, std::shared_ptr<const void> context) {
  parts_->Add(std::move(entry), std::move(context));
}

absl::Status Server::Start() { return parts_->Start(); }

const std::string& Server::address() const { return parts_->address(); }

std::string Server::metrics_address() const {
  return parts_->server() == nullptr ? "" : parts_->server()->metrics_address();
}

std::vector<std::string> Server::providers() const {
  std::vector<std::string> providers;
  if (parts_->server() == nullptr) return providers;
  for (const transport::FabricChoice& fabric : parts_->server()->worker().fabrics()) {
    providers.push_back(fabric.profile.provider);
  }
  return providers;
}

uint64_t Server::CallsRun() const {
  return parts_->server() == nullptr ? 0 : parts_->server()->worker().Counters().executed;
}

void Server::Drain() {
  if (parts_->server() != nullptr) parts_->server()->Drain();
}

void Server::Stop(absl::Duration limit) {
  if (parts_->server() != nullptr) parts_->server()->Stop(limit);
}

}  // namespace invoker
