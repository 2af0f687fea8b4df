// The worker process: executors on every fabric that it may serve, the functions of the libraries
// it is given, leases of executors in processes of their own, and the bootstrap service.
//
// Prints one line of JSON on standard output when it is ready, logs to standard error, and ends
// cleanly on SIGTERM or SIGINT.

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "invoker/notification.h"
#include "invoker/version.h"
#include "src/accounting/server_accounting.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/bootstrap/service/server.h"
#include "src/code/blob_cache.h"
#include "src/code/code_service.h"
#include "src/invoke/function/function_library.h"
#include "src/invoke/function/function_registry.h"
#include "src/invoke/worker/worker.h"
#include "src/isolation/spawner/executor_spawner.h"
#include "src/lease/lease_host.h"
#include "src/lease/spawner_source.h"
#include "src/security/access_control.h"
#include "src/security/certificates.h"
#include "tools/log_throttle.h"
#include "tools/options.h"
#include "tools/protobuf_log.h"
#include "tools/server_options.h"
#include "tools/server_ready.h"
#include "tools/service_manager.h"
#include "tools/stop_watchdog.h"

namespace invoker::tools {
namespace {

constexpr char kProgram[] = "invoker_server";

// What stopping may take beyond --drain-timeout before the server ends without a function that runs
// on.
constexpr absl::Duration kStopGrace = absl::Seconds(5);

void LogLine(absl::string_view message) { Log(kProgram, message); }

absl::StatusOr<FunctionRegistry> LoadFunctions(
    const std::vector<std::string>& paths,
    std::vector<std::unique_ptr<FunctionLibrary>>* libraries) {
  FunctionRegistry registry;
  for (const std::string& path : paths) {
    absl::StatusOr<std::unique_ptr<FunctionLibrary>> library = FunctionLibrary::Load(path);
    if (!library.ok()) return library.status();
    if (absl::Status status = (*library)->RegisterAll(&registry); !status.ok()) return status;
    libraries->push_back(*std::move(library));
  }
  return registry;
}

// What leased executors are made from: they serve what the worker has proven.
SpawnerOptions SpawnerOptionsFor(const ServerSettings& settings, const Worker& worker) {
  SpawnerOptions options = settings.spawner;
  options.libraries = settings.functions;
  options.worker = settings.worker;
  options.worker.executors = 1;
  options.log = [](absl::string_view message) { LogLine(message); };
  options.worker.providers.clear();
  for (const transport::FabricChoice& fabric : worker.fabrics()) {
    options.worker.providers.push_back(fabric.profile.provider);
  }
  return options;
}

absl::StatusOr<std::unique_ptr<ExecutorSpawner>> StartSpawner(const SpawnerOptions& options) {
  absl::StatusOr<std::unique_ptr<ExecutorSpawner>> spawner = ExecutorSpawner::Start(options);
  if (!spawner.ok()) return spawner.status();
  for (const std::string& note : (*spawner)->Notes()) LogLine(note);
  return spawner;
}

// A server that was not asked for leases does without them where their executors' program, which is
// installed beside this one, is missing.
void LeaveLeasesOutIfMissing(ServerSettings* settings) {
  if (settings->leases_asked_for || settings->policy.total.cores == 0) return;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = self.parent_path() / "invoker_executor";
  if (!error && access(program.c_str(), X_OK) == 0) return;
  LogLine(
      absl::StrCat("clients can lease no executors of their own: there is no program ", program));
  settings->policy.total = Resources();
}

UsageReading ReadingOf(const UsageCounters& counters) {
  UsageReading reading;
  reading.calls = counters.calls;
  reading.function_time = absl::Nanoseconds(counters.function_ns);
  reading.polling_time = absl::Nanoseconds(counters.polling_ns);
  reading.bytes_in = counters.bytes_in;
  reading.bytes_out = counters.bytes_out;
  return reading;
}

absl::StatusOr<std::unique_ptr<BlobCache>> OpenCache(const ServerSettings& settings) {
  if (settings.upload == UploadPolicy::kNone) return std::unique_ptr<BlobCache>();
  BlobCacheOptions options;
  options.directory = settings.upload_cache;
  options.capacity_bytes = settings.upload_cache_bytes;
  return BlobCache::Open(options);
}

// What a client can cause as often as it likes.
struct ClientsDoings {
  LogThrottle sessions{"sessions that ended", LogLine};
  LogThrottle leases{"leases that ended", LogLine};
  LogThrottle downgrades{"sessions that gave up write_imm", LogLine};
  LogThrottle endpoints{"endpoints replaced, and sessions refused for want of one", LogLine};

