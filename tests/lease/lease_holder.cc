// A client that takes a lease and holds it until it is killed: lease_holder SERVER HOW, or
// lease_holder SERVER many FABRIC COUNT.
//
// Prints "held" once it has the lease ("none"), and a session with its executor ("session"), in
// which a function blocks for ever while the session is being closed ("closing") or code is being
// loaded ("loading"): both of which the client has given up on, and the server has not. Or once it
// has so many leases, and a session with a shared executor, and has called each of them ("many").

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "invoker/lease.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/lease.h"
#include "tests/isolation/begun_fifo.h"

namespace invoker {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(120);
// For what does not come to its end.
constexpr absl::Duration kLoadTimeout = absl::Seconds(4);
// That the server has not.
constexpr char kLibrary[] = "tests/functions/rfaas_functions.so";

int Hold() {
  printf("held\n");
  fflush(stdout);
  while (true) pause();
}

int Fail(const absl::Status& status) {
  fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

// Has a function run that never returns.
absl::StatusOr<Future> Block(Client* client) {
  absl::StatusOr<RemoteFunction> block = client->Function("bad.block");
  if (!block.ok()) return block.status();
  BegunFifo begun;
  Future call = client->InvokeAsync(*block, begun.path());
  if (!begun.Wait(kPatience)) return absl::DeadlineExceededError("bad.block does not begin");
  return call;
}

int HoldSession(const std::string& server, const std::string& how) {
  LeaseOptions options;
  options.wait = kPatience;
  options.client.connect_timeout = kPatience;
  options.client.peer_timeout = kPatience;
  auto lease = Lease::Acquire(server, options);
  if (!lease.ok()) return Fail(lease.status());
  if (how == "session") return Hold();
  const absl::StatusOr<Future> call = Block(&(*lease)->executor(0));
  if (!call.ok()) return Fail(call.status());
  if (how == "closing") {
    // Gives up after some seconds.
    (*lease)->executor(0).Close();
    return Hold();
  }
  const absl::Status loaded = (*lease)->Upload(kLibrary, kLoadTimeout);
  if (!absl::IsDeadlineExceeded(loaded)) return Fail(loaded);
  return Hold();
}

absl::Status Echo(Client* client) {
  absl::StatusOr<RemoteFunction> echo = client->Function("test.echo");
  if (!echo.ok()) return echo.status();
  CallOptions options;
  options.timeout = kPatience;
  const auto response = client->Invoke(*echo, "hello", options);
  if (!response.ok()) return response.status();
  if (response->text() == "hello") return absl::OkStatus();
  return absl::InternalError("test.echo returned something else");
}

int HoldMany(const std::string& server, const std::string& fabric, int count) {
  ClientOptions client;
  client.provider = fabric;
  client.connect_timeout = kPatience;
  client.probe_timeout = kPatience;
  client.peer_timeout = kPatience;
  const auto shared = Client::Connect(server, client);
  if (!shared.ok()) return Fail(shared.status());
  if (absl::Status status = Echo(shared->get()); !status.ok()) return Fail(status);
  std::vector<std::unique_ptr<Lease>> leases;
  for (int i = 0; i < count; ++i) {
    LeaseOptions options;
    options.wait = kPatience;
    options.client = client;
    auto lease = Lease::Acquire(server, options);
    if (!lease.ok()) return Fail(lease.status());
    if (absl::Status status = Echo(&(*lease)->executor(0)); !status.ok()) return Fail(status);
    leases.push_back(*std::move(lease));
  }
  return Hold();
}

int Main(const std::string& server, const std::string& how) {
  if (how != "none") return HoldSession(server, how);
  auto client = bootstrap::BootstrapClient::Connect(server, kPatience);
  if (!client.ok()) return Fail(client.status());
  LeaseTerms terms;
  terms.executors = 1;
  terms.wait = kPatience;
  auto lease = bootstrap::Lease::Acquire(client->get(), terms, {}, kPatience);
  return lease.ok() ? Hold() : Fail(lease.status());
}

}  // namespace
}  // namespace invoker

int main(int argc, char** argv) {
  if (argc == 5 && strcmp(argv[2], "many") == 0) {
    return invoker::HoldMany(argv[1], argv[3], atoi(argv[4]));
  }
  if (argc != 3) return 2;
  return invoker::Main(argv[1], argv[2]);
}
