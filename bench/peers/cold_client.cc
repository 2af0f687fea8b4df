// A client from nothing to its first result: connects, calls noop once and ends.
//
//   cold_client HOST:PORT PROVIDER
//
// Prints one line of integers, in nanoseconds: when main began, how long each step of connecting
// took (worker_info, discovery, lease, endpoint, session, probe), when it was connected and when
// the result was there. The clock is the monotonic one, which all processes of a host share.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/harness/client_options.h"
#include "invoker/client.h"
#include "src/invoke/connect/connect_times.h"
#include "src/log/log.h"
#include "src/transport/reactor/reactor.h"
#include "tools/options.h"

namespace invoker::bench {
namespace {

constexpr char kProgram[] = "cold_client";
constexpr size_t kBytes = 64;

absl::StatusOr<std::string> Run(const char* server, const char* provider) {
  const int64_t began_ns = transport::MonotonicNs();
  ConnectTimes times;
  ClientOptions options = OptionsFor(provider);
  options.times = &times;
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(server, options);
  const int64_t connected_ns = transport::MonotonicNs();
  if (!client.ok()) return client.status();
  const absl::StatusOr<RemoteFunction> noop = (*client)->Function("noop");
  if (!noop.ok()) return noop.status();
  const std::string input(kBytes, 'x');
  const absl::Status called = (*client)->Invoke(*noop, input).status();
  const int64_t result_ns = transport::MonotonicNs();
  if (!called.ok()) return called;
  // Closed before the line is printed: its reader may then end this process.
  client->reset();
  std::string line = absl::StrCat(began_ns);
  for (const absl::Duration step : {times.worker_info, times.discovery, times.lease, times.endpoint,
                                    times.session, times.probe}) {
    absl::StrAppend(&line, " ", absl::ToInt64Nanoseconds(step));
  }
  return absl::StrCat(line, " ", connected_ns, " ", result_ns);
}

int Main(int argc, char** argv) {
  if (argc != 3) {
    LogInfo("usage: cold_client HOST:PORT PROVIDER");
    return tools::kExitUsage;
  }
  const absl::StatusOr<std::string> line = Run(argv[1], argv[2]);
  if (!line.ok()) {
    LogError(line.status().message());
    return tools::kExitFailed;
  }
  return puts(line->c_str()) >= 0 && fflush(stdout) == 0 ? tools::kExitOk : tools::kExitFailed;
}

}  // namespace
}  // namespace invoker::bench

int main(int argc, char** argv) { return invoker::bench::Main(argc, argv); }
