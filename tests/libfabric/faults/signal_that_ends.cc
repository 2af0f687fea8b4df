#include "tests/libfabric/faults/signal_that_ends.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "gtest/gtest.h"

namespace invoker::transport {

int SignalThatEnds(const std::string& program, const char* argument) {
  const std::string path = "tests/libfabric/faults/" + program;
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    alarm(60);
    // A library that libfabric loads may turn a signal into an exit with a text.
    setenv("HFI_NO_BACKTRACE", "1", 1);
    setenv("IPATH_NO_BACKTRACE", "1", 1);
    execl(path.c_str(), path.c_str(), argument, nullptr);
    _exit(127);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) return WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0) << path << " " << argument;
  return 0;
}

}  // namespace invoker::transport
