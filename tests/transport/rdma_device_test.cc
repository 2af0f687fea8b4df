// The arithmetic that fits libfabric's queues to a device, and what is left alone. The devices here
// are made up; real ones are asked in tests/soft_roce.

#include "src/transport/discovery/rdma_device.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace invoker::transport {
namespace {

constexpr char kUniverseSize[] = "FI_UNIVERSE_SIZE";

std::string Environment(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "(unset)" : value;
}

RdmaDevice Device(size_t max_cqe) {
  RdmaDevice device;
  device.name = "made_up";
  device.connected = true;
  device.max_cqe = max_cqe;
  return device;
}

// Every test starts with none of the variables set and leaves none.
class RdmaDeviceTest : public testing::Test {
 protected:
  RdmaDeviceTest() { Clear(); }
  ~RdmaDeviceTest() override { Clear(); }

 private:
  static void Clear() {
    for (const char* name : {kUniverseSize, "FI_OFI_RXM_MSG_TX_SIZE", "FI_OFI_RXM_MSG_RX_SIZE",
                             "FI_OFI_RXM_USE_SRX"}) {
      unsetenv(name);
    }
  }
};

TEST_F(RdmaDeviceTest, AsManyPeersAsFitTheQueue) {
  const QueueDemand demand;
  EXPECT_EQ(UniverseSizeFor(32767, demand), 127u);
  EXPECT_EQ(UniverseSizeFor(32768, demand), 128u);
  EXPECT_EQ(UniverseSizeFor(256 * 1024 - 1, demand), 1023u);
}

TEST_F(RdmaDeviceTest, NeverMoreThanTheDefault) {
  const QueueDemand demand;
  EXPECT_EQ(UniverseSizeFor(256 * 1024, demand), kDefaultUniverseSize);
  EXPECT_EQ(UniverseSizeFor(4194303, demand), kDefaultUniverseSize);
  QueueDemand nothing;
  nothing.transmit = 0;
  nothing.receive = 0;
  EXPECT_EQ(UniverseSizeFor(10, nothing), kDefaultUniverseSize);
}

TEST_F(RdmaDeviceTest, AtLeastOnePeer) {
  QueueDemand demand;
  EXPECT_EQ(UniverseSizeFor(0, demand), 1u);
  EXPECT_EQ(UniverseSizeFor(255, demand), 1u);
  demand.receive_shared = true;
  EXPECT_EQ(UniverseSizeFor(100, demand), 1u);
  demand.receive_shared = false;
  demand.transmit = SIZE_MAX;
  EXPECT_EQ(UniverseSizeFor(32767, demand), 1u);
}

TEST_F(RdmaDeviceTest, SharedReceiveQueueCountsOnce) {
  QueueDemand demand;
  demand.receive_shared = true;
  demand.receive = 4096;
  EXPECT_EQ(UniverseSizeFor(32767, demand), (32767u - 4096u) / 128u);
}

TEST_F(RdmaDeviceTest, TheUsersQueueSizesCount) {
  EXPECT_EQ(QueueDemandFromEnvironment().transmit, 128u);
  EXPECT_EQ(QueueDemandFromEnvironment().receive, 128u);
  EXPECT_FALSE(QueueDemandFromEnvironment().receive_shared);
  setenv("FI_OFI_RXM_USE_SRX", "yes", 1);
  EXPECT_TRUE(QueueDemandFromEnvironment().receive_shared);
  EXPECT_EQ(QueueDemandFromEnvironment().receive, 4096u);
  setenv("FI_OFI_RXM_USE_SRX", "0", 1);
  setenv("FI_OFI_RXM_MSG_TX_SIZE", "64", 1);
  setenv("FI_OFI_RXM_MSG_RX_SIZE", "a few", 1);
  EXPECT_FALSE(QueueDemandFromEnvironment().receive_shared);
  EXPECT_EQ(QueueDemandFromEnvironment().transmit, 64u);
  EXPECT_EQ(QueueDemandFromEnvironment().receive, 128u);
  EXPECT_EQ(LimitUniverseSize({Device(32767)}), 32767u / 192u);
}

TEST_F(RdmaDeviceTest, TheSmallestDeviceDecides) {
  EXPECT_EQ(LimitUniverseSize({Device(4194303), Device(32767), Device(65535)}), 127u);
  EXPECT_EQ(Environment(kUniverseSize), "127");
}

TEST_F(RdmaDeviceTest, LeavesTheEnvironmentAloneWhereTheDefaultFits) {
  EXPECT_EQ(LimitUniverseSize({}), 0u);
  EXPECT_EQ(LimitUniverseSize({Device(4194303)}), 0u);
  EXPECT_EQ(Environment(kUniverseSize), "(unset)");
}

TEST_F(RdmaDeviceTest, LeavesTheUsersChoiceAlone) {
  setenv(kUniverseSize, "2000", 1);
  EXPECT_EQ(LimitUniverseSize({Device(32767)}), 0u);
  EXPECT_EQ(Environment(kUniverseSize), "2000");
}

TEST_F(RdmaDeviceTest, DevicesThatDoNotCount) {
  RdmaDevice datagrams_only = Device(32767);
  datagrams_only.connected = false;
  RdmaDevice not_opened;
  not_opened.problem = absl::UnavailableError("opening the RDMA device x: Permission denied");
  EXPECT_EQ(LimitUniverseSize({datagrams_only, not_opened}), 0u);
  EXPECT_EQ(Environment(kUniverseSize), "(unset)");
}

TEST_F(RdmaDeviceTest, SaysWhyAQueueDoesNotFit) {
  EXPECT_EQ(WhyQueueDoesNotFit(Device(4194303)), "");
  EXPECT_NE(WhyQueueDoesNotFit(Device(32767)), "");
  setenv(kUniverseSize, "127", 1);
  EXPECT_EQ(WhyQueueDoesNotFit(Device(32767)), "");
  setenv(kUniverseSize, "128", 1);
  EXPECT_EQ(WhyQueueDoesNotFit(Device(32767)),
            "FI_UNIVERSE_SIZE is 128, and a completion queue of the RDMA device made_up has room "
            "for 127 peers (32767 entries): set it to 127 at most, or leave it to Invoker");
  RdmaDevice datagrams_only = Device(32767);
  datagrams_only.connected = false;
  EXPECT_EQ(WhyQueueDoesNotFit(datagrams_only), "");
  EXPECT_EQ(WhyQueueDoesNotFit("no device has this name"), "");
}

TEST_F(RdmaDeviceTest, EveryDeviceOfThisMachineIsDescribed) {
  testing::internal::CaptureStderr();
  const absl::StatusOr<std::vector<RdmaDevice>> devices = ListRdmaDevices();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  ASSERT_TRUE(devices.ok()) << devices.status();
  for (const RdmaDevice& device : *devices) {
    SCOPED_TRACE(device.name);
    EXPECT_FALSE(device.name.empty());
    EXPECT_FALSE(device.node_type.empty());
    if (!device.problem.ok()) continue;
    EXPECT_GT(device.max_cqe, 0u);
    EXPECT_GT(device.max_qp, 0u);
    EXPECT_GT(device.max_mr_size, 0u);
    ASSERT_FALSE(device.ports.empty());
    const RdmaPort& port = device.ports[0];
    EXPECT_EQ(port.number, 1);
    EXPECT_NE(port.state, "");
    EXPECT_NE(port.gid, "");
    if (port.state != "active") continue;
    EXPECT_GE(port.mtu_bytes, 256);
    EXPECT_GT(port.gigabits_per_second, 0);
  }
}

TEST_F(RdmaDeviceTest, FitsOncePerProcess) {
  const absl::StatusOr<std::vector<RdmaDevice>> devices = ListRdmaDevices();
  ASSERT_TRUE(devices.ok()) << devices.status();
  LimitUniverseSize(*devices);
  const std::string expected = Environment(kUniverseSize);
  unsetenv(kUniverseSize);
  FitUniverseSize();
  EXPECT_EQ(Environment(kUniverseSize), expected);
  unsetenv(kUniverseSize);
  FitUniverseSize();
  EXPECT_EQ(Environment(kUniverseSize), "(unset)");
}

}  // namespace
}  // namespace invoker::transport
