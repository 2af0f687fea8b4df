// libfabric's own EFA provider, unmodified, between two processes on the emulated card. `run` sets
// up the card; its variables choose the generation and the faults.

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/efa_device/provider_peer.h"
#include "tests/efa_device/status.h"

namespace efa_device {
namespace {

// One packet, a few, and as many as need a read or credits.
const size_t kSizes[] = {1, 64, 4096, 8192, 9000, 65536, 300000, 1 << 20};

int Code(Status status) { return static_cast<int>(status); }

// The provider's addresses begin with the GID; then comes the queue pair's number.
std::string GidOf(const std::string& name) { return name.substr(0, 16); }
uint16_t QpnOf(const std::string& name) {
  return static_cast<uint16_t>(static_cast<uint8_t>(name[16]) | static_cast<uint8_t>(name[17])
                                                                    << 8);
}

void ExpectEcho(Endpoint* endpoint, fi_addr_t peer, size_t size, uint64_t seed) {
  Fill(endpoint->memory(), size, seed);
  endpoint->PostReceive(1 << 20, size);
  endpoint->PostSend(peer, 0, size);
  EXPECT_EQ(endpoint->WaitFor(2).error, 0) << size;
  EXPECT_TRUE(IsFilled(endpoint->memory() + (1 << 20), size, seed)) << size;
}

// The parameter puts the peer on another host.
class ProviderTest : public testing::TestWithParam<bool> {
 protected:
  bool UsesShm() const {
    const char* shm = getenv("FI_EFA_ENABLE_SHM_TRANSFER");
    return !GetParam() && (shm == nullptr || std::string(shm) != "0");
  }

  Endpoint endpoint_;
};

TEST_P(ProviderTest, CarriesMessagesBothWays) {
  PeerProcess peer(endpoint_, GetParam());
  const fi_addr_t to = endpoint_.Insert(peer.name());
  for (const size_t size : kSizes) ExpectEcho(&endpoint_, to, size, size);
  for (uint64_t i = 0; i < 200; ++i) ExpectEcho(&endpoint_, to, 1 + 37 * i, i);
}

TEST_P(ProviderTest, WritesAndReadsBack) {
  PeerProcess peer(endpoint_, GetParam());
  const fi_addr_t to = endpoint_.Insert(peer.name());
  uint8_t* const memory = endpoint_.memory();
  for (const size_t size : kSizes) {
    Fill(memory, size, size);
    ASSERT_EQ(endpoint_.Write(to, 0, size, peer.address() + 4096, peer.key()).error, 0) << size;
    ASSERT_EQ(endpoint_.Read(to, 2 << 20, size, peer.address() + 4096, peer.key()).error, 0);
    EXPECT_TRUE(IsFilled(memory + (2 << 20), size, size)) << size;
  }
}

TEST_P(ProviderTest, TellsThatThePeerHasDied) {
  if (UsesShm()) GTEST_SKIP() << "within a host the provider uses shm, which cannot tell";
  PeerProcess peer(endpoint_, GetParam());
  const fi_addr_t to = endpoint_.Insert(peer.name());
  ExpectEcho(&endpoint_, to, 64, 1);
  peer.Kill();
  const Outcome outcome = endpoint_.Send(to, 0, 64);
  EXPECT_NE(outcome.error, 0);
  EXPECT_EQ(outcome.prov_error, Code(Status::kBadDestinationQueuePair));
}

TEST_P(ProviderTest, RestartedPeerHasTheSameGidAndAnotherQueuePair) {
  auto peer = std::make_unique<PeerProcess>(endpoint_);
  const std::string before = peer->name();
  ExpectEcho(&endpoint_, endpoint_.Insert(before), 64, 1);
  if (GetParam()) peer->Kill();
  peer.reset();
  peer = std::make_unique<PeerProcess>(endpoint_);
  EXPECT_EQ(GidOf(peer->name()), GidOf(before));
  EXPECT_NE(QpnOf(peer->name()), QpnOf(before));
  ExpectEcho(&endpoint_, endpoint_.Insert(peer->name()), 9000, 2);
}

TEST_P(ProviderTest, NetworkNamespaceIsAHost) {
  PeerProcess peer(endpoint_, GetParam());
  EXPECT_EQ(GidOf(peer.name()) == GidOf(endpoint_.name()), !GetParam());
}

// The peers' cards have faults of their own: the variable is read when a process opens its card.
class FaultTest : public testing::Test {
 protected:
  FaultTest() { unsetenv(kFaults); }

