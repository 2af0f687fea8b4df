// Which peers of gRPC's are one machine.

#include "src/bootstrap/service/machine.h"

#include "gtest/gtest.h"

namespace invoker::bootstrap {
namespace {

TEST(MachineTest, PortsOfOneAddressAreOneMachine) {
  EXPECT_EQ(MachineOf("ipv4:192.0.2.7:1234"), MachineOf("ipv4:192.0.2.7:40000"));
  EXPECT_NE(MachineOf("ipv4:192.0.2.7:1234"), MachineOf("ipv4:192.0.2.8:1234"));
}

TEST(MachineTest, AddressesThatOneHostGivesItselfAreOneMachine) {
  const std::string one = MachineOf("ipv6:%5B2001:db8:1:2::1%5D:1234");
  EXPECT_EQ(one, MachineOf("ipv6:%5B2001:db8:1:2:ffff:ffff:ffff:ffff%5D:99"));
  EXPECT_EQ(one, MachineOf("ipv6:[2001:db8:1:2::3]:1234"));
  EXPECT_NE(one, MachineOf("ipv6:%5B2001:db8:1:3::1%5D:1234"));
  EXPECT_EQ(MachineOf("ipv6:%5Bfe80::1%25eth0%5D:1"), MachineOf("ipv6:%5Bfe80::2%25eth0%5D:2"));
}

TEST(MachineTest, AnIpv4AddressIsTheSameInsideOfIpv6) {
  EXPECT_EQ(MachineOf("ipv6:%5B::ffff:192.0.2.7%5D:1"), MachineOf("ipv4:192.0.2.7:2"));
}

TEST(MachineTest, TheLoopbackIsOneMachineWhateverItsAddress) {
  EXPECT_EQ(MachineOf("ipv4:127.0.0.1:1"), MachineOf("ipv4:127.200.3.4:2"));
  EXPECT_EQ(MachineOf("ipv4:127.0.0.1:1"), MachineOf("ipv6:%5B::1%5D:2"));
  EXPECT_EQ(MachineOf("ipv4:127.0.0.1:1"), MachineOf("ipv6:%5B::ffff:127.0.0.9%5D:2"));
}

TEST(MachineTest, WhatIsNoAddressIsItself) {
  EXPECT_EQ(MachineOf("unix:/run/some:1"), "unix:/run/some");
  EXPECT_EQ(MachineOf("ipv4:nonsense:1"), "ipv4:nonsense");
  EXPECT_EQ(MachineOf(""), "");
}

}  // namespace
}  // namespace invoker::bootstrap
