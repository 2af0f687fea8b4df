// What Prometheus reads, and how durations are counted and estimated.

#include "src/status/metrics_text.h"

#include <gmock/gmock.h>

#include <string>

#include "src/base/latency_histogram.h"
#include "src/status/status_json.h"
#include "src/status/status_page.h"

namespace invoker::status {
namespace {

using bootstrap::FunctionCounts;
using bootstrap::FunctionTable;
using bootstrap::ServerStatus;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(LatencyBucketsTest, ABucketContainsItsEndAndNothingBeyondIt) {
  EXPECT_EQ(LatencyBuckets::Of(0), 0u);
  for (size_t i = 0; i + 1 < LatencyBuckets::kCount; ++i) {
    EXPECT_EQ(LatencyBuckets::Of(LatencyBuckets::EndNs(i)), i);
    EXPECT_EQ(LatencyBuckets::Of(LatencyBuckets::EndNs(i) + 1), i + 1);
  }
  EXPECT_EQ(LatencyBuckets::Of(~uint64_t{0}), LatencyBuckets::kCount - 1);
  EXPECT_EQ(LatencyBuckets::EndNs(0), 256u);
  EXPECT_EQ(LatencyBuckets::EndNs(1), 384u);
  EXPECT_EQ(LatencyBuckets::EndNs(2), 512u);
}

FunctionCounts Counts(uint64_t calls, uint64_t ns) {
  FunctionCounts counts;
  counts.calls = calls;
  counts.failures = 1;
  counts.bytes_in = 10 * calls;
  counts.bytes_out = 20 * calls;
  counts.time.counts[LatencyBuckets::Of(ns)] = calls;
  counts.time.sum_ns = calls * ns;
  return counts;
}

TEST(LatencyBucketsTest, QuantilesAreEstimatedWithinTheirBucket) {
  LatencyHistogram times;
  EXPECT_EQ(QuantileSeconds(times, 0.5), 0);
  times.counts[LatencyBuckets::Of(1000)] = 99;  // (768, 1024]
  times.counts[LatencyBuckets::Of(1'000'000)] = 1;
  EXPECT_NEAR(QuantileSeconds(times, 0.5), 897e-9, 2e-9);
  EXPECT_NEAR(QuantileSeconds(times, 0.99), 1024e-9, 1e-9);
  EXPECT_GT(QuantileSeconds(times, 0.999), 700e-6);
  // Beyond the last end the last end is all that is known.
  LatencyHistogram late;
  late.counts.back() = 1;
  EXPECT_NEAR(QuantileSeconds(late, 0.5), 103, 0.1);
}

TEST(FunctionTableTest, FunctionsBeyondTheLimitAreCountedTogether) {
  FunctionTable table;
  for (size_t i = 0; i < FunctionTable::kMostFunctions + 7; ++i) {
    table.Add("f" + std::to_string(i), "fabric", Counts(1, 100));
  }
  EXPECT_EQ(table.rows().size(), FunctionTable::kMostFunctions + 1);
  EXPECT_EQ(table.rows().at({"(others)", "fabric"}).calls, 7u);
  table.Add("f3", "fabric", Counts(4, 100));
  EXPECT_EQ(table.rows().at({"f3", "fabric"}).calls, 5u);
}

TEST(MetricsTextTest, CountsOfAFunctionAreLabelledWithItsFabricAndExecutors) {
  ServerStatus status;
  status.worker.shared.functions.Add("echo", "shm", Counts(3, 1000));
  status.worker.leased.functions.Add("echo", "shm", Counts(5, 1000));
  const std::string text = MetricsText(status);
  const std::string shared = "{function=\"echo\",fabric=\"shm\",executors=\"shared\"";
  EXPECT_THAT(text, AllOf(HasSubstr("# TYPE invoker_calls_total counter"),
                          HasSubstr("invoker_calls_total" + shared + "} 3"),
                          HasSubstr("executors=\"leased\"} 5"),
                          HasSubstr("invoker_call_failures_total" + shared + "} 1"),
                          HasSubstr("invoker_request_bytes_total" + shared + "} 30"),
                          HasSubstr("invoker_response_bytes_total" + shared + "} 60")));
  EXPECT_THAT(text, AllOf(HasSubstr("# TYPE invoker_call_duration_seconds histogram"),
                          HasSubstr("invoker_call_duration_seconds_count" + shared + "} 3"),
                          HasSubstr(shared + ",le=\"+Inf\"} 3")));
}

TEST(MetricsTextTest, NamesCannotAddLinesOrLabels) {
  ServerStatus status;
  status.worker.leased.functions.Add("a\"} 1\ninvoker_x 2\\", "shm", Counts(1, 1));
  const std::string text = MetricsText(status);
  EXPECT_THAT(text, HasSubstr("function=\"a\\\"} 1\\ninvoker_x 2\\\\\""));
  EXPECT_THAT(text, Not(HasSubstr("\ninvoker_x")));
}

TEST(MetricsTextTest, WhatTheServerRefusedAndHasIsThere) {
  ServerStatus status;
  status.draining = true;
  status.version = "1.2.3";
  status.capacity.cores = 8;
  status.worker.leased.busy = 2;
  status.worker.leases_waiting = 4;
  status.worker.drops = {{"replayed", 9}};
  status.refused_connections = {{"too_many", 6}};
  status.certificates = {{"CN = w", absl::FromUnixSeconds(1'900'000'000)}};
  EXPECT_THAT(
      MetricsText(status),
      AllOf(HasSubstr("invoker_draining 1"), HasSubstr("invoker_build_info{version=\"1.2.3\"} 1"),
            HasSubstr("invoker_lease_cores 8"),
            HasSubstr("invoker_executors{executors=\"leased\",state=\"busy\"} 2"),
            HasSubstr("invoker_leases_waiting 4"),
            HasSubstr("invoker_dropped_messages_total{reason=\"replayed\"} 9"),
            HasSubstr("invoker_refused_connections_total{reason=\"too_many\"} 6"),
            HasSubstr("invoker_certificate_expiry_timestamp_seconds{subject=\"CN = w\"} 19")));
}

TEST(StatusJsonTest, AnythingThatIsNoTextIsReplaced) {
  ServerStatus status;
  status.worker.leased.functions.Add("bad\xff", "shm", Counts(1, 1));
  EXPECT_THAT(StatusJson(status), HasSubstr("\"function\":\"bad\xEF\xBF\xBD\""));
}

TEST(StatusPageTest, ItNeedsNothingFromOtherServers) {
  EXPECT_THAT(std::string(StatusPage()), AllOf(Not(HasSubstr("http:")), Not(HasSubstr("https:")),
                                               Not(HasSubstr("innerHTML"))));
}

}  // namespace
}  // namespace invoker::status