  void Finish() {
    for (LogThrottle* each : {&sessions, &leases, &downgrades, &endpoints}) each->Finish();
  }
};

// `log` outlives what is told, until Silence.
void Announce(Worker* worker, LeaseHost* host, bootstrap::Server* server, ClientsDoings* log) {
  const auto session_closed = [server, log](uint64_t lease, uint64_t handle,
                                            absl::string_view reason) {
    log->sessions.Log(absl::StrCat("a session ended: ", reason));
    server->NotifySessionClosed(lease, handle, reason);
  };
  const auto downgraded = [log](absl::string_view provider, absl::string_view reason) {
    log->downgrades.Log(absl::StrCat(
        "a session over ", provider, " uses ", NotificationName(Notification::kSendAfterWrite),
        ", because its client reports: ", reason.empty() ? "no reason" : reason));
  };
  worker->set_on_session_closed(session_closed);
  worker->set_on_downgraded(downgraded);
  worker->set_on_endpoint([log](absl::string_view note) { log->endpoints.Log(note); });
  host->set_events({session_closed, downgraded, [log](absl::string_view reason) {
                      log->leases.Log(absl::StrCat("a lease ended: ", reason));
                    }});
}

void Silence(Worker* worker, LeaseHost* host) {
  worker->set_on_session_closed(nullptr);
  host->set_events({});
}

// SIGHUP is for the files of security where there are such, and ends the server where there are
// none.
void TakeHangups(int signal_fd) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signalfd(signal_fd, &set, SFD_CLOEXEC);
}

// Meanwhile tells the service manager that the server is alive: `check` returns then.
void AwaitSignal(int signal_fd, security::AccessControl* access, ServiceManager* manager,
                 const std::function<void()>& check) {
  const absl::Duration period = manager->alive_period();
  const int patience =
      period == absl::InfiniteDuration() ? -1 : static_cast<int>(absl::ToInt64Milliseconds(period));
  signalfd_siginfo signal;
  while (true) {
    pollfd readable = {signal_fd, POLLIN, 0};
    if (poll(&readable, 1, patience) == 0) {
      check();
      manager->Alive();
      continue;
    }
    if (read(signal_fd, &signal, sizeof(signal)) != sizeof(signal)) continue;
    if (signal.ssi_signo != SIGHUP) break;
    access->Reload();
  }
  manager->Stopping();
  LogLine(absl::StrCat("received ", strsignal(static_cast<int>(signal.ssi_signo)), "; draining"));
}

void StopAll(absl::Duration limit, Worker* worker, LeaseHost* host, bootstrap::Server* server) {
  StopWatchdog watchdog(kProgram, limit + kStopGrace);
  server->Drain("the server received a signal to stop");
  worker->Drain();
  host->Drain();
  std::thread leases([host, limit] { host->Stop(limit); });
  worker->Stop(limit);
  leases.join();
  server->Stop();
}

// What somebody should look into.
void LogRefusals(const security::AccessControl& access, uint64_t forbidden,
                 const bootstrap::SessionTokens::Counters& tokens) {
  if (access.refused() == 0 && tokens.total() == 0 && forbidden == 0) return;
  LogLine(absl::StrCat("requests refused for want of a token or a tenant: ", access.refused(),
                       "; calls of functions that are not for who called: ", forbidden,
                       "; session tokens refused: ", tokens.total(), " (unknown ", tokens.unknown,
                       ", used before ", tokens.replayed, ", expired ", tokens.expired,
                       ", of another lease ", tokens.foreign, ")"));
}

void LogClosedConnections(const bootstrap::AcceptorCounters& closed) {
  if (closed.too_many + closed.too_many_of_one + closed.no_descriptor == 0) return;
  LogLine(absl::StrCat("connections closed at once: ", closed.too_many,
                       " beyond --max-connections, ", closed.too_many_of_one,
                       " beyond --max-connections-per-source, ", closed.no_descriptor,
                       " for want of a descriptor"));
}

absl::Status Serve(ServerSettings settings, int signal_fd) {
  ServiceManager manager;
  // Before anything is started: a mistake in these files is found out at once.
  absl::StatusOr<std::unique_ptr<security::AccessControl>> access =
      security::AccessControl::Open({settings.token_file, settings.policy_file, LogLine});
  if (!access.ok()) return access.status();
  if ((*access)->required()) TakeHangups(signal_fd);
  ClientsDoings doings;
  // Outlive the worker, which runs what is in them.
  std::vector<std::unique_ptr<FunctionLibrary>> libraries;
  absl::StatusOr<FunctionRegistry> functions = LoadFunctions(settings.functions, &libraries);
  if (!functions.ok()) return functions.status();
  const bool no_functions = functions->size() == 0;
  absl::StatusOr<std::string> address = bootstrap::InterfaceToListenOn(settings.listen);
  if (!address.ok()) return address.status();
  settings.worker.addresses.preferred_ip = *std::move(address);
  absl::StatusOr<std::unique_ptr<Worker>> worker =
      Worker::Start(settings.worker, *std::move(functions));
  if (!worker.ok()) return worker.status();

  LeaveLeasesOutIfMissing(&settings);
  SpawnerSource spawner(
      [options = SpawnerOptionsFor(settings, **worker)] { return StartSpawner(options); });
  if (settings.leases_asked_for) spawner.StartSoon();
  absl::StatusOr<std::unique_ptr<ServerAccounting>> accounting = ServerAccounting::Start(
      settings.accounting, (*worker)->fabrics(), settings.worker.executors, LogLine);
  if (!accounting.ok()) return accounting.status();
  absl::StatusOr<std::unique_ptr<BlobCache>> cache = OpenCache(settings);
  if (!cache.ok()) return cache.status();
  const LeaseHost::Shared shared = {worker->get(), [raw = worker->get()](uint64_t lease) {
                                      return ReadingOf(raw->UsageUnder(lease));
                                    }};
  LeaseHost host(settings.policy, shared, &spawner, (*accounting)->book());
  bootstrap::ServerOptions server_options;
  server_options.listen = settings.listen;
  server_options.lease_expiry = settings.peer_timeout;
  server_options.heartbeat_interval = std::min(
      server_options.heartbeat_interval, settings.peer_timeout / bootstrap::kHeartbeatsPerTimeout);
  server_options.connections = settings.connections;
  server_options.sessions = settings.sessions;
  server_options.allow_plaintext = settings.allow_plaintext;
  server_options.security = {settings.tls, access->get(), LogLine};
  server_options.services = {(*accounting)->service(),
                             MakeCodeService(cache->get(), settings.upload)};
  absl::StatusOr<std::unique_ptr<bootstrap::Server>> server =
      bootstrap::Server::Start(server_options, &host);
  if (!server.ok()) return server.status();
  Announce(worker->get(), &host, server->get(), &doings);
  absl::Status status = settings.leases_asked_for ? spawner.Get().status() : absl::OkStatus();
  if (status.ok()) status = PrintReady(**worker, host.Info(), **server, settings.upload);
  if (!status.ok()) {
    Silence(worker->get(), &host);
    return status;
  }
  for (const std::string& note : (*worker)->notes()) LogLine(note);
  if (no_functions) LogLine("no functions: clients can only ping; see --functions");
  LogLine(absl::StrCat("serving at ", (*server)->listen_address()));
  manager.Ready();

  // It takes every lock that a request takes: a server that has locked itself up is not alive.
  AwaitSignal(signal_fd, access->get(), &manager, [&host] { host.Info(); });
  StopAll(settings.drain_timeout, worker->get(), &host, server->get());
  const ExecutorCounters counters = (*worker)->Counters();
  const std::string drops = TotalDrops(counters.dropped) == 0
                                ? ""
                                : absl::StrCat(" (", DescribeDrops(counters.dropped), ")");
  LogLine(absl::StrCat("stopped; calls run: ", counters.executed, ", refused: ", counters.refused,
                       ", bad messages: ", TotalDrops(counters.dropped), drops,
                       ", sessions that gave up write_imm: ", (*worker)->downgrades()));
  doings.Finish();
  LogRefusals(**access, counters.dropped.forbidden, (*server)->refused_session_tokens());
  LogClosedConnections((*server)->refused_connections());
  if (const uint64_t refused = (*server)->refused_sessions(); refused > 0) {
    LogLine(absl::StrCat("sessions refused because of a limit or of their endpoint: ", refused));
  }
  return absl::OkStatus();
}

// What a start would find out before it tries a fabric.
absl::Status Check(const ServerSettings& settings) {
  std::vector<std::unique_ptr<FunctionLibrary>> libraries;
  absl::Status status = LoadFunctions(settings.functions, &libraries).status();
  if (status.ok()) status = bootstrap::InterfaceToListenOn(settings.listen).status();
  if (status.ok()) status = security::LoadCertificates(settings.tls).status();
  if (status.ok()) {
    status = security::AccessControl::Open({settings.token_file, settings.policy_file, LogLine})
                 .status();
  }
  if (status.ok()) LogLine("the options can be used");
  return status;
}

// Blocks the signals that end the server, in this thread and in all that it starts, so that only
// the descriptor sees them. A fabric library that installs handlers of its own then cannot take its
// files away under running calls.
int TakeSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &set, SFD_CLOEXEC);
}

