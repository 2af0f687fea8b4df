#include "src/python/native/server/native_server.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/base/start_thread.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/bootstrap/service/server.h"
#include "src/python/native/errors.h"
#include "src/python/native/gil.h"

namespace invoker::python {
namespace {

namespace py = pybind11;

absl::StatusOr<ServerOptions> MakeServerOptions(const NativeServer::Options& options) {
  ServerOptions server;
  server.listen = options.listen;
  server.provider = options.provider;
  server.fabric_address = options.fabric_address;
  if (!ParseNotification(options.notify, &server.notification)) {
    return absl::InvalidArgumentError(
        absl::StrCat("notify=\"", options.notify,
                     "\" is not one of \"auto\", \"write_imm\", \"send_after_write\""));
  }
  const std::optional<DataAuth> data_auth = ParseDataAuth(options.data_auth);
  if (!data_auth.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data_auth=\"", options.data_auth, "\" is not one of \"off\", \"header\", \"full\""));
  }
  server.data_auth = *data_auth;
  server.window_bytes = options.window_bytes;
  server.executors = options.executors;
  server.hot_timeout = absl::Seconds(options.hot_timeout_s);
  server.peer_timeout = absl::Seconds(options.peer_timeout_s);
  server.tls_cert = options.tls_cert;
  server.tls_key = options.tls_key;
  server.tls_client_ca = options.tls_client_ca;
  server.token_file = options.token_file;
  server.policy_file = options.policy_file;
  server.allow_plaintext = options.allow_plaintext;
  server.cluster = options.cluster;
  server.cluster_credentials = options.cluster_credentials;
  server.metrics = options.metrics;
  server.advertise = options.advertise;
  server.labels = options.labels;
  return server;
}

// The open servers'. Under the GIL.
std::vector<std::string>& OpenAddresses() {
  static auto* addresses = new std::vector<std::string>;
  return *addresses;
}

}  // namespace

NativeServer::NativeServer() = default;

std::unique_ptr<NativeServer> NativeServer::Start(std::vector<Function> functions,
                                                  const Options& options) {
  if (const absl::Status status = BeginUse(); !status.ok()) Raise(status);
  if (std::isnan(options.hot_timeout_s)) throw py::value_error("hot_timeout is not a number");
  const absl::StatusOr<ServerOptions> server_options = MakeServerOptions(options);
  if (!server_options.ok()) Raise(server_options.status());
  std::unique_ptr<NativeServer> server(new NativeServer);
  auto serving = std::make_shared<Server>(*server_options);
  for (Function& function : functions) {
    server->functions_.push_back(
        function.signature.empty()
            ? std::make_unique<PythonFunction>(
                  std::move(function.callable),
                  function.framed ? PythonFunction::Form::kFramed : PythonFunction::Form::kPlain,
                  function.coroutine)
            : std::make_unique<PythonFunction>(std::move(function.callable),
                                               SignatureCodec::Parse(function.signature),
                                               function.coroutine));
    serving->Register(
        server->functions_.back()->Entry(std::move(function.name), std::move(function.doc),
                                         "the call of invoker.serve", function.concurrency));
  }
  const absl::Status status = WithoutGil([&] {
    absl::Status started = serving->Start();
    if (!started.ok()) serving.reset();
    return started;
  });
  if (!status.ok()) Raise(status);
  server->address_ = serving->address();
  server->metrics_address_ = serving->metrics_address();
  server->providers_ = serving->providers();
  server->serving_ = std::move(serving);
  OpenAddresses().push_back(server->address_);
  return server;
}

// The host may have many names, so the port decides. If another process has the same port at
// another address of this host, all that its clients here lose is a faster fabric.
bool NativeServer::MayServe(const std::string& address) {
  if (absl::StrContains(address, "://")) return !OpenAddresses().empty();
  if (absl::StrContains(address, ',')) {
    const std::vector<std::string> list = absl::StrSplit(address, ',');
    return std::any_of(list.begin(), list.end(), &MayServe);
  }
  const absl::StatusOr<bootstrap::HostPort> asked =
      bootstrap::ParseHostPort(absl::StripAsciiWhitespace(address));
  if (!asked.ok()) return false;
  return std::any_of(OpenAddresses().begin(), OpenAddresses().end(), [&](const auto& open) {
    const absl::StatusOr<bootstrap::HostPort> served = bootstrap::ParseHostPort(open);
    return served.ok() && served->port == asked->port;
  });
}

uint64_t NativeServer::CallsRun() {
  const std::shared_ptr<Server> serving = serving_;
  if (serving == nullptr || forked()) {
    Raise(absl::FailedPreconditionError(serving == nullptr ? "the server has been closed"
                                                           : "this server is another process's"));
  }
  return WithoutGil([&] { return serving->CallsRun(); });
}

void NativeServer::Close(double drain_timeout_s) {
  if (serving_ == nullptr) return;
  if (PythonFunction::IsRunning() && !forked()) {
    Raise(absl::FailedPreconditionError(
        "a function cannot close the server that runs it: let another thread do it"));
  }
  std::shared_ptr<Server> serving = Take();
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
  std::shared_ptr<Server> serving = Take();
  std::thread thread;
  const absl::Status started =
      transport::StartThread(&thread, [serving] { serving->Stop(absl::ZeroDuration()); });
  Leave(std::move(serving));
  if (started.ok()) thread.detach();
}

std::shared_ptr<Server> NativeServer::Take() {
  OpenAddresses().erase(std::find(OpenAddresses().begin(), OpenAddresses().end(), address_));
  return std::exchange(serving_, nullptr);
}

// Keeps what may still run, and the functions that it refers to, for as long as the process lives.
void NativeServer::Leave(std::shared_ptr<Server> serving) {
  new std::shared_ptr<Server>(std::move(serving));
  for (std::unique_ptr<PythonFunction>& function : functions_) function.release();
}

}  // namespace invoker::python
