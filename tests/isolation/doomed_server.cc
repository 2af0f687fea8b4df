// A server's part in executors, for a test that kills it: starts some, has one leave a daemon
// behind, prints all process ids on one line, and waits.

#include <unistd.h>

#include <cstdio>
#include <string>

#include "tests/isolation/isolated_server.h"

int main() {
  using namespace invoker;
  SpawnerOptions options = TestSpawnerOptions({kTcp, kShm});
  options.prestart = 2;
  auto spawner = ExecutorSpawner::Start(options);
  if (!spawner.ok()) return 1;
  WatchedExecutor executor(spawner->get());
  if (!executor.ok()) return 1;
  IsolatedServer server(&executor.process(), options);
  const absl::StatusOr<std::string> daemon = server.Call("bad.daemon");
  if (!daemon.ok()) return 1;
  std::string line = *daemon;
  for (const pid_t pid : Descendants()) line += " " + std::to_string(pid);
  puts(line.c_str());
  fflush(stdout);
  while (true) pause();
}
