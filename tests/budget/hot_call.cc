// The hot call that tests/budget counts: a worker and a client in one process, over the fabric of
// lockstep/, and as many blocking calls as asked for between two marks.
//
// hot_call.py runs it under valgrind and says what the marks are. Everything is what a user gets:
// the public client, the worker with the options of invoker_server, functions out of a library.

#include <sys/syscall.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "invoker/client.h"
#include "src/bootstrap/service/server.h"
#include "src/invoke/function/function_library.h"
#include "src/invoke/worker/worker.h"
#include "tests/budget/lockstep/lockstep.h"

namespace invoker {
namespace {

// What a call takes on the clock of the two ends, so that what is done by time is done, too.
constexpr int64_t kCallNs = 10'000;

// What is due once in a longer time than all calls take is due before they are counted.
constexpr int64_t kLongTimersNs = 2'000'000'000;

struct Settings {
  std::string provider;
  std::string functions;
  uint32_t calls = 4096;
  uint32_t warm_up = 1000;
  uint32_t bytes = 64;
  bool waste = false;
  std::string data_auth = "off";
};

// What no hot call may do, for the test of the counting: one allocation, one lock, one system call.
__attribute__((noinline)) void Waste() {
  static absl::Mutex mutex;
  absl::MutexLock lock(&mutex);
  const std::string text(100, 'w');
  if (syscall(SYS_getppid) < 0) fputs(text.c_str(), stderr);
}

// The counted call, to the end of its response.
__attribute__((noinline)) bool CallOnce(Client* client, const RemoteFunction& function,
                                        const Buffer& buffer) {
  absl::StatusOr<Response> response = client->Invoke(function, {buffer, buffer.size()});
  return response.ok() && response->size() == buffer.size();
}

// Not counted itself.
__attribute__((noinline)) absl::Status RepeatCalls(Client* client, const RemoteFunction& function,
                                                   const Buffer& buffer, uint32_t calls,
                                                   bool waste) {
  for (uint32_t i = 0; i < calls; ++i) {
    lockstep::AdvanceClock(kCallNs);
    if (waste) Waste();
    if (!CallOnce(client, function, buffer)) return absl::InternalError("a call failed");
  }
  return absl::OkStatus();
}

// A system call that nothing else makes.
void Mark() { syscall(SYS_getsid, 0); }

absl::Status CountCalls(Client* client, const Settings& settings) {
  absl::StatusOr<RemoteFunction> function = client->Function("noop");
  if (!function.ok()) return function.status();
  absl::StatusOr<Buffer> buffer = client->AllocateBuffer(settings.bytes);
  if (!buffer.ok()) return buffer.status();
  memset(buffer->data().data(), 'b', buffer->size());
  lockstep::Begin();
  lockstep::AdvanceClock(kLongTimersNs);
  absl::Status status = RepeatCalls(client, *function, *buffer, settings.warm_up, settings.waste);
  CALLGRIND_START_INSTRUMENTATION;
  Mark();
  if (status.ok()) {
    status = RepeatCalls(client, *function, *buffer, settings.calls, settings.waste);
  }
  Mark();
  CALLGRIND_STOP_INSTRUMENTATION;
  lockstep::End();
  return status;
}

// Everything is slower under valgrind, and nobody is to look, while calls are counted, whether the
// other side still lives: several times in so long, and under the lock that a call takes.
constexpr absl::Duration kPatience = absl::Hours(1);

absl::Status Run(const Settings& settings) {
  absl::StatusOr<std::unique_ptr<FunctionLibrary>> library =
      FunctionLibrary::Load(settings.functions);
  if (!library.ok()) return library.status();
  FunctionRegistry functions;
  if (absl::Status status = (*library)->RegisterAll(&functions); !status.ok()) return status;
  WorkerOptions options;
  options.providers = {settings.provider};
  options.addresses.preferred_ip = "127.0.0.1";
  absl::StatusOr<std::unique_ptr<Worker>> worker = Worker::Start(options, std::move(functions));
  if (!worker.ok()) return worker.status();
  bootstrap::ServerOptions server_options;
  server_options.listen = "127.0.0.1:0";
  server_options.heartbeat_interval = kPatience / 2;
  server_options.lease_expiry = kPatience;
  absl::StatusOr<std::unique_ptr<bootstrap::Server>> server =
      bootstrap::Server::Start(server_options, worker->get());
  if (!server.ok()) return server.status();
  ClientOptions client_options;
  client_options.connect_timeout = kPatience;
  client_options.probe_timeout = kPatience;
  client_options.peer_timeout = kPatience;
  // Trials go by the time that they take.
  client_options.pieces_up_to = 0;
  client_options.data_auth = ParseDataAuth(settings.data_auth).value_or(DataAuth::kOff);
  absl::StatusOr<std::unique_ptr<Client>> client =
      Client::Connect((*server)->listen_address(), client_options);
  if (!client.ok()) return client.status();
  absl::Status status = CountCalls(client->get(), settings);
  if (status.ok() && (*client)->notification() != Notification::kWriteImm) {
    status = absl::InternalError(
        absl::StrCat("the calls were not made with immediates: ", (*client)->downgrade_reason()));
  }
  client->reset();
  (*server)->Stop();
  (*worker)->Stop(absl::Seconds(1));
  printf("{\"calls\": %u, \"wait_address\": \"%p\"}\n", settings.calls, lockstep::WaitAddress());
  return status;
}

}  // namespace
}  // namespace invoker

int main(int argc, char** argv) {
  invoker::Settings settings;
  CLI::App app("Makes hot calls for valgrind to count.");
  app.add_option("--provider", settings.provider, "whose attributes the fabric has")->required();
  app.add_option("--functions", settings.functions, "the library with noop")->required();
  app.add_option("--calls", settings.calls, "how many are counted")->capture_default_str();
  app.add_option("--warm-up", settings.warm_up, "how many come before")->capture_default_str();
  app.add_option("--bytes", settings.bytes, "payload")->capture_default_str();
  app.add_option("--data-auth", settings.data_auth, "what is under tags: off, header, full")
      ->capture_default_str();
  app.add_flag("--waste", settings.waste,
               "also do at each call what none may do, to see that it is counted");
  CLI11_PARSE(app, argc, argv);
  if (absl::Status status = invoker::Run(settings); !status.ok()) {
    fprintf(stderr, "hot_call: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  return 0;
}
