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
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "invoker/notification.h"
#include "invoker/version.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/bootstrap/service/server.h"
#include "src/invoke/function/function_library.h"
#include "src/invoke/function/function_registry.h"
#include "src/invoke/worker/worker.h"
#include "src/log/log.h"
#include "src/log/log_throttle.h"
#include "src/security/access_control.h"
#include "src/security/certificates.h"
#include "src/server/assembled_server.h"
#include "tools/options.h"
#include "tools/server_leases.h"
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

// What a client can cause as often as it likes.
struct ClientsDoings {
  LogThrottle sessions{"sessions that ended"};
  LogThrottle leases{"leases that ended"};
  LogThrottle downgrades{"sessions that gave up write_imm"};
  LogThrottle endpoints{"endpoints replaced, and sessions refused for want of one"};

  void Finish() {
    for (LogThrottle* each : {&sessions, &leases, &downgrades, &endpoints}) each->Finish();
  }
};

// `log` outlives the server, which has `leases`.
ServerEvents LoggedEvents(ClientsDoings* log, const ServerLeases* leases) {
  ServerEvents events;
  events.on_session_closed = [log, leases](uint64_t lease, uint64_t session,
                                           absl::string_view reason) {
    log->sessions.Log(LogLevel::kInfo, absl::StrCat("a session ended: ", reason),
                      {leases->NumberOf(lease), session});
  };
  events.on_downgraded = [log](absl::string_view provider, absl::string_view reason) {
    log->downgrades.Log(
        LogLevel::kInfo,
        absl::StrCat("a session over ", provider, " uses ",
                     NotificationName(Notification::kSendAfterWrite),
                     ", because its client reports: ", reason.empty() ? "no reason" : reason));
  };
  events.on_endpoint = [log](absl::string_view note) {
    log->endpoints.Log(LogLevel::kWarning, note);
  };
  return events;
}

