#include "tests/failure/scenarios.h"

#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "invoker/lease.h"
#include "src/bootstrap/client/client.h"
#include "src/transport/reactor/reactor.h"
#include "tests/failure/stage.h"

namespace invoker::failure {
namespace {

using transport::MonotonicNs;

absl::Status Signal(pid_t process, int number) {
  if (kill(process, number) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("signal ", number, " for a worker"));
}

// A new session with a worker that has to work, measured from `since_ns`. Then `old`, the session
// that the failure met, ends at the worker too: what it had under way is not executed any more.
absl::StatusOr<double> BackAfter(const Setup& setup, const std::string& address, int64_t since_ns,
                                 std::unique_ptr<Client> old) {
  std::unique_ptr<Client> client;
  const absl::Status back = AwaitCall(setup, [&] {
    absl::StatusOr<std::unique_ptr<Client>> connected = Client::Connect(address, OptionsOf(setup));
    if (!connected.ok()) return connected.status();
    client = *std::move(connected);
    return OneCall(client.get(), setup.marks->NextNumber(), setup.patience);
  });
  if (!back.ok()) return back;
  const double back_ms = MillisecondsSince(since_ns);
  old.reset();
  if (absl::Status alone = AwaitLeases(setup, address, 1); !alone.ok()) return alone;
  return back_ms;
}

absl::StatusOr<Outcome> ServerKilled(const Setup& setup) {
  auto server = StartWorker(setup);
  if (!server.ok()) return server.status();
  auto client = Client::Connect((*server)->address(), OptionsOf(setup));
  if (!client.ok()) return client.status();
  return BreakUnder(setup, client->get(), [&] { return Signal((*server)->pid(), SIGKILL); });
}

// It wakes up later, and must find its old session fenced: nothing of it may be executed.
absl::StatusOr<Outcome> ServerStopped(const Setup& setup) {
  auto server = StartWorker(setup);
  if (!server.ok()) return server.status();
  auto client = Client::Connect((*server)->address(), OptionsOf(setup));
  if (!client.ok()) return client.status();
  absl::StatusOr<Outcome> outcome =
      BreakUnder(setup, client->get(), [&] { return Signal((*server)->pid(), SIGSTOP); });
  const int64_t back_ns = MonotonicNs();
  (*server)->Signal(SIGCONT);
  if (!outcome.ok()) return outcome;
  absl::StatusOr<double> back = BackAfter(setup, (*server)->address(), back_ns, *std::move(client));
  if (!back.ok()) return back.status();
  outcome->back_ms = *back;
  return outcome;
}

absl::Status CallGroup(ClientGroup* group, const GroupFunction& work, ExecutionMarks* marks) {
  const uint64_t number = marks->NextNumber();
  const std::string input(reinterpret_cast<const char*>(&number), sizeof(number));
  const absl::StatusOr<Response> response = group->Invoke(work, input);
  if (response.ok() && response->text() != input) {
    return absl::DataLossError("the answer is another call's");
  }
  return response.status();
}

absl::StatusOr<Outcome> ServerRestarted(const Setup& given) {
  Setup setup = given;
  // It comes back on its port, which nobody may have taken meanwhile.
  if (setup.listen_address == "127.0.0.1") setup.listen_address = LoopbackAddressOfItsOwn();
  auto server = StartWorker(setup);
  if (!server.ok()) return server.status();
  const std::string address = (*server)->address();
  auto group = ClientGroup::Connect(address, OptionsOf(setup), 1);
  if (!group.ok()) return group.status();
  auto work = (*group)->Function("failure.work");
  if (!work.ok()) return work.status();
  absl::StatusOr<Outcome> outcome =
      BreakUnder(setup, &(*group)->client(0), [&] { return Signal((*server)->pid(), SIGKILL); });
  if (!outcome.ok()) return outcome;
  const uint16_t port = (*server)->port();
  (*server)->Kill();
  auto successor = StartWorker(setup, port);
  if (!successor.ok()) return successor.status();
  const int64_t back_ns = MonotonicNs();
  // The same group, by itself.
  const absl::Status back =
      AwaitCall(setup, [&] { return CallGroup(group->get(), *work, setup.marks); });
  if (!back.ok()) return back;
  outcome->back_ms = MillisecondsSince(back_ns);
  return outcome;
}

absl::StatusOr<Outcome> PathCut(const Setup& setup) {
  auto server = StartWorker(setup);
  if (!server.ok()) return server.status();
  auto client = Client::Connect((*server)->address(), OptionsOf(setup));
  if (!client.ok()) return client.status();
  absl::StatusOr<Outcome> outcome = BreakUnder(setup, client->get(), setup.cut);
  if (absl::Status status = setup.mend(); !status.ok()) return status;
  const int64_t back_ns = MonotonicNs();
  if (!outcome.ok()) return outcome;
  absl::StatusOr<double> back = BackAfter(setup, (*server)->address(), back_ns, *std::move(client));
  if (!back.ok()) return back.status();
  outcome->back_ms = *back;
  return outcome;
}

// Beside a client on the servers' own host that has a function run all the time, on the same
// executor: its calls go on, and tell nothing of those of the client that is cut off.
absl::StatusOr<Outcome> PathCutBesideBusyClient(const Setup& setup) {
  auto server = StartWorker(setup);
  if (!server.ok()) return server.status();
  std::vector<std::string> command = setup.network->ServerPrefix();
  command.insert(command.end(),
                 {"tests/failure/sleeping_client", (*server)->address(), setup.provider,
                  setup.fabric_address, absl::FormatDuration(setup.peer_timeout), "2000"});
  auto busy = ChildProcess::Start({command});
  if (!busy.ok()) return busy.status();
  if (auto line = (*busy)->FirstLine(); !line.ok()) return line.status();
  auto client = Client::Connect((*server)->address(), OptionsOf(setup));
  if (!client.ok()) return client.status();
  absl::StatusOr<Outcome> outcome = BreakUnder(setup, client->get(), setup.cut);
  if (absl::Status status = setup.mend(); !status.ok()) return status;
  const int64_t back_ns = MonotonicNs();
  (*busy)->Signal(SIGKILL);
  // It ends by itself if a call fails.
  const bool others_go_on = (*busy)->Wait() == 128 + SIGKILL;
  if (!outcome.ok()) return outcome;
  if (!others_go_on) {
    outcome->others_failed = 1;
    outcome->calls.first_error = absl::InternalError((*busy)->Errors());
  }
  absl::StatusOr<double> back = BackAfter(setup, (*server)->address(), back_ns, *std::move(client));
  if (!back.ok()) return back.status();
  outcome->back_ms = *back;
  return outcome;
}

// Calls on an executor of a lease's own, which `failure` breaks.
absl::StatusOr<Outcome> BreakExecutor(
    const Setup& setup, const std::function<absl::Status(Client* executor, pid_t pid)>& failure) {
  // shm serves processes of one user only.
  const passwd* self = getpwuid(geteuid());
  if (self == nullptr) return absl::InternalError("this process's user has no name");
  auto server = StartWorker(
      setup, 0,
      {"--lease-cores=1", "--lease-memory=512M", absl::StrCat("--executor-user=", self->pw_name)});
  if (!server.ok()) return server.status();
  LeaseOptions options;
  options.client = OptionsOf(setup);
  auto lease = Lease::Acquire((*server)->address(), options);
  if (!lease.ok()) return lease.status();
  Client* executor = &(*lease)->executor(0);
  auto open = executor->Function("failure.open");
  auto process = executor->Function("failure.process");
  if (!open.ok()) return open.status();
  if (!process.ok()) return process.status();
  if (auto opened = executor->Invoke(*open, setup.marks->path()); !opened.ok()) {
    return opened.status();
  }
  auto pid = executor->Invoke(*process, "", {absl::InfiniteDuration(), 64});
  if (!pid.ok()) return pid.status();
  const pid_t number = static_cast<pid_t>(std::atoi(std::string(pid->text()).c_str()));
  pid = absl::CancelledError();
  return BreakUnder(setup, executor, [&] { return failure(executor, number); });
}

absl::StatusOr<Outcome> ExecutorCrashes(const Setup& setup) {
  return BreakExecutor(setup, [](Client* executor, pid_t) {
    auto crash = executor->Function("failure.crash");
    if (!crash.ok()) return crash.status();
    executor->InvokeAsync(*crash, Bytes(), {absl::InfiniteDuration(), 64},
                          [](absl::StatusOr<Response>) {});
    return absl::OkStatus();
  });
}

absl::StatusOr<Outcome> ExecutorStopped(const Setup& setup) {
  return BreakExecutor(setup, [](Client*, pid_t pid) { return Signal(pid, SIGSTOP); });
}

absl::StatusOr<Outcome> OneOfTwoKilled(const Setup& setup) {
  auto doomed = StartWorker(setup);
  auto other = StartWorker(setup);
  if (!doomed.ok() || !other.ok()) return doomed.ok() ? other.status() : doomed.status();
  auto group = ClientGroup::Connect(absl::StrCat((*doomed)->address(), ",", (*other)->address()),
                                    OptionsOf(setup), 1);
  if (!group.ok()) return group.status();
  auto work = (*group)->Function("failure.work");
  if (!work.ok()) return work.status();
  Outcome outcome;
  Flood flood([&](Bytes input, const CallOptions& options,
                  CallDone done) { (*group)->InvokeAsync(*work, input, options, std::move(done)); },
              setup.marks, setup.outstanding, setup.largest, setup.seed, true);
  flood.Start();
  if (!flood.AwaitAnswered(setup.warm_calls, setup.patience)) {
    return absl::InternalError("no calls were answered");
  }
  // A function that does not return holds the executor: calls wait behind it, which the failure
  // meets then.
  auto sleep = (*group)->client(0).Function("test.sleep");
  if (!sleep.ok()) return sleep.status();
  const uint32_t long_us = UINT32_MAX;
  (*group)->client(0).InvokeAsync(
      *sleep, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&long_us), sizeof(long_us)),
      {absl::InfiniteDuration(), 64}, [](absl::StatusOr<Response>) {});
  if (!flood.AwaitAnswered(setup.warm_calls, setup.patience)) {
    return absl::InternalError("no calls were answered beside a function that sleeps");
  }
  const int64_t broken_ns = MonotonicNs();
  (*doomed)->Signal(SIGKILL);
  if (!flood.AwaitFailure(setup.patience)) {
    return absl::InternalError("the server was killed, and none of its calls failed");
  }
  // The others go on.
  const bool goes_on = flood.AwaitAnswered(setup.warm_calls, setup.patience);
  flood.Stop();
  outcome.all_ended = flood.AwaitEnd(setup.patience);
  outcome.calls = flood.Result();
  outcome.outstanding = outcome.calls.failed;
  outcome.ended_ms = static_cast<double>(outcome.calls.last_ended_ns - broken_ns) / 1e6;
  const int64_t next_ns = MonotonicNs();
  const absl::Status next = CallGroup(group->get(), *work, setup.marks);
  outcome.next_call = std::string(absl::StatusCodeToString(next.code()));
  outcome.next_call_ms = MillisecondsSince(next_ns);
  if (!next.ok()) outcome.next_differ = 1;
  if (!goes_on) outcome.others_failed = 1;
  return outcome;
}

