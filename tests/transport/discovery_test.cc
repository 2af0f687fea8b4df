#include "src/transport/discovery/discovery.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/transport/reactor/reactor.h"
#include "tests/transport/in_libfabric.h"
#include "tests/transport/node.h"

namespace invoker::transport {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kTcp[] = "tcp;ofi_rxm";

bool HasLoopback(int family) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  bool found = false;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    found |= std::string(entry->ifa_name) == "lo" && entry->ifa_addr != nullptr &&
             entry->ifa_addr->sa_family == family;
  }
  freeifaddrs(list);
  return found;
}

sockaddr_in6 PeerAt6(const char* text) {
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(47592);
  inet_pton(AF_INET6, text, &address.sin6_addr);
  return address;
}

TEST(Discover, NothingAskedForGivesTheDefaultProvider) {
  const absl::StatusOr<FabricChoice> choice = Discover({});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->profile.provider, DefaultProvider());
  EXPECT_EQ(choice->info->ep_attr->type, FI_EP_RDM);
}

// Every fabric that is addressed by IP and that libfabric has on every machine.
class DiscoverByIp : public testing::TestWithParam<const char*> {};

TEST_P(DiscoverByIp, TakesAnIpv4Address) {
  const absl::StatusOr<FabricChoice> choice = Discover({GetParam(), "127.0.0.1", "", 0});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(DescribeSource(*choice->info), "127.0.0.1");
  EXPECT_EQ(choice->profile.provider, GetParam());
}

TEST_P(DiscoverByIp, TakesAnInterfaceNameAndItsIpv4AddressFirst) {
  const absl::StatusOr<FabricChoice> choice = Discover({GetParam(), "lo", "", 0});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(DescribeSource(*choice->info), "127.0.0.1");
}

TEST_P(DiscoverByIp, TakesAnIpv6AddressAndAnEndpointOpensThere) {
  if (!HasLoopback(AF_INET6)) GTEST_SKIP() << "no IPv6 loopback on this machine";
  absl::StatusOr<FabricChoice> choice = Discover({GetParam(), "::1", "", 0});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(DescribeSource(*choice->info), "::1");
  const absl::StatusOr<std::unique_ptr<Reactor>> reactor = Reactor::Open(*std::move(choice), {});
  ASSERT_TRUE(reactor.ok()) << reactor.status();
  EXPECT_EQ((*reactor)->address().size(), sizeof(sockaddr_in6));
}

TEST_P(DiscoverByIp, RoutesToThePeerOfEitherFamilyWhereNoAddressOfOursIsNamed) {
  for (const char* address : {"127.0.0.1", "::1"}) {
    if (address[0] == ':' && !HasLoopback(AF_INET6)) continue;
    absl::StatusOr<FabricChoice> theirs = Discover({GetParam(), address, "", 0});
    ASSERT_TRUE(theirs.ok()) << theirs.status();
    const absl::StatusOr<std::unique_ptr<Reactor>> peer = Reactor::Open(*std::move(theirs), {});
    ASSERT_TRUE(peer.ok()) << peer.status();
    const absl::StatusOr<FabricChoice> ours =
        Discover({GetParam(), "", (*peer)->address(), (*peer)->info().addr_format});
    ASSERT_TRUE(ours.ok()) << ours.status();
    EXPECT_EQ(DescribeSource(*ours->info), address);
  }
}

TEST_P(DiscoverByIp, CallsCrossOverEitherFamily) {
  for (const char* address : {"127.0.0.1", "::1"}) {
    if (address[0] == ':' && !HasLoopback(AF_INET6)) continue;
    auto target = Node::Open(Discover({GetParam(), address, "", 0}), 4096);
    ASSERT_NE(target, nullptr);
    // A client finds its way so: by the worker's address.
    auto sender = Node::Open(Discover({GetParam(), "", target->reactor().address(),
                                       target->reactor().info().addr_format}),
                             4096);
    ASSERT_NE(sender, nullptr);
    const Way way = {"", "", Notification::kWriteImm, SendOrder::kAfterDelivery};
    ASSERT_TRUE(sender->Write(way, sender->WindowTo(*target), 64, 128, 9));
    ASSERT_TRUE(PollUntil({sender.get(), target.get()}, [&] {
      return target->tokens.size() == 1 && sender->outstanding() == 0;
    })) << address;
  }
}

