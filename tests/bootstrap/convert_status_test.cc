// A server's status is the same at the other end of the bootstrap.

#include "src/bootstrap/conversion/convert_status.h"

#include <gtest/gtest.h>

namespace invoker::bootstrap {
namespace {

TEST(ConvertStatusTest, EverythingComesThrough) {
  ServerStatus status;
  status.address = "10.0.0.1:7000";
  status.version = "1.2.3";
  status.started = absl::FromUnixSeconds(1'800'000'000);
  status.draining = true;
  status.fabrics = {"a", "b"};
  status.capacity.cores = 8;
  status.capacity.free_cores = 3;
  status.capacity.memory_bytes = 1 << 20;
  status.capacity.free_memory_bytes = 1 << 10;
  FunctionCounts counts;
  counts.calls = 4;
  counts.failures = 1;
  counts.bytes_in = 5;
  counts.bytes_out = 6;
  counts.time.counts[7] = 4;
  counts.time.sum_ns = 99;
  status.worker.shared.functions.Add("echo", "a", counts);
  status.worker.leased.functions.Add("mine", "b", counts);
  status.worker.shared.busy = 1;
  status.worker.leased.idle = 2;
  status.worker.leased.starting = 3;
  status.worker.leased.starts = 21;
  status.worker.leased.cold_starts = 22;
  status.worker.leased.registered_bytes = 23;
  status.worker.leased.requests_waiting = 24;
  status.worker.leases_lost = 25;
  status.worker.last_lost = {{26, "tenant", "it died", absl::FromUnixSeconds(1'850'000'000)}};
  UsageRecord open;
  open.lease = 27;
  open.open = true;
  status.open_leases = {open};
  status.worker.shared.sessions = 9;
  status.worker.leased.sessions = 28;
  status.worker.leases_shared = 10;
  status.worker.leases_own = 11;
  status.worker.leases_waiting = 12;
  status.worker.drops = {{"replayed", 13}};
  status.worker.downgrades = 14;
  status.worker.endpoints_given_up = 19;
  status.refused_connections = {{"too_many", 15}};
  status.refused_session_tokens = {{"expired", 16}};
  status.refused_sessions = 17;
  status.refused_requests = 18;
  status.bulk_bytes = 20;
  status.certificates = {{"CN = w", absl::FromUnixSeconds(1'900'000'000)}};
  const ServerStatus same = FromProto(ToProto(status));
  EXPECT_EQ(ToProto(same).SerializeAsString(), ToProto(status).SerializeAsString());
  EXPECT_EQ(same.worker.leased.functions.rows().at({"mine", "b"}).time.counts[7], 4u);
  EXPECT_EQ(same.certificates, status.certificates);
  EXPECT_EQ(same.worker.endpoints_given_up, 19u);
  EXPECT_EQ(same.worker.leased.starts, 21u);
  EXPECT_EQ(same.worker.leased.cold_starts, 22u);
  EXPECT_EQ(same.worker.leased.registered_bytes, 23u);
  EXPECT_EQ(same.worker.leased.requests_waiting, 24u);
  EXPECT_EQ(same.worker.shared.sessions, 9u);
  EXPECT_EQ(same.worker.leased.sessions, 28u);
  EXPECT_EQ(same.worker.leases_lost, 25u);
  ASSERT_EQ(same.worker.last_lost.size(), 1u);
  EXPECT_EQ(same.worker.last_lost[0].at, status.worker.last_lost[0].at);
  EXPECT_EQ(same.worker.last_lost[0].reason, "it died");
  ASSERT_EQ(same.open_leases.size(), 1u);
  EXPECT_EQ(same.open_leases[0].lease, 27u);
  EXPECT_EQ(same.started, status.started);
}

TEST(ConvertStatusTest, AnotherReleasesBucketsFindAPlace) {
  v1::GetStatusReply message;
  auto* function = message.mutable_shared()->add_functions();
  function->set_name("echo");
  for (size_t i = 0; i < LatencyBuckets::kCount + 5; ++i) function->add_times(1);
  const LatencyHistogram time =
      FromProto(message).worker.shared.functions.rows().begin()->second.time;
  EXPECT_EQ(time.total(), LatencyBuckets::kCount + 5);
  EXPECT_EQ(time.counts.back(), 6u);
}

}  // namespace
}  // namespace invoker::bootstrap
