#include "src/transport/discovery.h"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/transport/reactor.h"

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

TEST(Discover, NothingAskedForGivesTheDefaultProvider) {
  const absl::StatusOr<FabricChoice> choice = Discover({});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->profile.provider, DefaultProvider());
  EXPECT_EQ(choice->info->ep_attr->type, FI_EP_RDM);
}

TEST(Discover, TakesAnIpv4Address) {
  const absl::StatusOr<FabricChoice> choice = Discover({kTcp, "127.0.0.1", "", 0});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(DescribeSource(*choice->info), "127.0.0.1");
}

TEST(Discover, TakesAnInterfaceName) {
  const absl::StatusOr<FabricChoice> choice = Discover({kTcp, "lo", "", 0});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(DescribeSource(*choice->info), "127.0.0.1");
}

TEST(Discover, TakesAnIpv6AddressAndAnEndpointOpensThere) {
  if (!HasLoopback(AF_INET6)) GTEST_SKIP() << "no IPv6 loopback on this machine";
  absl::StatusOr<FabricChoice> choice = Discover({kTcp, "::1", "", 0});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(DescribeSource(*choice->info), "::1");
  const absl::StatusOr<std::unique_ptr<Reactor>> reactor = Reactor::Open(*std::move(choice), {});
  ASSERT_TRUE(reactor.ok()) << reactor.status();
  EXPECT_EQ((*reactor)->address().size(), sizeof(sockaddr_in6));
}

TEST(Discover, RoutesToThePeerWhereNoAddressOfOursIsNamed) {
  absl::StatusOr<FabricChoice> theirs = Discover({kTcp, "127.0.0.1", "", 0});
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  const absl::StatusOr<std::unique_ptr<Reactor>> peer = Reactor::Open(*std::move(theirs), {});
  ASSERT_TRUE(peer.ok()) << peer.status();
  const absl::StatusOr<FabricChoice> ours =
      Discover({kTcp, "", (*peer)->address(), (*peer)->info().addr_format});
  ASSERT_TRUE(ours.ok()) << ours.status();
  EXPECT_EQ(DescribeSource(*ours->info), "127.0.0.1");
}

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