TEST_P(DiscoverByIp, InterfaceGivesItsAddressOfThePeersFamily) {
  if (!HasLoopback(AF_INET6)) GTEST_SKIP() << "no IPv6 loopback on this machine";
  const sockaddr_in6 peer = PeerAt6("::1");
  const std::string raw(reinterpret_cast<const char*>(&peer), sizeof(peer));
  const absl::StatusOr<FabricChoice> choice = Discover({GetParam(), "lo", raw, FI_SOCKADDR_IN6});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(DescribeSource(*choice->info), "::1");
}

TEST_P(DiscoverByIp, AddressOfAnotherFamilyThanThePeersIsRefusedInWords) {
  const sockaddr_in6 peer = PeerAt6("fd00::1234");
  const std::string raw(reinterpret_cast<const char*>(&peer), sizeof(peer));
  const absl::Status status = Discover({GetParam(), "127.0.0.1", raw, FI_SOCKADDR_IN6}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("\"127.0.0.1\""), HasSubstr("IPv6")));
}

TEST_P(DiscoverByIp, LinkLocalAddressIsRefusedInWords) {
  for (const char* address : {"fe80::1", "fe80::1%lo"}) {
    const absl::Status status = Discover({GetParam(), address, "", 0}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(address), HasSubstr("link-local")));
  }
}

TEST_P(DiscoverByIp, NothingAskedForIsNeverALinkLocalAddress) {
  const absl::StatusOr<FabricChoice> choice = Discover({GetParam(), "", "", 0});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_THAT(DescribeSource(*choice->info), testing::Not(testing::StartsWith("fe80:")));
}

INSTANTIATE_TEST_SUITE_P(Every, DiscoverByIp,
                         testing::ValuesIn(ThoseInLibfabric<const char*>(
                             {"tcp;ofi_rxm", "sockets", "net", "tcp", "udp;ofi_rxd"})),
                         [](const testing::TestParamInfo<const char*>& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), ';', '_');
                           return name;
                         });

TEST(Discover, SharedMemoryIsNotAddressedByIp) {
  const absl::StatusOr<FabricChoice> choice = Discover({"shm", "", "", 0});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_FALSE(choice->profile.address_is_ip);
  EXPECT_TRUE(choice->profile.same_host_only);
  EXPECT_FALSE(DescribeSource(*choice->info).empty());
}

TEST(Discover, UnknownProviderIsAnErrorThatListsTheOnesThereAre) {
  const absl::Status status = Discover({"carrier_pigeon", "", "", 0}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("\"carrier_pigeon\""), HasSubstr(kTcp), HasSubstr("shm")));
}

TEST(Discover, AddressThatIsNotOursIsAnErrorThatSaysIt) {
  for (const char* address : {"no_such_interface0", "999.1.2.3"}) {
    const absl::Status status = Discover({kTcp, address, "", 0}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << address << ": " << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(std::string("\"") + address + "\""), HasSubstr(kTcp)));
  }
}

TEST(Discover, AddressOfAnotherMachineFailsAtTheLatestWhenTheEndpointOpens) {
  absl::StatusOr<FabricChoice> choice = Discover({kTcp, "203.0.113.77", "", 0});
  if (!choice.ok()) return;
  const absl::Status status = Reactor::Open(*std::move(choice), {}).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(kTcp));
}

TEST(Discover, ProviderNamesAreNotMatchedLoosely) {
  for (const char* provider : {"tcp;ofi_rxm;x", "ofi_rxm", "SHM;"}) {
    const absl::StatusOr<FabricChoice> choice = Discover({provider, "", "", 0});
    EXPECT_TRUE(!choice.ok() || choice->profile.provider == provider) << provider;
  }
}

}  // namespace
}  // namespace invoker::transport
