#include "src/transport/fabric/remote_window.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace invoker::transport {
namespace {

constexpr uint64_t kHuge = UINT64_MAX;

TEST(RemoteWindow, ContainsExactlyItsBytes) {
  const RemoteWindow window = {0, 0x1000, 100, 1};
  EXPECT_TRUE(window.Contains(0, 100));
  EXPECT_TRUE(window.Contains(99, 1));
  EXPECT_TRUE(window.Contains(0, 0));
  EXPECT_TRUE(window.Contains(100, 0));
  EXPECT_FALSE(window.Contains(0, 101));
  EXPECT_FALSE(window.Contains(1, 100));
  EXPECT_FALSE(window.Contains(100, 1));
  EXPECT_FALSE(window.Contains(101, 0));
}

TEST(RemoteWindow, SumsThatOverflowAreOutside) {
  const RemoteWindow window = {0, 0x1000, 100, 1};
  EXPECT_FALSE(window.Contains(kHuge, 1));
  EXPECT_FALSE(window.Contains(1, kHuge));
  EXPECT_FALSE(window.Contains(kHuge, kHuge));
  EXPECT_FALSE(window.Contains(kHuge - 49, 50));
  EXPECT_FALSE(window.Contains(50, kHuge - 49));
}

TEST(RemoteWindow, WindowOverAllAddressesIsStillBounded) {
  const RemoteWindow window = {0, 0, kHuge, 1};
  EXPECT_TRUE(window.Contains(0, kHuge));
  EXPECT_TRUE(window.Contains(kHuge, 0));
  EXPECT_FALSE(window.Contains(1, kHuge));
  EXPECT_FALSE(window.Contains(kHuge, 1));
}

TEST(RemoteWindow, DefaultContainsNoByte) {
  const RemoteWindow window;
  EXPECT_FALSE(window.Contains(0, 1));
  EXPECT_EQ(window.peer, FI_ADDR_UNSPEC);
}

TEST(RemoteWindow, AddressCountsFromTheBaseThatTheOwnerNamed) {
  EXPECT_EQ((RemoteWindow{0, 0x7f0000001000, 4096, 1}).AddressOf(24), 0x7f0000001018u);
  EXPECT_EQ((RemoteWindow{0, 0, 4096, 1}).AddressOf(24), 24u);
}

}  // namespace
}  // namespace invoker::transport