bool IsStopped(pid_t pid) {
  std::ifstream stat(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(stat, line);
  // After the program's name, which is in parentheses.
  return absl::StartsWith(line.substr(line.rfind(')') + 1), " T ");
}

// The other way round: a client goes, while this one makes a call after another.
absl::StatusOr<Outcome> ClientGone(const Setup& setup, int signal) {
  auto server = StartWorker(setup);
  if (!server.ok()) return server.status();
  std::vector<std::string> command = {"tests/integration/random_client",
                                      (*server)->address(),
                                      "auto",
                                      "1",
                                      "100000000",
                                      "100000",
                                      absl::FormatDuration(setup.peer_timeout)};
  if (!setup.client_address.empty()) command.push_back(setup.client_address);
  auto doomed = ChildProcess::Start({command});
  if (!doomed.ok()) return doomed.status();
  // A server that is killed right after it removes nothing.
  const auto remove_leftovers = absl::MakeCleanup([&doomed] {
    const pid_t pid = (*doomed)->pid();
    doomed->reset();
    for (const std::string& name : SharedMemoryOf(pid)) unlink(("/dev/shm/" + name).c_str());
  });
  auto client = Client::Connect((*server)->address(), OptionsOf(setup));
  if (!client.ok()) return client.status();
  auto bootstrap = bootstrap::BootstrapClient::Connect((*server)->address(), setup.patience,
                                                       OptionsOf(setup).credentials);
  if (!bootstrap.ok()) return bootstrap.status();
  Outcome outcome;
  // Who is killed breaks its connection.
  if (signal == SIGSTOP) outcome.waits = ServersPeerTimeout(setup);
  outcome.others_slowest_ms = 0;
  if (absl::Status came = AwaitLeases(setup, (*server)->address(), 2); !came.ok()) return came;
  for (uint64_t i = 0; i < setup.warm_calls / 4; ++i) {
    const absl::Status status = OneCall(client->get(), setup.marks->NextNumber(), setup.patience);
    if (!status.ok()) return status;
  }
  const int instead = signal == SIGKILL ? SIGUSR1 : SIGUSR2;
  (*doomed)->Signal(setup.between_posts ? instead : signal);
  const int64_t gone_ns = MonotonicNs();
  int64_t look_ns = gone_ns;
  for (bool freed = false; !freed || MillisecondsSince(gone_ns) < 3000;) {
    const int64_t call_ns = MonotonicNs();
    const absl::Status status = OneCall(client->get(), setup.marks->NextNumber(), setup.patience);
    outcome.others_slowest_ms = std::max(outcome.others_slowest_ms, MillisecondsSince(call_ns));
    if (!status.ok()) {
      ++outcome.others_failed;
      outcome.calls.first_error = status;
      break;
    }
    ++outcome.calls.answered;
    if (freed || MillisecondsSince(look_ns) < 20) continue;
    look_ns = MonotonicNs();
    const absl::StatusOr<int> open = OpenLeases(bootstrap->get(), setup.patience);
    if (open.ok() && *open == 1) {
      freed = true;
      outcome.ended_ms = MillisecondsSince(gone_ns);
    }
    if (MillisecondsSince(gone_ns) > absl::ToDoubleMilliseconds(setup.patience)) break;
    outcome.all_ended = freed;
  }
  // One that has ended by itself has met no failure.
  const bool met = signal == SIGSTOP ? IsStopped((*doomed)->pid())
                                     : outcome.all_ended && (*doomed)->Wait() == 128 + SIGKILL;
  outcome.outstanding = met ? 1 : 0;
  return outcome;
}

absl::StatusOr<Outcome> ClientKilled(const Setup& setup) { return ClientGone(setup, SIGKILL); }
absl::StatusOr<Outcome> ClientStopped(const Setup& setup) { return ClientGone(setup, SIGSTOP); }

}  // namespace

