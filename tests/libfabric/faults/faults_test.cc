// The table of providers says which libfabric has which fault; here the libfabric that runs is
// asked. A release that has mended one fails this test, and its row can be limited.

#include <signal.h>

#include "gtest/gtest.h"
#include "src/transport/base/libfabric.h"
#include "src/transport/provider/provider_profile.h"
#include "tests/libfabric/faults/signal_that_ends.h"

namespace invoker::transport {
namespace {

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

// Sessions are not concerned: docs/design/libfabric.md, "By version of libfabric".
TEST(Faults, TwoThatWriteToEachOtherBeforeTheyHaveAConnection) {
  if (FI_VERSION_LT(fi_version(), FI_VERSION(1, 18)))
    GTEST_SKIP() << "tcp connects no peers itself";
  EXPECT_EQ(SignalThatEnds("tcp_both_connect", ""), SIGABRT);
  EXPECT_EQ(SignalThatEnds("tcp_both_connect", "one"), 0);
}

}  // namespace
}  // namespace invoker::transport