int Main(int argc, char** argv) {
  RouteProtobufLog(kProgram);
  const int signal_fd = TakeSignals();
  if (signal_fd < 0) {
    Log(kProgram, absl::StrCat("error: signalfd: ", strerror(errno)));
    return kExitFailed;
  }
  CLI::App app(
      "Runs functions for remote callers. Prints one line of JSON when it is ready; ends on "
      "SIGTERM or SIGINT.",
      kProgram);
  app.set_version_flag("--version", Version());
  app.footer("Exit status: 0 stopped by a signal, 1 could not serve, 2 bad arguments.");
  ServerSettings settings;
  ServerFlags flags;
  AddServerOptions(&app, &settings, &flags);
  bool check_only = false;
  app.add_flag("--check-config", check_only,
               "say whether the options and the files that they name can be used, and end")
      ->configurable(false);
  const Configuration configuration = {"INVOKER_SERVER_", kServersFile, kServersFile};
  if (const int code = Parse(&app, configuration, argc, argv); code >= 0) return code;
  absl::Status status = Settle(app, flags, &settings);
  if (status.ok()) status = check_only ? Check(settings) : Serve(std::move(settings), signal_fd);
  if (status.ok()) return kExitOk;
  Log(kProgram, absl::StrCat("error: ", status.message()));
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitFailed;
}

}  // namespace
}  // namespace invoker::tools

int main(int argc, char** argv) { return invoker::tools::Main(argc, argv); }
