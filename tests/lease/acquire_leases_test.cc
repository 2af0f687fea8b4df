// Leases over several servers: which of them are asked, and what becomes of refusals.

#include "src/invoke/group/leases/acquire_leases.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "invoker/client_group.h"
#include "src/invoke/group/leases/lease_placement.h"
#include "tests/integration/fabric_test.h"

namespace invoker {
namespace {

using Shares = std::vector<uint32_t>;

TEST(LeasePlacementTest, EachExecutorGoesWhereTheMostAreFree) {
  EXPECT_EQ(PlaceExecutors({{1, 8}, {4, 4}, {3, 8}}, 3), (Shares{0, 2, 1}));
  EXPECT_EQ(PlaceExecutors({{2, 2}, {2, 2}}, 4), (Shares{2, 2}));
  EXPECT_EQ(PlaceExecutors({}, 4), Shares());
}

TEST(LeasePlacementTest, WithoutAFreeOneItGoesWhereThereAreTheMostAtAll) {
  EXPECT_EQ(PlaceExecutors({{0, 2}, {0, 8}, {0, 4}}, 1), (Shares{0, 1, 0}));
  EXPECT_EQ(PlaceExecutors({{1, 1}, {0, 8}}, 2), (Shares{1, 1}));
}

TEST(LeasePlacementTest, ClosedRoomsGetNone) {
  EXPECT_EQ(PlaceExecutors({{9, 9, false}, {1, 1}}, 2), (Shares{0, 2}));
  EXPECT_EQ(PlaceExecutors({{9, 9, false}}, 2), Shares{0});
}

TEST(LeasePlacementTest, OfTwoThatArePickedTheBetterOneIsTaken) {
  std::vector<size_t> picks = {0, 1, 2, 2, 1, 0};
  size_t next = 0;
  const auto pick = [&](size_t count) {
    EXPECT_EQ(count, 3u);
    return picks[next++];
  };
  // The emptiest one is not always among them.
  EXPECT_EQ(PlaceExecutors({{2, 9}, {3, 9}, {8, 9}}, 3, pick), (Shares{0, 2, 1}));
  EXPECT_EQ(next, 6u);
}

TEST(LeasePlacementTest, TwoFullOnesThatArePickedSayNothingOfTheOthers) {
  EXPECT_EQ(PlaceExecutors({{0, 9}, {1, 2}}, 1, [](size_t) { return 0; }), (Shares{0, 1}));
}

// Says what it is told of its members' load.
class ToldLoads final : public cluster::MemberWatch {
 public:
  absl::StatusOr<std::map<uint64_t, cluster::Load>> Loads() override { return loads; }

  void Tell(std::vector<cluster::Member> members) { SetMembers(std::move(members)); }

  std::map<uint64_t, cluster::Load> loads;
};

class AcquireLeasesTest : public ServerTest {
 protected:
  // One that leases so many executors, as a member with this number.
  cluster::Member Start(uint64_t number, uint32_t cores, const std::string& zone) {
    ServerProcessOptions options;
    options.provider = "tcp;ofi_rxm";
    options.functions = {kTestFunctions};
    options.more = {absl::StrCat("--lease-cores=", cores), "--lease-memory=1G"};
    cluster::Member member;
    member.server = StartServer(options)->address();
    member.incarnation = number;
    member.cores = cores;
    member.memory_bytes = uint64_t{1} << 30;
    member.labels["zone"] = zone;
    watch_.loads[number] = {cores, member.memory_bytes, 0};
    return member;
  }
  static LeaseOptions Executors(uint32_t executors) {
    LeaseOptions options;
    options.executors = executors;
    options.memory_bytes = 64 << 20;
    options.client.peer_timeout = absl::Seconds(5);
    return options;
  }
  static size_t Count(const std::vector<std::shared_ptr<Lease>>& leases) {
    size_t count = 0;
    for (const std::shared_ptr<Lease>& lease : leases) count += lease->size();
    return count;
  }

  ToldLoads watch_;
};

TEST_F(AcquireLeasesTest, WhatOneServerRefusesTheOthersAreAskedFor) {
  const std::vector<cluster::Member> members = {Start(1, 2, "a"), Start(2, 2, "a"),
                                                Start(3, 2, "b")};
  watch_.Tell(members);
  // It has nothing left, and nobody knows that yet.
  const auto taken = Lease::Acquire(members[0].server, Executors(2));
  ASSERT_TRUE(taken.ok()) << taken.status();
  const auto leases = AcquireLeases(&watch_, Executors(4));
  ASSERT_TRUE(leases.ok()) << leases.status();
  EXPECT_EQ(Count(*leases), 4u);
  for (const std::shared_ptr<Lease>& lease : *leases) {
    EXPECT_NE(lease->server(), members[0].server);
  }
}

TEST_F(AcquireLeasesTest, WhereAllHaveLessThanTheySaidTheyAreAskedWhatTheyHave) {
  const std::vector<cluster::Member> members = {Start(1, 2, "a"), Start(2, 2, "a")};
  watch_.Tell(members);
  const auto one = Lease::Acquire(members[0].server, Executors(1));
  const auto other = Lease::Acquire(members[1].server, Executors(1));
  ASSERT_TRUE(one.ok() && other.ok()) << one.status() << other.status();
  for (int i = 0; i < 4; ++i) {
    const auto leases = AcquireLeases(&watch_, Executors(2));
    ASSERT_TRUE(leases.ok()) << leases.status();
    EXPECT_EQ(leases->size(), 2u);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(AcquireLeases(&watch_, Executors(3)).status()));
}

TEST_F(AcquireLeasesTest, FewerWillDoIfTheCallerSaysSo) {
  std::vector<cluster::Member> members = {Start(1, 2, "a"), Start(2, 1, "a")};
  // One that is gone.
  members.push_back(members[0]);
  members[2].server = "127.0.0.1:1";
  members[2].incarnation = 3;
  watch_.loads[3] = watch_.loads[1];
  watch_.Tell(members);
  LeaseOptions options = Executors(5);
  const absl::Status refused = AcquireLeases(&watch_, options).status();
  EXPECT_FALSE(refused.ok());
  options.at_least = 2;
  const auto leases = AcquireLeases(&watch_, options);
  ASSERT_TRUE(leases.ok()) << leases.status();
  EXPECT_EQ(Count(*leases), 3u);
}

TEST_F(AcquireLeasesTest, OnlyServersWithTheLabelsAreAsked) {
  const std::vector<cluster::Member> members = {Start(1, 2, "a"), Start(2, 2, "b")};
  watch_.Tell(members);
  LeaseOptions options = Executors(2);
  options.labels["zone"] = "b";
  const auto leases = AcquireLeases(&watch_, options);
  ASSERT_TRUE(leases.ok()) << leases.status();
  ASSERT_EQ(leases->size(), 1u);
  EXPECT_EQ(leases->front()->server(), members[1].server);
  options.labels["zone"] = "c";
  const absl::Status none = AcquireLeases(&watch_, options).status();
  EXPECT_TRUE(absl::IsNotFound(none)) << none;
  EXPECT_TRUE(absl::StrContains(none.message(), "zone=c")) << none;
}

TEST_F(AcquireLeasesTest, MoreThanIsAskedForCannotBeTheLeast) {
  LeaseOptions options = Executors(2);
  options.at_least = 3;
  const absl::Status status = ClientGroup::Acquire("127.0.0.1:1", options).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

}  // namespace
}  // namespace invoker
