// random_client SERVER NOTIFY SEED CALLS LIMIT PEER_TIMEOUT [FABRIC_ADDRESS]: a client that makes
// so many random calls of up to LIMIT bytes and checks every answer. PEER_TIMEOUT is how long its
// server may be silent, as in 5s. Exit status 0 if all were right.
//
// SIGTERM ends the calls, after the one that is under way. SIGUSR1 and SIGUSR2 do what SIGKILL and
// SIGSTOP do, but between two calls: it does not go in the middle of a post, which over shm may
// cost others their sessions (docs/design/libfabric.md, "Traps").

#include <signal.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "absl/time/time.h"
#include "tests/integration/random_calls.h"

namespace {

std::atomic<int> g_pending{0};  // SIGKILL or SIGSTOP, for itself
std::atomic<bool> g_goes_on{true};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

bool ObeyPending() {
  if (const int pending = g_pending.exchange(0); pending != 0) raise(pending);
  return g_goes_on;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7 && argc != 8) {
    std::fprintf(stderr,
                 "usage: random_client SERVER NOTIFY SEED CALLS LIMIT PEER_TIMEOUT "
                 "[FABRIC_ADDRESS]\n");
    return 2;
  }
  signal(SIGTERM, [](int) { g_goes_on = false; });
  signal(SIGUSR1, [](int) { g_pending = SIGKILL; });
  signal(SIGUSR2, [](int) { g_pending = SIGSTOP; });
  invoker::ClientOptions options;
  options.hot_timeout = absl::Microseconds(50);
  if (!invoker::ParseNotification(argv[2], &options.notification)) return 2;
  if (!absl::ParseDuration(argv[6], &options.peer_timeout)) return 2;
  if (argc == 8) options.fabric_address = argv[7];
  const auto client = invoker::Client::Connect(argv[1], options);
  absl::Status status = client.status();
  if (status.ok()) {
    status = invoker::MakeRandomCalls(client->get(), std::strtoull(argv[3], nullptr, 10),
                                      std::atoi(argv[4]), std::strtoull(argv[5], nullptr, 10),
                                      ObeyPending);
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
