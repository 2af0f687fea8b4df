#include "src/invoke/client/open_sessions.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "src/base/start_thread.h"
#include "src/invoke/connect/connection.h"

namespace invoker {
namespace {

// Opening is mostly waiting: for the bootstrap's answers and for the probe.
constexpr size_t kMostThreads = 8;

// Runs `step` for 0 to count - 1, on so many threads at most. Those behind one that failed may be
// left out.
absl::Status ForEach(size_t count, size_t most_threads,
                     const std::function<absl::Status(size_t)>& step) {
  std::vector<absl::Status> results(count);
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  const auto run = [&] {
    for (size_t i = next++; i < count && !failed; i = next++) {
      results[i] = step(i);
      if (!results[i].ok()) failed = true;
    }
  };
  std::vector<std::thread> threads(std::clamp<size_t>(count, 1, most_threads) - 1);
  // Without some of them it takes longer.
  for (std::thread& thread : threads) transport::StartThread(&thread, run).IgnoreError();
  run();
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  for (absl::Status& result : results) {
    if (!result.ok()) return std::move(result);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Client>>> OpenSessions(
    const std::shared_ptr<ClientLease>& lease, size_t sessions, const ClientOptions& options) {
  const bool own = lease->terms().executors != 0;
  std::vector<std::unique_ptr<Client>> clients(own ? lease->terms().executors : sessions);
  // A worker gives a session to the executor with the fewest, and does not count those that are
  // being opened.
  const size_t threads = own ? kMostThreads : 1;
  absl::Status status = ForEach(clients.size(), threads, [&](size_t i) -> absl::Status {
    ClientOptions mine = options;
    // Not for several threads.
    if (i != 0) mine.times = nullptr;
    absl::StatusOr<std::unique_ptr<Connection>> connection =
        Connection::OpenUnder(lease, own ? static_cast<uint32_t>(i) : 0, mine);
    if (!connection.ok()) return connection.status();
    clients[i] = Client::Of(*std::move(connection));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return clients;
}

}  // namespace invoker
