#include "tests/failure/stage.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/transport/reactor.h"

namespace invoker::failure {
namespace {

// What a server has if nothing else is said.
constexpr absl::Duration kServersPeerTimeout = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::unique_ptr<ServerProcess>> StartWorker(const Setup& setup, uint16_t port,
                                                           std::vector<std::string> more) {
  ServerOptions options;
  options.listen = absl::StrCat(setup.listen_address, ":", port);
  options.provider = setup.provider;
  options.functions = {kFunctions, kTestFunctions};
  options.more = std::move(more);
  // In namespaces of the test's own, or a machine of its own.
  options.more.push_back("--allow_plaintext");
  if (setup.peer_timeout > kServersPeerTimeout) {
    options.more.push_back("--peer_timeout=" + absl::FormatDuration(setup.peer_timeout));
  }
  if (!setup.fabric_address.empty()) {
    options.more.push_back("--fabric_address=" + setup.fabric_address);
  }
  if (setup.network != nullptr) options.prefix = setup.network->ServerPrefix();
  return ServerProcess::Start(options);
}

ClientOptions OptionsOf(const Setup& setup) {
  ClientOptions options;
  options.provider = setup.provider;
  options.fabric_address = setup.client_address;
  options.credentials.plaintext = true;
  options.connect_timeout = setup.patience;
  options.probe_timeout = setup.patience / 4;
  options.peer_timeout = setup.peer_timeout;
  // Two cores, and a server that polls.
  options.hot_timeout = absl::Microseconds(50);
  return options;
}

absl::StatusOr<StartCall> CallsOf(Client* client) {
  absl::StatusOr<RemoteFunction> work = client->Function("failure.work");
  if (!work.ok()) return work.status();
  return StartCall([client, work = *work](Bytes input, const CallOptions& options, CallDone done) {
    client->InvokeAsync(work, input, options, std::move(done));
  });
}

double MillisecondsSince(int64_t since_ns) {
  return static_cast<double>(transport::MonotonicNs() - since_ns) / 1e6;
}

absl::Status OneCall(Client* client, ExecutionMarks* marks, absl::Duration timeout) {
  absl::StatusOr<RemoteFunction> work = client->Function("failure.work");
  if (!work.ok()) return work.status();
  const uint64_t number = marks->NextNumber();
  const std::string input(reinterpret_cast<const char*>(&number), sizeof(number));
  CallOptions options;
  options.timeout = timeout;
  absl::StatusOr<Response> response = client->Invoke(*work, input, options);
  if (!response.ok()) return response.status();
  if (response->text() != input) return absl::DataLossError("the answer is another call's");
  return absl::OkStatus();
}

absl::Status SignalWorker(const Setup& setup, Client* client, pid_t process, int number) {
  if (!setup.between_posts) {
    if (kill(process, number) == 0) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, absl::StrCat("signal ", number, " for a worker"));
  }
  absl::StatusOr<RemoteFunction> obey = client->Function("failure.signal");
  if (!obey.ok()) return obey.status();
  const std::string input = absl::StrCat(number);
  CallOptions options;
  options.response_capacity = 64;
  client->InvokeAsync(
      *obey, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(input.data()), input.size()),
      options, [](absl::StatusOr<Response>) {});
  return absl::OkStatus();
}

absl::Status AwaitCall(const Setup& setup, const std::function<absl::Status()>& call) {
  const int64_t deadline_ns = transport::MonotonicNs() + absl::ToInt64Nanoseconds(setup.patience);
  for (;;) {
    absl::Status status = call();
    if (status.ok() || transport::MonotonicNs() > deadline_ns) return status;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

absl::StatusOr<Outcome> BreakUnder(const Setup& setup, Client* client,
                                   const std::function<absl::Status()>& failure) {
  absl::StatusOr<StartCall> calls = CallsOf(client);
  if (!calls.ok()) return calls.status();
  Outcome outcome;
  Flood flood(*std::move(calls), setup.marks, setup.outstanding, setup.largest, setup.seed);
  flood.Start();
  if (!flood.AwaitAnswered(setup.warm_calls, setup.patience)) {
    flood.Stop();
    return absl::InternalError(absl::StrCat("calls failed before anything had been broken: ",
                                            flood.Result().first_error.ToString()));
  }
  const int64_t broken_ns = transport::MonotonicNs();
  if (absl::Status status = failure(); !status.ok()) return status;
  outcome.all_ended = flood.AwaitEnd(setup.patience);
  if (!outcome.all_ended) {
    outcome.outstanding = flood.under_way();
    // They end as cancelled, so that what holds them can go.
    client->Close();
  }
  outcome.calls = flood.Result();
  if (outcome.all_ended) outcome.outstanding = outcome.calls.failed;
  outcome.ended_ms = outcome.calls.failed == 0
                         ? 0
                         : static_cast<double>(outcome.calls.last_ended_ns - broken_ns) / 1e6;
  const int64_t next_ns = transport::MonotonicNs();
  const absl::Status next = OneCall(client, setup.marks, setup.patience);
  outcome.next_call_ms = MillisecondsSince(next_ns);
  outcome.next_call = next.ok() ? "OK"
                                : absl::StrCat(absl::StatusCodeToString(next.code()), " ",
                                               CallFateName(GetCallFate(next)));
  return outcome;
}

}  // namespace invoker::failure
