#include "src/lease/lease_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace invoker {
namespace {
using ::testing::HasSubstr;

LeasePolicy SomePolicy() {
  LeasePolicy policy;
  policy.total = {4, 1000};
  policy.executor_memory_bytes = 100;
  policy.max_ttl = absl::Hours(2);
  policy.max_call = absl::Minutes(1);
  policy.hot_timeout = absl::Milliseconds(10);
  return policy;
}

LeaseTerms Asking(uint32_t executors) {
  LeaseTerms terms;
  terms.executors = executors;
  return terms;
}

TEST(LeasePolicyTest, WhatTheClientLeavesOpenIsTheWorkers) {
  const auto terms = ResolveTerms(Asking(3), SomePolicy());
  ASSERT_TRUE(terms.ok()) << terms.status();
  EXPECT_EQ(terms->memory_bytes, 100u);
  EXPECT_EQ(terms->ttl, absl::Hours(2));
  EXPECT_EQ(terms->call_limit, absl::Minutes(1));
  EXPECT_EQ(terms->polling, Polling::kAdaptive);
  EXPECT_EQ(terms->hot_timeout, absl::Milliseconds(10));
  EXPECT_EQ(ResourcesOf(*terms).cores, 3u);
  EXPECT_EQ(ResourcesOf(*terms).memory_bytes, 300u);
  EXPECT_EQ(ExecutorTermsOf(*terms).call_limit, absl::Minutes(1));
}

TEST(LeasePolicyTest, WhatTheClientSaysHoldsWithinTheWorkersLimits) {
  LeaseTerms asked = Asking(1);
  asked.memory_bytes = 777;
  asked.ttl = absl::Seconds(5);
  asked.call_limit = absl::Seconds(1);
  const auto terms = ResolveTerms(asked, SomePolicy());
  ASSERT_TRUE(terms.ok()) << terms.status();
  EXPECT_EQ(terms->memory_bytes, 777u);
  EXPECT_EQ(terms->ttl, absl::Seconds(5));
  EXPECT_EQ(terms->call_limit, absl::Seconds(1));

  asked.ttl = absl::Hours(3);
  absl::Status refused = ResolveTerms(asked, SomePolicy()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("ttl of 3h; this worker grants 2h"));
  asked.ttl = absl::ZeroDuration();
  asked.call_limit = absl::InfiniteDuration();
  refused = ResolveTerms(asked, SomePolicy()).status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("call limit of inf"));
}

TEST(LeasePolicyTest, PollingAndItsTimeSayTheSame) {
  struct Case {
    Polling asked;
    absl::Duration asked_time;
    Polling granted;
    absl::Duration granted_time;
  };
  const absl::Duration ten = absl::Milliseconds(10), two = absl::Milliseconds(2);
  const absl::Duration zero = absl::ZeroDuration(), forever = absl::InfiniteDuration();
  for (const Case& each : {Case{Polling::kDefault, zero, Polling::kAdaptive, ten},
                           Case{Polling::kDefault, two, Polling::kAdaptive, two},
                           Case{Polling::kDefault, forever, Polling::kHot, forever},
                           Case{Polling::kHot, two, Polling::kHot, forever},
                           Case{Polling::kWarm, two, Polling::kWarm, zero},
                           Case{Polling::kAdaptive, zero, Polling::kAdaptive, zero},
                           Case{Polling::kAdaptive, forever, Polling::kAdaptive, forever}}) {
    LeaseTerms asked = Asking(1);
    asked.polling = each.asked;
    asked.hot_timeout = each.asked_time;
    const auto terms = ResolveTerms(asked, SomePolicy());
    ASSERT_TRUE(terms.ok()) << terms.status();
    EXPECT_EQ(terms->polling, each.granted);
    EXPECT_EQ(terms->hot_timeout, each.granted_time);
    EXPECT_EQ(ExecutorTermsOf(*terms).hot_timeout, each.granted_time);
  }
}

TEST(LeasePolicyTest, ASharedLeaseHasNoTermsOfExecutors) {
  LeaseTerms asked = Asking(0);
  asked.ttl = absl::Seconds(9);
  asked.tenant = "biology";
  const auto terms = ResolveTerms(asked, SomePolicy());
  ASSERT_TRUE(terms.ok()) << terms.status();
  EXPECT_EQ(terms->ttl, absl::Seconds(9));
  EXPECT_EQ(terms->tenant, "biology");
  asked.memory_bytes = 1;
  EXPECT_EQ(ResolveTerms(asked, SomePolicy()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LeasePolicyTest, ASharedLeaseEndsByItselfOnlyIfItsClientWantsThat) {
  auto terms = ResolveTerms(Asking(0), SomePolicy());
  ASSERT_TRUE(terms.ok()) << terms.status();
  EXPECT_EQ(terms->ttl, absl::InfiniteDuration());
  LeaseTerms asked = Asking(0);
  asked.ttl = absl::Hours(2);
  terms = ResolveTerms(asked, SomePolicy());
  ASSERT_TRUE(terms.ok()) << terms.status();
  EXPECT_EQ(terms->ttl, absl::Hours(2));
  for (const absl::Duration more : {absl::Hours(3), absl::InfiniteDuration()}) {
    asked.ttl = more;
    EXPECT_EQ(ResolveTerms(asked, SomePolicy()).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(LeasePolicyTest, WhatTheWorkerDoesNotHaveIsRefused) {
  LeaseTerms python = Asking(1);
  python.kind = ExecutorKind::kPython;
  EXPECT_EQ(ResolveTerms(python, SomePolicy()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  LeasePolicy with_python = SomePolicy();
  with_python.python = true;
  EXPECT_TRUE(ResolveTerms(python, with_python).ok());
  LeasePolicy none = SomePolicy();
  none.total = Resources();
  EXPECT_EQ(ResolveTerms(Asking(1), none).status().code(), absl::StatusCode::kFailedPrecondition);
  LeaseTerms huge = Asking(2);
  huge.memory_bytes = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(ResolveTerms(huge, SomePolicy()).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace invoker