const std::vector<Scenario>& Scenarios() {
  static const auto* const kScenarios = new std::vector<Scenario>{
      {"server_killed", "the server gets SIGKILL", Cuts::kNothing, ServerKilled},
      {"server_stopped", "the server gets SIGSTOP, and SIGCONT when all is over", Cuts::kNothing,
       ServerStopped},
      {"server_restarted", "SIGKILL, and a new server on the same address", Cuts::kNothing,
       ServerRestarted},
      {"cable_pulled", "the link between client and server goes down", Cuts::kNetwork, PathCut},
      {"packets_dropped", "a router drops every packet", Cuts::kPackets, PathCut},
      {"fabric_cut", "the fabric's link goes down, and the bootstrap's does not", Cuts::kFabric,
       PathCut},
      {"fabric_cut_busy", "the same, beside a client that is not cut off and lets functions sleep",
       Cuts::kFabricOfOne, PathCutBesideBusyClient},
      {"executor_crashes", "a function of a leased executor ends it by SIGSEGV", Cuts::kNothing,
       ExecutorCrashes},
      {"executor_stopped", "a leased executor gets SIGSTOP", Cuts::kNothing, ExecutorStopped},
      {"one_of_two_killed", "one of a group's two servers gets SIGKILL", Cuts::kNothing,
       OneOfTwoKilled},
      {"client_killed", "another client gets SIGKILL", Cuts::kNothing, ClientKilled},
      {"client_stopped", "another client gets SIGSTOP", Cuts::kNothing, ClientStopped},
  };
  return *kScenarios;
}

}  // namespace invoker::failure
