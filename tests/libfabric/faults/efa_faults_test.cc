// Faults of libfabric's own EFA provider, on the emulated card. docs/design/libfabric.md says which
// libfabric has which.

#include <signal.h>
#include <stdlib.h>

#include <cstring>

#include "gtest/gtest.h"
#include "src/transport/base/libfabric.h"
#include "tests/libfabric/faults/signal_that_ends.h"

namespace invoker::transport {
namespace {

bool IsOlderThan(int major, int minor) {
  return FI_VERSION_LT(fi_version(), FI_VERSION(major, minor));
}

bool HasEfa() {
  fi_info* hints = fi_allocinfo();
  hints->fabric_attr->prov_name = strdup("efa");
  fi_info* found = nullptr;
  const int code = fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints, &found);
  fi_freeinfo(hints);
  if (code == 0) fi_freeinfo(found);
  return code == 0;
}

class EfaFaults : public testing::Test {
 protected:
  void SetUp() override {
    // The system's libfabric has the provider. Another one may have been built without it.
    static const bool has_efa = HasEfa();
    if (!has_efa && getenv("INVOKER_TEST_LIBFABRIC") != nullptr) {
      GTEST_SKIP() << "this libfabric has no EFA provider, or finds no card";
    }
  }

  // The programs find a card of this generation.
  void UseGeneration(const char* generation) {
    setenv("INVOKER_EFA_DEVICE_GENERATION", generation, 1);
  }
};

TEST_F(EfaFaults, AWriteWithAKeyThatTheTargetDoesNotHave) {
  UseGeneration("efa0");
  const int ended = SignalThatEnds("efa_wrong_key", "");
  // It depends on the stack. In 1.17.0 that holds the same each time.
  if (ended != 0 || IsOlderThan(1, 18)) {
    EXPECT_EQ(ended, SIGSEGV);
  }
  EXPECT_EQ(SignalThatEnds("efa_wrong_key", "right"), 0);
}

TEST_F(EfaFaults, APeerThatIsRemovedAndInsertedAgain) {
  UseGeneration("efa1");
  EXPECT_EQ(SignalThatEnds("efa_reinserted_peer", ""), SIGABRT);
  EXPECT_EQ(SignalThatEnds("efa_reinserted_peer", "kept"), 0);
}

TEST_F(EfaFaults, PeersOfOneHostThatComeAndGo) {
  UseGeneration("efa1");
  EXPECT_EQ(SignalThatEnds("efa_shm_peers", ""), IsOlderThan(1, 19) ? SIGABRT : 0);
  EXPECT_EQ(SignalThatEnds("efa_shm_peers", "looked"), 0);
}

TEST_F(EfaFaults, ALongWriteBeforeThePeersHandshake) {
  UseGeneration("efa0");
  EXPECT_EQ(SignalThatEnds("efa_early_long_write", ""), IsOlderThan(1, 19) ? SIGABRT : 0);
  EXPECT_EQ(SignalThatEnds("efa_early_long_write", "shorter"), 0);
  EXPECT_EQ(SignalThatEnds("efa_early_long_write", "later"), 0);
}

TEST_F(EfaFaults, ALongWriteToARegionForRemoteWritesAlone) {
  UseGeneration("efa1");
  const bool lost = !IsOlderThan(1, 19) && IsOlderThan(2, 2);
  EXPECT_EQ(SignalThatEnds("efa_remote_write_access", ""), lost ? SIGABRT : 0);
  EXPECT_EQ(SignalThatEnds("efa_remote_write_access", "receive"), 0);
  EXPECT_EQ(SignalThatEnds("efa_remote_write_access", "shorter"), 0);
}

}  // namespace
}  // namespace invoker::transport
