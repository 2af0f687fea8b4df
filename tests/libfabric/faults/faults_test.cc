// The table of providers says which libfabric has which fault; here the libfabric that runs is
// asked. A release that has mended one fails this test, and its row can be limited.

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "src/transport/base/libfabric.h"
#include "src/transport/provider/provider_profile.h"

namespace invoker::transport {
namespace {

// The signal that ended the program; 0: none, it ended with status 0.
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

// From libfabric 2.5 on, one that has not introduced itself ends the process.
TEST(Faults, AnEndpointOfTheOwnProcessThatIsUnknown) {
  const int expected = FI_VERSION_GE(fi_version(), FI_VERSION(2, 5)) ? SIGSEGV : 0;
  EXPECT_EQ(SignalThatEnds("shm_two_endpoints", ""), expected);
}

// One that has gone ends the process in one place or in another, which depends on the release.
TEST(Faults, AnEndpointOfTheOwnProcess) {
  const bool removed = SignalThatEnds("shm_two_endpoints", "removed") == SIGSEGV;
  const bool unfinished = SignalThatEnds("shm_two_endpoints", "unfinished") == SIGSEGV;
  EXPECT_EQ(removed || unfinished, FindRow("shm").alias_own_process);
  EXPECT_EQ(SignalThatEnds("shm_two_endpoints", "introduced"), 0);
}

TEST(Faults, APeerThatGoesAwayInTheMiddleOfAWriteWithImmediate) {
  const int expected = ImmediatesKill(FindRow("tcp;ofi_rxm")) ? SIGSEGV : 0;
  EXPECT_EQ(SignalThatEnds("rxm_half_a_write", ""), expected);
  EXPECT_EQ(SignalThatEnds("rxm_half_a_write", "plain"), 0);
}

// Sessions are not concerned: docs/providers.md, "By version of libfabric".
TEST(Faults, TwoThatWriteToEachOtherBeforeTheyHaveAConnection) {
  if (FI_VERSION_LT(fi_version(), FI_VERSION(1, 18)))
    GTEST_SKIP() << "tcp connects no peers itself";
  EXPECT_EQ(SignalThatEnds("tcp_both_connect", ""), SIGABRT);
  EXPECT_EQ(SignalThatEnds("tcp_both_connect", "one"), 0);
}

}  // namespace
}  // namespace invoker::transport