  static constexpr char kFaults[] = "INVOKER_EFA_DEVICE_FAULTS";
  Endpoint endpoint_;
};

// Needs INVOKER_EFA_DEVICE_FAULTS=bad_address=1000/1,dead_peer=1000/1.
TEST_F(FaultTest, EachCostsOneOperation) {
  const PeerProcess peer(endpoint_);
  const fi_addr_t to = endpoint_.Insert(peer.name());
  EXPECT_EQ(endpoint_.Send(to, 0, 64).prov_error, Code(Status::kUnresponsiveRemote));
  EXPECT_EQ(endpoint_.Send(to, 0, 64).prov_error, Code(Status::kBadDestinationQueuePair));

  // More often than the card retries: then the provider sends again.
  setenv(kFaults, "rnr=1000/5", 1);
  const PeerProcess busy(endpoint_);
  const fi_addr_t to_busy = endpoint_.Insert(busy.name());
  for (uint64_t i = 0; i < 10; ++i) ExpectEcho(&endpoint_, to_busy, 64, i);

  const char* rdma = getenv("FI_EFA_USE_DEVICE_RDMA");
  if (rdma == nullptr || std::string(rdma) != "1") return;
  setenv(kFaults, "bad_key=1000/1", 1);
  const PeerProcess locked(endpoint_);
  const fi_addr_t to_locked = endpoint_.Insert(locked.name());
  for (uint64_t i = 0; i < 10; ++i) ExpectEcho(&endpoint_, to_locked, 9000, i);
  EXPECT_EQ(endpoint_.Read(to_locked, 0, 4096, locked.address(), locked.key()).prov_error,
            Code(Status::kBadRemoteAddress));
  EXPECT_EQ(endpoint_.Read(to_locked, 0, 4096, locked.address(), locked.key()).error, 0);
}

// Only the card may be asked. Before the provider knows from a handshake that the peer's card can
// read, it reads by messages; then a wrong key ends the peer, because rxr_rma_verified_copy_iov of
// 1.17 uses the region that it has not found.
TEST_P(ProviderTest, RefusesAReadThatTheRegionDoesNotGrant) {
  const char* rdma = getenv("FI_EFA_USE_DEVICE_RDMA");
  if (rdma == nullptr || std::string(rdma) != "1") GTEST_SKIP() << "reads by messages";
  if (UsesShm()) GTEST_SKIP() << "within a host the provider reads by shm";
  PeerProcess peer(endpoint_, GetParam());
  const fi_addr_t to = endpoint_.Insert(peer.name());
  for (uint64_t i = 0; i < 10; ++i) ExpectEcho(&endpoint_, to, 9000, i);
  ASSERT_EQ(endpoint_.Read(to, 0, 4096, peer.address(), peer.key()).error, 0);
  EXPECT_EQ(endpoint_.Read(to, 0, 4096, peer.address(), peer.key() + 1000).prov_error,
            Code(Status::kBadRemoteAddress));
  const uint64_t beyond = peer.address() + Endpoint::kMemory - 4095;
  EXPECT_EQ(endpoint_.Read(to, 0, 4096, beyond, peer.key()).prov_error,
            Code(Status::kBadRemoteAddress));
}

INSTANTIATE_TEST_SUITE_P(SameOrOtherHost, ProviderTest, testing::Bool());

}  // namespace
}  // namespace efa_device

int main(int argc, char** argv) {
  if (efa_device::PeerProcess::Run(argc, argv)) return 0;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
