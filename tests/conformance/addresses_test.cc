// An endpoint's address is bytes that another process can use.

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>
#include <set>

#include "gtest/gtest.h"
#include "tests/conformance/peer_process.h"
#include "tests/conformance/tested_fabric.h"

namespace invoker::conformance {
namespace {

using transport::Node;

class Addresses : public FabricSuite {};

std::string IpText(const std::string& raw) {
  char text[INET6_ADDRSTRLEN] = "";
  sockaddr_in v4;
  sockaddr_in6 v6;
  if (raw.size() == sizeof(v4)) {
    memcpy(&v4, raw.data(), sizeof(v4));
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
  } else if (raw.size() == sizeof(v6)) {
    memcpy(&v6, raw.data(), sizeof(v6));
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  }
  return text;
}

TEST_F(Addresses, AddressHasTheFormThatTheFabricNames) {
  const auto node = OpenNode(4096);
  ASSERT_NE(node, nullptr);
  const std::string& address = node->reactor().address();
  EXPECT_FALSE(address.empty());
  switch (node->reactor().info().addr_format) {
    case FI_SOCKADDR_IN:
      EXPECT_EQ(address.size(), sizeof(sockaddr_in));
      break;
    case FI_SOCKADDR_IN6:
      EXPECT_EQ(address.size(), sizeof(sockaddr_in6));
      break;
    case FI_ADDR_EFA:
      EXPECT_EQ(address.size(), 32u);
      break;
    case FI_ADDR_GNI:
      EXPECT_EQ(address.size(), 48u);
      break;
    case FI_ADDR_STR:
      EXPECT_EQ(address.back(), '\0');
      break;
    default:
      break;
  }
}

TEST_F(Addresses, EndpointIsWhereItWasAskedFor) {
  if (Tested().request.address.empty() || !Tested().profile.address_is_ip) {
    GTEST_SKIP() << "no IP address was asked for";
  }
  in6_addr scratch;
  const char* wanted = Tested().request.address.c_str();
  if (inet_pton(AF_INET, wanted, &scratch) != 1 && inet_pton(AF_INET6, wanted, &scratch) != 1) {
    GTEST_SKIP() << wanted << " is no IP address";
  }
  const auto node = OpenNode(4096);
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(IpText(node->reactor().address()), wanted);
}

TEST_F(Addresses, NoTwoEndpointsHaveTheSame) {
  std::vector<std::unique_ptr<Node>> nodes;
  std::set<std::string> addresses;
  for (int i = 0; i < 8; ++i) {
    nodes.push_back(OpenNode(4096));
    ASSERT_NE(nodes.back(), nullptr);
    EXPECT_TRUE(addresses.insert(nodes.back()->reactor().address()).second);
  }
}

TEST_F(Addresses, AnotherProcessIsReachedByItsAddressAndReachesUsByOurs) {
  const auto node = OpenNode(kPeerBytes);
  ASSERT_NE(node, nullptr);
  const auto peer = PeerProcess::Start(node.get(), PreferredWay());
  ASSERT_NE(peer, nullptr);
  EXPECT_NE(peer->address(), node->reactor().address());
  for (uint32_t message = 1; message <= 20; ++message) ASSERT_TRUE(peer->RoundTrip(message));
  EXPECT_EQ(peer->End(), 0) << peer->log();
}

TEST_F(Addresses, AnAddressThatThisMachineDoesNotHaveIsRefused) {
  if (!Tested().profile.address_is_ip) GTEST_SKIP() << "the fabric is not addressed by IP";
  transport::FabricRequest request = Tested().request;
  request.address = "203.0.113.77";
  absl::StatusOr<transport::FabricChoice> choice = transport::Discover(request);
  if (!choice.ok()) return;
  EXPECT_FALSE(transport::Reactor::Open(*std::move(choice), {}).ok());
}

}  // namespace
}  // namespace invoker::conformance