AssemblyOptions AssemblyFor(const ServerSettings& settings) {
  AssemblyOptions assembly;
  assembly.worker = settings.worker;
  assembly.service.listen = settings.listen;
  assembly.service.connections = settings.connections;
  assembly.service.sessions = settings.sessions;
  assembly.service.allow_plaintext = settings.allow_plaintext;
  assembly.service.security = {settings.tls, nullptr};
  assembly.peer_timeout = settings.peer_timeout;
  assembly.access = {settings.token_file, settings.policy_file};
  assembly.metrics = settings.metrics;
  assembly.cluster = settings.cluster;
  assembly.drain = [] { kill(getpid(), SIGTERM); };
  return assembly;
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

// Meanwhile tells the service manager that the server is alive.
// It asks the server for its answer to clients first, which takes every lock that a request takes:
// a server that has locked itself up is not alive.
void AwaitSignal(int signal_fd, AssembledServer* server, ServiceManager* manager) {
  const absl::Duration period = manager->alive_period();
  const int patience =
      period == absl::InfiniteDuration() ? -1 : static_cast<int>(absl::ToInt64Milliseconds(period));
  signalfd_siginfo signal;
  while (true) {
    pollfd readable = {signal_fd, POLLIN, 0};
    if (poll(&readable, 1, patience) == 0) {
      server->Info();
      manager->Alive();
      continue;
    }
    if (read(signal_fd, &signal, sizeof(signal)) != sizeof(signal)) continue;
    if (signal.ssi_signo != SIGHUP) break;
    server->access().Reload();
  }
  manager->Stopping();
  LogInfo(absl::StrCat("received ", strsignal(static_cast<int>(signal.ssi_signo)), "; draining"));
}

// What somebody should look into.
void LogRefusals(const security::AccessControl& access, uint64_t forbidden,
                 const bootstrap::SessionTokens::Counters& tokens) {
  if (access.refused() == 0 && tokens.total() == 0 && forbidden == 0) return;
  LogInfo(absl::StrCat("requests refused for want of a token or a tenant: ", access.refused(),
                       "; calls of functions that are not for who called: ", forbidden,
                       "; session tokens refused: ", tokens.total(), " (unknown ", tokens.unknown,
                       ", used before ", tokens.replayed, ", expired ", tokens.expired,
                       ", of another lease ", tokens.foreign, ")"));
}

void LogClosedConnections(const bootstrap::AcceptorCounters& closed) {
  if (closed.too_many + closed.too_many_of_one + closed.no_descriptor == 0) return;
  LogInfo(absl::StrCat("connections closed at once: ", closed.too_many,
                       " beyond --max-connections, ", closed.too_many_of_one,
                       " beyond --max-connections-per-source, ", closed.no_descriptor,
                       " for want of a descriptor"));
}

void LogTotals(AssembledServer* server) {
  Worker& worker = server->worker();
  const ExecutorCounters counters = worker.Counters();
  const std::string drops = TotalDrops(counters.dropped) == 0
                                ? ""
                                : absl::StrCat(" (", DescribeDrops(counters.dropped), ")");
  LogInfo(absl::StrCat("stopped; calls run: ", counters.executed, ", refused: ", counters.refused,
                       ", bad messages: ", TotalDrops(counters.dropped), drops,
                       ", sessions that gave up write_imm: ", worker.downgrades()));
  const bootstrap::Server& service = server->service();
  LogRefusals(server->access(), counters.dropped.forbidden, service.refused_session_tokens());
  LogClosedConnections(service.refused_connections());
  if (const uint64_t refused = service.refused_sessions(); refused > 0) {
    LogInfo(absl::StrCat("sessions refused because of a limit or of their endpoint: ", refused));
  }
}

absl::Status Serve(const ServerSettings& settings, int signal_fd) {
  ServiceManager manager;
  if (!settings.token_file.empty() || !settings.policy_file.empty()) TakeHangups(signal_fd);
  ClientsDoings doings;
  // Outlive the worker, which runs what is in them.
  std::vector<std::unique_ptr<FunctionLibrary>> libraries;
  absl::StatusOr<FunctionRegistry> functions = LoadFunctions(settings.functions, &libraries);
  if (!functions.ok()) return functions.status();
  const bool no_functions = functions->size() == 0;
  absl::StatusOr<std::unique_ptr<AssembledServer>> started =
      AssembledServer::Start(AssemblyFor(settings), *std::move(functions));
  if (!started.ok()) return started.status();
  AssembledServer& server = **started;

  ServerLeases* raw_leases = nullptr;
  const auto lease_lost = [&doings, &raw_leases](uint64_t lease, absl::string_view reason) {
    doings.leases.Log(LogLevel::kWarning, absl::StrCat("a lease ended: ", reason),
                      {raw_leases->NumberOf(lease), 0});
  };
  absl::StatusOr<std::unique_ptr<ServerLeases>> leases =
      ServerLeases::Start(settings, &server.worker(), lease_lost);
  if (!leases.ok()) return leases.status();
  raw_leases = leases->get();
  absl::Status status = server.Serve(*std::move(leases), LoggedEvents(&doings, raw_leases));
  if (status.ok()) status = raw_leases->Await();
  if (!status.ok()) return status;
  status = PrintReady(server.worker(), server.Info(), server.service(), settings.upload,
                      server.metrics_address());
  if (!status.ok()) return status;
  for (const std::string& note : server.worker().notes()) LogWarning(note);
  if (no_functions) LogInfo("no functions: clients can only ping; see --functions");
  LogInfo(absl::StrCat("serving at ", server.service().listen_address()));
  manager.Ready();

  AwaitSignal(signal_fd, &server, &manager);
  {
    StopWatchdog watchdog(settings.drain_timeout + kStopGrace);
    server.Stop(settings.drain_timeout);
  }
  LogTotals(&server);
  doings.Finish();
  return absl::OkStatus();
}

// What a start would find out before it tries a fabric.
absl::Status Check(const ServerSettings& settings) {
  std::vector<std::unique_ptr<FunctionLibrary>> libraries;
  absl::Status status = LoadFunctions(settings.functions, &libraries).status();
  if (status.ok()) status = bootstrap::InterfaceToListenOn(settings.listen).status();
  if (status.ok()) status = security::LoadCertificates(settings.tls).status();
  if (status.ok()) {
    status = security::AccessControl::Open({settings.token_file, settings.policy_file}).status();
  }
  if (status.ok()) status = cluster::Registration::Check(settings.cluster);
  if (status.ok()) LogInfo("the options can be used");
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
  const int signal_fd = TakeSignals();
  if (signal_fd < 0) {
    LogError(absl::StrCat("signalfd: ", strerror(errno)));
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
  SetLog(settings.log, kProgram);
  if (status.ok()) status = check_only ? Check(settings) : Serve(settings, signal_fd);
  if (status.ok()) return kExitOk;
  LogError(status.message());
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitFailed;
}

}  // namespace
}  // namespace invoker::tools

int main(int argc, char** argv) { return invoker::tools::Main(argc, argv); }
