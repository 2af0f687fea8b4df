// The worker process: executors on every fabric that it may serve, the functions of the libraries
// it is given, and the bootstrap service.
//
// Prints one line of JSON on standard output when it is ready, logs to standard error, and ends
// cleanly on SIGTERM or SIGINT.

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "src/bootstrap/host_port.h"
#include "src/bootstrap/server.h"
#include "src/invoke/function_library.h"
#include "src/invoke/function_registry.h"
#include "src/invoke/version.h"
#include "src/invoke/worker.h"
#include "src/transport/discovery.h"
#include "src/transport/notification.h"
#include "src/transport/provider_profile.h"
#include "tools/options.h"

namespace invoker::tools {
namespace {

constexpr char kProgram[] = "invoker_server";

// What stopping may take beyond --drain_timeout before the server ends without a function that runs
// on.
constexpr absl::Duration kStopGrace = absl::Seconds(5);

struct Settings {
  std::string listen = "127.0.0.1:0";
  std::vector<std::string> functions;
  absl::Duration drain_timeout = absl::Seconds(5);
  WorkerOptions worker;
};

void AddOptions(CLI::App* app, Settings* settings) {
  WorkerOptions& worker = settings->worker;
  app->add_option("--listen", settings->listen,
                  "address of the bootstrap service; port 0 picks a free one. It is neither "
                  "encrypted nor authenticated")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app->add_option(
         "--provider", worker.providers,
         "libfabric providers to serve; auto: every one of this machine that passes a test "
         "at the start. A client takes the best that it shares with the server. Named ones "
         "must all be there")
      ->delimiter(',')
      ->type_name("auto|NAME,...")
      ->default_str(std::string(transport::kAutoProvider));
  app->add_option(
         "--fabric_address", worker.addresses.given,
         "where the fabrics' endpoints are. An IP address or an interface is that of every "
         "fabric addressed by IP; another name is that of the libfabric domain with that "
         "name; a name that no fabric has is an error. By default, for fabrics addressed by "
         "IP, the host of --listen where that is an address of one interface, else the "
         "first interface that is not loopback")
      ->type_name("ADDRESS|INTERFACE|DOMAIN");
  app->add_option("--executors", worker.executors,
                  "executor threads; each has endpoints of its own")
      ->type_name("N")
      ->capture_default_str();
  app->add_option("--functions", settings->functions, "shared libraries with functions")
      ->delimiter(',')
      ->type_name("LIB.SO,...");
  AddNotification(app, "--notify", &worker.notification, "how a peer learns of a write");
  AddBytes(app, "--window", &worker.window_bytes,
           "per session and direction, a power of two; the largest payload is 32 bytes less");
  AddDuration(app, "--hot_timeout", &worker.executor.hot_timeout,
              "how long an executor busy-polls after the last message before it sleeps until the "
              "next; inf: always hot, while it has a session");
  AddDuration(app, "--drain_timeout", &settings->drain_timeout,
              "how long a server that was told to stop waits for a function that runs and for "
              "responses to leave");
}

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

// The numeric address that --listen stands for if it is that of one interface, else "".
absl::StatusOr<std::string> AddressToListenOn(const std::string& listen) {
  absl::StatusOr<bootstrap::HostPort> address = bootstrap::ParseHostPort(listen);
  if (!address.ok()) return address.status();
  address = bootstrap::ResolveListenAddress(*address);
  if (!address.ok()) return address.status();
  const bool any = address->host == "0.0.0.0" || address->host == "::";
  return any ? std::string() : address->host;
}

nlohmann::ordered_json DescribeFabric(const transport::FabricChoice& fabric) {
  nlohmann::ordered_json entry;
  entry["provider"] = fabric.profile.provider;
  entry["fabric_address"] = transport::DescribeSource(*fabric.info);
  entry["notification"] = transport::NotificationName(fabric.profile.notification);
  entry["same_host_only"] = fabric.profile.same_host_only;
  return entry;
}

// "provider" and "fabric_address" are those of the first fabric.
absl::Status PrintReady(const Worker& worker, const bootstrap::Server& server) {
  const bootstrap::WorkerInfo info = worker.Info();
  nlohmann::ordered_json line;
  line["ready"] = true;
  line["listen"] = server.listen_address();
  line["provider"] = worker.fabrics().front().profile.provider;
  line["fabric_address"] = transport::DescribeSource(*worker.fabrics().front().info);
  line["fabrics"] = nlohmann::json::array();
  for (const transport::FabricChoice& fabric : worker.fabrics()) {
    line["fabrics"].push_back(DescribeFabric(fabric));
  }
  line["executors"] = info.executors;
  line["notify"] = transport::NotificationName(info.notification);
  line["window"] = info.window_bytes;
  line["functions"] = nlohmann::json::array();
  for (const bootstrap::FunctionInfo& function : info.functions) {
    line["functions"].push_back(function.name);
  }
  line["pid"] = getpid();
  line["version"] = kVersion;
  // A name with bytes that are not UTF-8 must not end the program.
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (fwrite(text.data(), 1, text.size(), stdout) != text.size() || fflush(stdout) != 0) {
    return absl::UnavailableError("cannot write to standard output");
  }
  return absl::OkStatus();
}

// Ends the process if stopping takes too long: a thread cannot be made to leave a function that
// never returns.
class StopWatchdog {
 public:
  explicit StopWatchdog(absl::Duration limit)
      : thread_([this, limit] {
          if (stopped_.WaitForNotificationWithTimeout(limit)) return;
          Log(kProgram, "error: a function has not returned; ending without it");
          // By the signal's default way, so that fabrics that clean up behind a dying process do
          // so.
          sigset_t set;
          sigemptyset(&set);
          sigaddset(&set, SIGTERM);
          pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
          raise(SIGTERM);
          _exit(kExitFailed);
        }) {}
  ~StopWatchdog() {
    stopped_.Notify();
    thread_.join();
  }

