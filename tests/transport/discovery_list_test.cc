// What is listed of this machine: everything that Discover would find, each once, and the rest with
// its reason.

#include "src/transport/discovery/discovery_list.h"

#include <set>
#include <string>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace invoker::transport {
namespace {

using testing::HasSubstr;

std::set<std::string> UsableProviders(const std::vector<ListedFabric>& fabrics) {
  std::set<std::string> names;
  for (const ListedFabric& fabric : fabrics) {
    if (fabric.usable.ok()) names.insert(fabric.choice.profile.provider);
  }
  return names;
}

TEST(ListFabrics, FindsTheProvidersThatEveryMachineHas) {
  const absl::StatusOr<std::vector<ListedFabric>> fabrics = ListFabrics("");
  ASSERT_TRUE(fabrics.ok()) << fabrics.status();
  const std::set<std::string> usable = UsableProviders(*fabrics);
  for (const char* provider : {"tcp;ofi_rxm", "shm", "sockets", "udp;ofi_rxd"}) {
    EXPECT_EQ(usable.count(provider), 1u) << provider;
  }
}

TEST(ListFabrics, ListsNothingTwice) {
  const absl::StatusOr<std::vector<ListedFabric>> fabrics = ListFabrics("");
  ASSERT_TRUE(fabrics.ok()) << fabrics.status();
  std::set<std::tuple<std::string, std::string, std::string, std::string>> seen;
  for (const ListedFabric& fabric : *fabrics) {
    const fi_info& info = *fabric.choice.info;
    EXPECT_TRUE(seen.insert({info.fabric_attr->prov_name, info.fabric_attr->name,
                             info.domain_attr->name, DescribeSource(info)})
                    .second)
        << info.fabric_attr->prov_name << " at " << DescribeSource(info);
  }
}

TEST(ListFabrics, ComesInTheOrderOfChoice) {
  const absl::StatusOr<std::vector<ListedFabric>> fabrics = ListFabrics("");
  ASSERT_TRUE(fabrics.ok()) << fabrics.status();
  uint32_t last = 0;
  for (const ListedFabric& fabric : *fabrics) {
    if (!fabric.usable.ok()) continue;
    const uint32_t rank = fabric.choice.profile.auto_rank;
    if (rank == 0) {
      last = UINT32_MAX;  // nothing that has a rank may follow
      continue;
    }
    EXPECT_GE(rank, last) << fabric.choice.profile.provider;
    last = rank;
  }
}

TEST(ListFabrics, WhatIsUsableIsWhatDiscoverFinds) {
  const absl::StatusOr<std::vector<ListedFabric>> fabrics = ListFabrics("");
  ASSERT_TRUE(fabrics.ok()) << fabrics.status();
  for (const ListedFabric& fabric : *fabrics) {
    const fi_info& info = *fabric.choice.info;
    if (!fabric.usable.ok()) {
      EXPECT_FALSE(fabric.usable.message().empty());
      continue;
    }
    FabricRequest request;
    request.provider = info.fabric_attr->prov_name;
    if (fabric.choice.profile.address_is_ip) request.address = DescribeSource(info);
    const absl::StatusOr<FabricChoice> choice = Discover(request);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->profile.provider, fabric.choice.profile.provider);
    EXPECT_EQ(DescribeSource(*choice->info), DescribeSource(info));
    EXPECT_EQ(choice->profile.wait, fabric.choice.profile.wait);
    EXPECT_EQ(choice->profile.notification, fabric.choice.profile.notification);
  }
}

TEST(ListFabrics, LinkLocalAddressIsListedWithItsReason) {
  const absl::StatusOr<std::vector<ListedFabric>> fabrics = ListFabrics("");
  ASSERT_TRUE(fabrics.ok()) << fabrics.status();
  for (const ListedFabric& fabric : *fabrics) {
    if (DescribeSource(*fabric.choice.info).rfind("fe80:", 0) != 0) continue;
    EXPECT_EQ(fabric.usable.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(fabric.usable.message()), HasSubstr("link-local"));
  }
}

TEST(ListFabrics, OneProviderMeansThatProviderOnly) {
  for (const char* provider : {"shm", "sockets"}) {
    const absl::StatusOr<std::vector<ListedFabric>> fabrics = ListFabrics(provider);
    ASSERT_TRUE(fabrics.ok()) << fabrics.status();
    EXPECT_FALSE(fabrics->empty());
    for (const ListedFabric& fabric : *fabrics) {
      EXPECT_STREQ(fabric.choice.info->fabric_attr->prov_name, provider);
    }
  }
}

TEST(ListFabrics, ProviderThatIsNotThereIsAnEmptyList) {
  const absl::StatusOr<std::vector<ListedFabric>> fabrics = ListFabrics("carrier_pigeon");
  ASSERT_TRUE(fabrics.ok()) << fabrics.status();
  EXPECT_TRUE(fabrics->empty());
}

}  // namespace
}  // namespace invoker::transport
