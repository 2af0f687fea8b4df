// In which order a client tries the worker's fabrics, and in which words it tells.

#include "src/invoke/fabrics/fabric_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace invoker {
namespace {

using bootstrap::FabricIdentity;
using bootstrap::FabricOffer;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

FabricOffer Offer(const std::string& provider, bool same_host_only = false) {
  return {FabricIdentity{provider, 7, 1, 2}, "", same_host_only};
}

LocalFabric Here(const std::string& provider, uint32_t auto_rank) {
  LocalFabric fabric;
  fabric.identity = FabricIdentity{provider, 7, 1, 2};
  fabric.auto_rank = auto_rank;
  return fabric;
}

LocalFabric NotHere() {
  LocalFabric fabric;
  fabric.status = absl::NotFoundError("no such fabric");
  return fabric;
}

TEST(ChooseFabrics, ThisSidesRanksDecideAndNotTheWorkersOrder) {
  const FabricPlan plan = ChooseFabrics({Offer("tcp"), Offer("efa"), Offer("shm", true)},
                                        {Here("tcp", 6), Here("efa", 3), Here("shm", 1)}, true);
  EXPECT_THAT(plan.order, ElementsAre(2, 1, 0));
  EXPECT_THAT(plan.passed_over, IsEmpty());
}

TEST(ChooseFabrics, WhatHasNoRankComesLastInTheWorkersOrder) {
  const FabricPlan plan =
      ChooseFabrics({Offer("sockets"), Offer("net"), Offer("tcp"), Offer("psm3")},
                    {Here("sockets", 0), Here("net", 0), Here("tcp", 6), Here("psm3", 0)}, true);
  EXPECT_THAT(plan.order, ElementsAre(2, 0, 1, 3));
}

TEST(ChooseFabrics, AFabricOfOneHostIsForThatHostOnly) {
  const std::vector<FabricOffer> offers = {Offer("shm", true), Offer("tcp")};
  const std::vector<LocalFabric> local = {Here("shm", 1), Here("tcp", 6)};
  EXPECT_THAT(ChooseFabrics(offers, local, true).order, ElementsAre(0, 1));
  const FabricPlan plan = ChooseFabrics(offers, local, false);
  EXPECT_THAT(plan.order, ElementsAre(1));
  ASSERT_EQ(plan.passed_over.size(), 1u);
  EXPECT_EQ(plan.passed_over[0].offer, 0u);
  EXPECT_EQ(plan.passed_over[0].status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ChooseFabrics, WhatThisSideLacksOrHasInAnotherVersionIsPassedOver) {
  std::vector<LocalFabric> local = {NotHere(), Here("efa", 3), Here("tcp", 6)};
  local[1].identity.protocol_version = 99;
  const FabricPlan plan = ChooseFabrics({Offer("verbs"), Offer("efa"), Offer("tcp")}, local, true);
  EXPECT_THAT(plan.order, ElementsAre(2));
  ASSERT_EQ(plan.passed_over.size(), 2u);
  EXPECT_EQ(plan.passed_over[0].offer, 0u);
  EXPECT_TRUE(absl::IsNotFound(plan.passed_over[0].status));
  EXPECT_EQ(plan.passed_over[1].offer, 1u);
  EXPECT_THAT(std::string(plan.passed_over[1].status.message()),
              AllOf(HasSubstr("worker: 1"), HasSubstr("client: 99")));
}

// A worker that does not tell its release is an older one.
TEST(ChooseFabrics, WhatSharesMemoryWithAnotherReleaseIsPassedOverOnOneHost) {
  for (const uint32_t release : {201u << 16, 0u}) {
    std::vector<FabricOffer> offers = {Offer("shm", true), Offer("efa"), Offer("tcp")};
    std::vector<LocalFabric> local = {Here("shm", 1), Here("efa", 3), Here("tcp", 6)};
    for (const size_t i : {0, 1}) {
      offers[i].identity.shared_layout = release;
      local[i].identity.shared_layout = 117u << 16;
    }
    const FabricPlan plan = ChooseFabrics(offers, local, /*same_host=*/true);
    EXPECT_THAT(plan.order, ElementsAre(2));
    EXPECT_THAT(ExplainChoice(offers, plan, 2, {}, false),
                AllOf(HasSubstr("not shm, since the two sides differ in provider version"),
                      HasSubstr(release == 0 ? "worker: \"unknown" : "worker: \"201.0\""),
                      HasSubstr("client: \"117.0\"")));
    EXPECT_THAT(ChooseFabrics(offers, local, /*same_host=*/false).order, ElementsAre(1, 2));
  }
}

class ExplainTest : public testing::Test {
 protected:
  std::string Explain(size_t chosen, const std::vector<FabricFailure>& failed = {},
                      bool named = false) {
    return ExplainChoice(offers_, plan_, chosen, failed, named);
  }

  const std::vector<FabricOffer> offers_ = {Offer("shm", true), Offer("verbs"), Offer("tcp")};
  FabricPlan plan_ =
      ChooseFabrics(offers_, {Here("shm", 1), Here("verbs", 2), Here("tcp", 6)}, true);
};

TEST_F(ExplainTest, SaysWhyAndWhatElseThereIs) {
  EXPECT_EQ(Explain(0), "shm: same host; the worker also offers verbs, tcp");
}

TEST_F(ExplainTest, SaysWhatWasTriedBefore) {
  EXPECT_EQ(Explain(2, {{0, absl::UnavailableError("it hung"), ""},
                        {1, absl::UnavailableError("it broke"), ""}}),
            "tcp: shm was tried first and failed (it hung); verbs was tried next and failed (it "
            "broke)");
}

TEST_F(ExplainTest, SaysWhatWasPassedOver) {
  plan_ = ChooseFabrics(offers_, {Here("shm", 1), NotHere(), Here("tcp", 6)}, false);
  EXPECT_EQ(Explain(2),
            "tcp: the best that both sides have; not shm, since the worker is on another host; not "
            "verbs, since this host has none");
}

TEST_F(ExplainTest, SaysThatTheUserAskedForIt) {
  const std::vector<FabricOffer> one = {Offer("tcp")};
  const FabricPlan plan = ChooseFabrics(one, {Here("tcp", 6)}, true);
  EXPECT_EQ(ExplainChoice(one, plan, 0, {}, true), "tcp: asked for by name");
  EXPECT_EQ(ExplainChoice(one, plan, 0, {}, false), "tcp: the only one that the worker offers");
}

TEST_F(ExplainTest, OneFailureIsToldAsItIs) {
  const absl::Status status =
      ExplainFailure("host:1", offers_, {{}, {}}, {{1, absl::DataLossError("it tore"), ""}});
  EXPECT_EQ(status, absl::DataLossError("it tore"));
}

TEST_F(ExplainTest, SeveralFailuresAreAllListed) {
  const FabricPlan plan = ChooseFabrics(offers_, {Here("shm", 1), NotHere(), Here("tcp", 6)}, true);
  const absl::Status status = ExplainFailure(
      "host:1", offers_, plan,
      {{0, absl::UnavailableError("it hung"), ""}, {2, absl::UnavailableError("it broke"), ""}});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("host:1"), HasSubstr("shm: it hung; tcp: it broke; verbs: no such")));
}

TEST_F(ExplainTest, FailuresOfOneKindKeepTheirCode) {
  const absl::Status refused = absl::FailedPreconditionError("no");
  EXPECT_EQ(
      ExplainFailure("host:1", offers_, {{}, {}}, {{0, refused, ""}, {1, refused, ""}}).code(),
      absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(ExplainFailure("host:1", {}, {{}, {}}, {}).ok());
}

}  // namespace
}  // namespace invoker
