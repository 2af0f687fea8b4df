// A client that sleeps at once (hot_timeout 0), on a fabric that can wake it. That a sleep was
// ended by an event, and not by its time limit, is seen at the call that blocks.

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/invoke/served_client.h"

namespace {

// Whether this thread is watched.
thread_local bool watched = false;
thread_local int sleeps = 0;
thread_local int ended_by_limit = 0;

// What a watched sleep gets for a limit: no healthy run reaches it.
constexpr timespec kGiveUp = {30, 0};

int WatchedPpoll(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  timespec left = {};
  if (timeout != nullptr) left = watched ? kGiveUp : *timeout;
  const long result =
      syscall(SYS_ppoll, descriptors, count, timeout == nullptr ? nullptr : &left, mask, _NSIG / 8);
  if (watched) {
    ++sleeps;
    if (result == 0) ++ended_by_limit;
    // One is enough to fail, and takes long.
    if (result == 0) watched = false;
  }
  return static_cast<int>(result);
}

}  // namespace

// In place of the C library's, with the name that fortified code calls as well.
extern "C" int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout,
                     const sigset_t* mask) {
  return WatchedPpoll(descriptors, count, timeout, mask);
}
extern "C" int __ppoll_chk(pollfd* descriptors, nfds_t count, const timespec* timeout,
                           const sigset_t* mask, size_t) {
  return WatchedPpoll(descriptors, count, timeout, mask);
}

namespace invoker {
namespace {

// Functions of every length around that of falling asleep, so that responses come before, in and
// after every step of it.
TEST(ClientSleep, NothingButResponsesEndsSleeps) {
  constexpr int kCalls = 1000;
  constexpr uint64_t kLongest = 100'000;
  ServedWorker served("tcp;ofi_rxm");
  ClientOptions options;
  options.hot_timeout = absl::ZeroDuration();
  std::unique_ptr<Client> client = served.Connect(options);
  ASSERT_NE(client, nullptr);
  const RemoteFunction burn = Find(*client, "burn");
  watched = true;
  for (int i = 0; i < kCalls; ++i) {
    const uint64_t turns = kLongest * static_cast<uint64_t>(i % 100) / 100;
    std::string input(sizeof(turns), '\0');
    memcpy(input.data(), &turns, sizeof(turns));
    const absl::StatusOr<Response> response = client->Invoke(burn, input);
    ASSERT_TRUE(response.ok()) << response.status();
    ASSERT_EQ(ended_by_limit, 0) << "call " << i;
  }
  watched = false;
  EXPECT_GT(sleeps, 0);
}

}  // namespace
}  // namespace invoker
