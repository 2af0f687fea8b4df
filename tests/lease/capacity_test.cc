#include "src/lease/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace invoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(LeaseCapacityTest, WhatIsTakenIsNotFreeUntilItIsGivenBack) {
  LeaseCapacity capacity({4, 1000});
  EXPECT_TRUE(capacity.TryTake(1, {3, 400}));
  EXPECT_EQ(capacity.free().cores, 1u);
  EXPECT_EQ(capacity.free().memory_bytes, 600u);
  EXPECT_FALSE(capacity.TryTake(2, {2, 100}));  // cores
  EXPECT_FALSE(capacity.TryTake(2, {1, 601}));  // memory
  EXPECT_TRUE(capacity.TryTake(2, {1, 600}));
  capacity.Leave(1);
  EXPECT_EQ(capacity.free().cores, 3u);
  EXPECT_EQ(capacity.free().memory_bytes, 400u);
  capacity.Leave(1);
  EXPECT_EQ(capacity.free().cores, 3u);
}

TEST(LeaseCapacityTest, MoreThanThereIsInAllIsImpossible) {
  const LeaseCapacity capacity({4, 1000});
  EXPECT_TRUE(capacity.CheckPossible({4, 1000}).ok());
  const absl::Status cores = capacity.CheckPossible({5, 1});
  EXPECT_EQ(cores.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(cores.message()), HasSubstr("asks for 5 cores"));
  EXPECT_EQ(capacity.CheckPossible({1, 1001}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(LeaseCapacityTest, TheLineIsServedInOrder) {
  LeaseCapacity capacity({2, 1000});
  ASSERT_TRUE(capacity.TryTake(1, {2, 10}));
  ASSERT_TRUE(capacity.Enqueue(2, {2, 10}).ok());
  ASSERT_TRUE(capacity.Enqueue(3, {1, 10}).ok());
  ASSERT_TRUE(capacity.Enqueue(4, {1, 10}).ok());
  EXPECT_THAT(capacity.Waiting(), ElementsAre(2, 3, 4));
  EXPECT_THAT(capacity.Admit(), IsEmpty());
  capacity.Leave(1);
  EXPECT_THAT(capacity.Admit(), ElementsAre(2));
  capacity.Leave(2);
  EXPECT_THAT(capacity.Admit(), ElementsAre(3, 4));
  EXPECT_EQ(capacity.waiting(), 0u);
  EXPECT_EQ(capacity.free().cores, 0u);
}

TEST(LeaseCapacityTest, NobodyOvertakesWhoWaits) {
  LeaseCapacity capacity({2, 1000});
  ASSERT_TRUE(capacity.TryTake(1, {1, 10}));
  ASSERT_TRUE(capacity.Enqueue(2, {2, 10}).ok());
  EXPECT_FALSE(capacity.TryTake(3, {1, 10}));
  ASSERT_TRUE(capacity.Enqueue(3, {1, 10}).ok());
  EXPECT_THAT(capacity.Admit(), IsEmpty());
  // The one in front gives up.
  capacity.Leave(2);
  EXPECT_THAT(capacity.Admit(), ElementsAre(3));
}

TEST(LeaseCapacityTest, TheLineHasAnEnd) {
  LeaseCapacity capacity({1, 1000}, /*max_waiting=*/2);
  ASSERT_TRUE(capacity.TryTake(1, {1, 10}));
  ASSERT_TRUE(capacity.Enqueue(2, {1, 10}).ok());
  ASSERT_TRUE(capacity.Enqueue(3, {1, 10}).ok());
  const absl::Status full = capacity.Enqueue(4, {1, 10});
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("2 leases wait already"));
  EXPECT_THAT(capacity.Waiting(), ElementsAre(2, 3));
  // Who was refused has no place to leave.
  capacity.Leave(4);
  EXPECT_EQ(capacity.waiting(), 2u);
  capacity.Leave(1);
  EXPECT_THAT(capacity.Admit(), ElementsAre(2));
  EXPECT_TRUE(capacity.Enqueue(4, {1, 10}).ok());
}

}  // namespace
}  // namespace invoker
