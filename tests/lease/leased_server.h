// A real invoker_server that leases executors, its clients, and what is left of both.

#ifndef INVOKER_TESTS_LEASE_LEASED_SERVER_H_
#define INVOKER_TESTS_LEASE_LEASED_SERVER_H_

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/lease.h"
#include "tests/integration/server_process.h"

namespace invoker {

// Processes that descend from `root`, zombies included.
inline std::set<pid_t> DescendantsOf(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    std::ifstream stat(entry.path() / "stat");
    std::string text;
    std::getline(stat, text);
    // The name, in brackets, may contain anything.
    const size_t after_name = text.rfind(')');
    if (after_name == std::string::npos) continue;
    char state = 0;
    int parent = 0;
    if (sscanf(text.c_str() + after_name + 1, " %c %d", &state, &parent) == 2) {
      children.emplace(parent, pid);
    }
  }
  std::set<pid_t> found;
  std::vector<pid_t> todo = {root};
  while (!todo.empty()) {
    const pid_t parent = todo.back();
    todo.pop_back();
    const auto range = children.equal_range(parent);
    for (auto child = range.first; child != range.second; ++child) {
      if (found.insert(child->second).second) todo.push_back(child->second);
    }
  }
  return found;
}

inline size_t DescriptorsOf(pid_t pid) {
  size_t count = 0;
  std::error_code error;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/fd"), error)) {
    ++count;
  }
  return count;
}

// Nothing tells of a process or a file that goes: looks again until it has, for kPatience at most.
template <typename Condition>
bool Eventually(const Condition& condition) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

// With executors of this test's own user, so that every fabric can be served. `more` are further
// arguments, `functions` further libraries.
inline absl::StatusOr<std::unique_ptr<ServerProcess>> StartLeasedServer(
    const std::string& provider, int cores, std::vector<std::string> more = {},
    const std::vector<std::string>& functions = {}) {
  ServerProcessOptions options;
  options.functions.insert(options.functions.end(), functions.begin(), functions.end());
  options.provider = provider;
  options.more = std::move(more);
  options.more.push_back(absl::StrCat("--lease-cores=", cores));
  options.more.push_back(absl::StrCat("--lease-memory=", cores, "G"));
  if (const passwd* self = getpwuid(geteuid()); self != nullptr) {
    options.more.push_back(absl::StrCat("--executor-user=", self->pw_name));
  }
  return ServerProcess::Start(options);
}

// Once it has what it is to hold.
inline absl::StatusOr<std::unique_ptr<ChildProcess>> StartHolder(
    const ChildProcess::Options& options) {
  auto holder = ChildProcess::Start(options);
  if (!holder.ok()) return holder.status();
  absl::StatusOr<std::string> line = (*holder)->FirstLine();
  if (!line.ok()) {
    return absl::Status(line.status().code(),
                        absl::StrCat(line.status().message(), ": ", (*holder)->Errors()));
  }
  return holder;
}

// `how` as lease_holder's argument.
inline absl::StatusOr<std::unique_ptr<ChildProcess>> StartHolder(const std::string& server,
                                                                 const std::string& how) {
  ChildProcess::Options options;
  options.command = {"tests/lease/lease_holder", server, how};
  return StartHolder(options);
}

// SIGKILL. What the process has left in shared memory is the server's to remove, once it has heard
// of the client's end.
inline void KillHolder(ChildProcess* holder) {
  const pid_t pid = holder->pid();
  holder->Signal(SIGKILL);
  holder->Wait();
  EXPECT_TRUE(Eventually([pid] { return SharedMemoryOf(pid).empty(); })) << pid;
}

}  // namespace invoker

#endif  // INVOKER_TESTS_LEASE_LEASED_SERVER_H_
