// Clients in a process that may have no more threads, as where a container has a limit: whatever
// thread it is that cannot be started, connecting either does without or says why it cannot.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "invoker/client_group.h"
#include "invoker/lease.h"
#include "tests/lease/leased_server.h"

namespace {

std::atomic<int> g_started{0};
std::atomic<int> g_refused{INT_MAX};  // the one that is not started

bool IsOurs(const void* caller) {
  Dl_info info;
  return dladdr(caller, &info) != 0 && strstr(info.dli_fname, "libstdc++") != nullptr;
}

}  // namespace

// In the place of the C library's. Other libraries' threads start: some end the process if not.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (IsOurs(__builtin_return_address(0)) && g_started++ == g_refused) return EAGAIN;
  return create(thread, attributes, run, argument);
}

namespace invoker {
namespace {

constexpr char kTcp[] = "tcp;ofi_rxm";

// Tries with each of its threads refused in turn, until there is none left to refuse. How many of
// them it could not do without.
int TryWithoutEach(const std::function<absl::Status()>& attempt) {
  constexpr int kMostThreads = 50;
  int needed = 0;
  for (int refused = 0; refused < kMostThreads; ++refused) {
    g_started = 0;
    g_refused = refused;
    const absl::Status status = attempt();
    const bool met = g_started > refused;
    g_refused = INT_MAX;
    if (!met) {
      EXPECT_EQ(status, absl::OkStatus());
      EXPECT_GT(refused, 0) << "it starts no threads";
      return needed;
    }
    if (status.ok()) continue;
    ++needed;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_NE(status.message().find("cannot start a thread"), std::string::npos) << status;
  }
  ADD_FAILURE() << "it starts more than " << kMostThreads << " threads";
  return needed;
}

absl::Status CallEach(ClientGroup* group) {
  const absl::StatusOr<GroupFunction> echo = group->Function("test.echo");
  if (!echo.ok()) return echo.status();
  for (size_t i = 0; i < 2 * group->size(); ++i) {
    const absl::StatusOr<Response> response = group->Invoke(*echo, "text");
    if (!response.ok()) return response.status();
    EXPECT_EQ(response->text(), "text");
  }
  return absl::OkStatus();
}

TEST(ThreadLimitTest, AGroupDoesWithoutOrSaysWhyNot) {
  const auto first = StartLeasedServer(kTcp, 1);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = StartLeasedServer(kTcp, 1);
  ASSERT_TRUE(second.ok()) << second.status();
  ClientOptions options;
  options.peer_timeout = absl::Seconds(5);
  options.reconnect = true;
  const int needed = TryWithoutEach([&]() -> absl::Status {
    const absl::StatusOr<std::unique_ptr<ClientGroup>> group = ClientGroup::Connect(
        (*first)->address() + "," + (*second)->address(), options, /*sessions_each=*/2);
    return group.ok() ? CallEach(group->get()) : group.status();
  });
  EXPECT_GT(needed, 0);
}

TEST(ThreadLimitTest, ALeaseDoesWithoutOrSaysWhyNotAndIsGivenBack) {
  const auto server = StartLeasedServer(kTcp, 3);
  ASSERT_TRUE(server.ok()) << server.status();
  LeaseOptions options;
  options.executors = 3;
  options.client.peer_timeout = absl::Seconds(5);
  // All that there is, so that what a try keeps is missed by the next one, which waits for it.
  options.wait = kPatience;
  const int needed = TryWithoutEach([&]() -> absl::Status {
    const absl::StatusOr<std::unique_ptr<ClientGroup>> group =
        ClientGroup::Acquire((*server)->address(), options);
    return group.ok() ? CallEach(group->get()) : group.status();
  });
  EXPECT_GT(needed, 0);
}

}  // namespace
}  // namespace invoker
