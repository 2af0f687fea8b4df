// holding_client SERVER own|peers SIGNAL: makes a call, and then such that it gets the signal while
// it has a lock: that of its worker's queue, in the post of another call, or that of its own, when
// it looks for the first of several answers. Goes on, if it can, until those calls have ended. Exit
// status 0 if all went well.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "invoker/client.h"
#include "tests/failure/hold_lock.h"

namespace {

using invoker::Client;
using invoker::LockOf;

// Answers that are posted one by one, each long after the one before.
constexpr int kAnswers = 5;
constexpr uint32_t kApartUs = 20'000;

absl::Status Call(const char* server, LockOf whose, int signal) {
  invoker::ClientOptions options;
  options.peer_timeout = absl::Seconds(5);
  const auto client = Client::Connect(server, options);
  if (!client.ok()) return client.status();
  const auto sleep = (*client)->Function("test.sleep");
  if (!sleep.ok()) return sleep.status();
  const absl::Span<const std::byte> input =
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&kApartUs), sizeof(kApartUs));
  if (const auto before = (*client)->Invoke(*sleep, input); !before.ok()) return before.status();
  if (!invoker::HoldLock(whose, signal)) return absl::FailedPreconditionError("not preloaded");
  std::vector<invoker::Future> futures;
  for (int i = 0; i < kAnswers; ++i) futures.push_back((*client)->InvokeAsync(*sleep, input));
  absl::Status status;
  for (invoker::Future& future : futures) status.Update(future.Get().status());
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: holding_client SERVER own|peers SIGNAL\n");
    return 2;
  }
  const LockOf whose = std::string_view(argv[2]) == "own" ? LockOf::kSelf : LockOf::kPeer;
  const absl::Status status = Call(argv[1], whose, std::atoi(argv[3]));
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