 private:
  absl::Notification stopped_;
  std::thread thread_;
};

absl::Status Serve(Settings settings, int signal_fd) {
  // Outlive the worker, which runs what is in them.
  std::vector<std::unique_ptr<FunctionLibrary>> libraries;
  absl::StatusOr<FunctionRegistry> functions = LoadFunctions(settings.functions, &libraries);
  if (!functions.ok()) return functions.status();
  const bool no_functions = functions->size() == 0;

  WorkerOptions& options = settings.worker;
  absl::StatusOr<std::string> address = AddressToListenOn(settings.listen);
  if (!address.ok()) return address.status();
  options.addresses.preferred_ip = *std::move(address);
  absl::StatusOr<std::unique_ptr<Worker>> worker = Worker::Start(options, *std::move(functions));
  if (!worker.ok()) return worker.status();
  bootstrap::ServerOptions server_options;
  server_options.listen = settings.listen;
  absl::StatusOr<std::unique_ptr<bootstrap::Server>> server =
      bootstrap::Server::Start(server_options, worker->get());
  if (!server.ok()) return server.status();
  (*worker)->set_on_session_closed(
      [&server](uint64_t lease, uint64_t handle, absl::string_view reason) {
        Log(kProgram, absl::StrCat("a session ended: ", reason));
        (*server)->NotifySessionClosed(lease, handle, reason);
      });
  (*worker)->set_on_downgraded([](absl::string_view provider, absl::string_view reason) {
    Log(kProgram,
        absl::StrCat("a session over ", provider, " uses ",
                     transport::NotificationName(transport::Notification::kSendAfterWrite),
                     ", because its client reports: ", reason.empty() ? "no reason" : reason));
  });
  if (absl::Status status = PrintReady(**worker, **server); !status.ok()) {
    (*worker)->set_on_session_closed(nullptr);
    return status;
  }
  for (const std::string& note : (*worker)->notes()) Log(kProgram, note);
  if (no_functions) Log(kProgram, "no functions: clients can only ping; see --functions");
  Log(kProgram, absl::StrCat("serving at ", (*server)->listen_address()));

  signalfd_siginfo signal;
  while (read(signal_fd, &signal, sizeof(signal)) != sizeof(signal)) {
  }
  Log(kProgram,
      absl::StrCat("received ", strsignal(static_cast<int>(signal.ssi_signo)), "; draining"));
  (*server)->Drain("the server received a signal to stop");
  (*worker)->Drain();
  {
    StopWatchdog watchdog(settings.drain_timeout + kStopGrace);
    (*worker)->Stop(settings.drain_timeout);
    (*server)->Stop();
  }
  const ExecutorCounters counters = (*worker)->Counters();
  Log(kProgram,
      absl::StrCat("stopped; calls run: ", counters.executed, ", refused: ", counters.refused,
                   ", bad messages dropped: ", counters.dropped + counters.unknown_doorbells,
                   ", sessions that gave up write_imm: ", (*worker)->downgrades()));
  return absl::OkStatus();
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
    Log(kProgram, absl::StrCat("error: signalfd: ", strerror(errno)));
    return kExitFailed;
  }
  CLI::App app(
      "Runs functions for remote callers. Prints one line of JSON when it is ready; ends on "
      "SIGTERM or SIGINT.",
      kProgram);
  app.set_version_flag("--version", kVersion);
  app.footer("Exit status: 0 stopped by a signal, 1 could not serve, 2 bad arguments.");
  Settings settings;
  AddOptions(&app, &settings);
  if (const int code = Parse(&app, argc, argv); code >= 0) return code;
  const absl::Status status = Serve(std::move(settings), signal_fd);
  if (status.ok()) return kExitOk;
  Log(kProgram, absl::StrCat("error: ", status.message()));
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitFailed;
}

}  // namespace
}  // namespace invoker::tools

int main(int argc, char** argv) { return invoker::tools::Main(argc, argv); }
