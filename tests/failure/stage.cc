#include "tests/failure/stage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/transport/reactor/reactor.h"

namespace invoker::failure {
namespace {

// The least: what a server has if nothing else is said.
constexpr absl::Duration kServersPeerTimeout = absl::Seconds(5);

}  // namespace

absl::Duration ServersPeerTimeout(const Setup& setup) {
  return std::max(setup.peer_timeout, kServersPeerTimeout);
}

absl::StatusOr<std::unique_ptr<ServerProcess>> StartWorker(const Setup& setup, uint16_t port,
                                                           std::vector<std::string> more) {
  ServerProcessOptions options;
  options.listen = absl::StrCat(setup.listen_address, ":", port);
  options.provider = setup.provider;
  options.functions = {kFunctions, kTestFunctions};
  options.more = std::move(more);
  // In namespaces of the test's own, or a machine of its own.
  options.more.push_back("--allow-plaintext");
  options.more.push_back("--peer-timeout=" + absl::FormatDuration(ServersPeerTimeout(setup)));
  if (!setup.fabric_address.empty()) {
    options.more.push_back("--fabric-address=" + setup.fabric_address);
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

absl::Status OneCall(Client* client, uint64_t number, absl::Duration timeout) {
  absl::StatusOr<RemoteFunction> work = client->Function("failure.work");
  if (!work.ok()) return work.status();
  const std::string input(reinterpret_cast<const char*>(&number), sizeof(number));
  CallOptions options;
  options.timeout = timeout;
  absl::StatusOr<Response> response = client->Invoke(*work, input, options);
  if (!response.ok()) return response.status();
  if (response->text() != input) return absl::DataLossError("the answer is another call's");
  return absl::OkStatus();
}

absl::StatusOr<int> OpenLeases(bootstrap::BootstrapClient* worker, absl::Duration timeout) {
  auto records = worker->GetUsage("", timeout);
  if (!records.ok()) return records.status();
  int open = 0;
  for (const bootstrap::UsageRecord& record : *records) open += record.open ? 1 : 0;
  return open;
}

absl::Status AwaitLeases(const Setup& setup, const std::string& address, int leases) {
  auto worker =
      bootstrap::BootstrapClient::Connect(address, setup.patience, OptionsOf(setup).credentials);
  if (!worker.ok()) return worker.status();
  return AwaitCall(setup, [&] {
    const absl::StatusOr<int> open = OpenLeases(worker->get(), setup.patience);
    if (!open.ok()) return open.status();
    return *open == leases ? absl::OkStatus()
                           : absl::UnavailableError(absl::StrCat(
                                 *open, " sessions at the worker instead of ", leases));
  });
}

absl::Status AwaitCall(const Setup& setup, const std::function<absl::Status()>& call) {
  const int64_t deadline_ns = transport::MonotonicNs() + absl::ToInt64Nanoseconds(setup.patience);
  for (;;) {
    absl::Status status = call();
    if (status.ok() || transport::MonotonicNs() > deadline_ns) return status;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

namespace {

// On a session that should be lost: all of them have to fail, and like the first one.
void CallAfterwards(const Setup& setup, Client* client, Outcome* outcome) {
  for (size_t i = 0; i < setup.outstanding && outcome->next_differ == 0; ++i) {
    const uint64_t number = setup.marks->NextNumber();
    const int64_t since_ns = transport::MonotonicNs();
    const absl::Status status = OneCall(client, number, setup.patience);
    if (i == 0) outcome->next_call_ms = MillisecondsSince(since_ns);
    const CallFate fate = GetCallFate(status);
    if (fate == CallFate::kNotSent) outcome->calls.unsent.push_back(number);
    const std::string text = status.ok() ? "OK"
                                         : absl::StrCat(absl::StatusCodeToString(status.code()),
                                                        " ", CallFateName(fate));
    if (i == 0) outcome->next_call = text;
    if (status.ok() || text != outcome->next_call) ++outcome->next_differ;
  }
}

}  // namespace

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
  CallAfterwards(setup, client, &outcome);
  return outcome;
}

}  // namespace invoker::failure
