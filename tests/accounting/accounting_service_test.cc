// The service Accounting as its clients see it.

#include "src/accounting/accounting_service.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/lease.h"
#include "tests/accounting/billed_host.h"

namespace invoker {
namespace {

using bootstrap::kPatience;

class ServiceTest : public testing::Test {
 protected:
  void Serve(UsageAccumulator* accumulator) {
    bootstrap::ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.services.push_back(MakeAccountingService(accumulator));
    auto server = bootstrap::Server::Start(options, &host_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto client = bootstrap::BootstrapClient::Connect(server_->listen_address(), kPatience);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  static bootstrap::Contribution SomeContribution() {
    bootstrap::Contribution contribution;
    contribution.contributor = 7;
    contribution.fabric = bootstrap::SampleInfo().fabrics[0].identity;
    contribution.endpoint_address = "an address";
    contribution.tenants = {"alice"};
    return contribution;
  }

  BilledHost host_;
  std::unique_ptr<bootstrap::Server> server_;
  std::unique_ptr<bootstrap::BootstrapClient> client_;
};

TEST_F(ServiceTest, TellsEveryFieldOfEveryRecord) {
  const bootstrap::UsageRecord record = SampleRecord();
  bootstrap::UsageRecord contributed;
  contributed.contributed = true;
  host_.set_records({record, contributed});
  Serve(nullptr);
  auto records = client_->GetUsage("alice", kPatience);
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(host_.TakeAskedFor(), "alice");
  ASSERT_EQ(records->size(), 2u);
  const bootstrap::UsageRecord& got = records->front();
  EXPECT_EQ(got.tenant, record.tenant);
  EXPECT_EQ(got.lease, record.lease);
  EXPECT_EQ(got.executors, record.executors);
  EXPECT_EQ(got.open, record.open);
  EXPECT_FALSE(got.contributed);
  EXPECT_EQ(got.usage.lease_time, record.usage.lease_time);
  EXPECT_EQ(got.usage.cpu_time, record.usage.cpu_time);
  EXPECT_EQ(got.usage.memory_byte_seconds, record.usage.memory_byte_seconds);
  EXPECT_EQ(got.usage.calls, record.usage.calls);
  EXPECT_EQ(got.usage.function_time, record.usage.function_time);
  EXPECT_EQ(got.usage.polling_time, record.usage.polling_time);
  EXPECT_EQ(got.usage.bytes_in, record.usage.bytes_in);
  EXPECT_EQ(got.usage.bytes_out, record.usage.bytes_out);
  EXPECT_TRUE((*records)[1].contributed);
}

TEST_F(ServiceTest, AnOpenLeasesUsageIsToldToWhoKnowsItsId) {
  host_.set_records({SampleRecord()});
  host_.set_lease_usage(SampleRecord().usage);
  Serve(nullptr);
  auto lease = bootstrap::Lease::Acquire(client_.get(), {}, {}, kPatience);
  ASSERT_TRUE(lease.ok()) << lease.status();
  const auto usage = client_->GetLeaseUsage((*lease)->id(), kPatience);
  ASSERT_TRUE(usage.ok()) << usage.status();
  EXPECT_EQ(host_.TakeAskedForLease(), (*lease)->id());
  EXPECT_EQ(usage->calls, SampleRecord().usage.calls);
  EXPECT_EQ(usage->bytes_out, SampleRecord().usage.bytes_out);
  EXPECT_EQ(usage->lease_time, SampleRecord().usage.lease_time);
  // The host is asked for no other.
  const absl::Status unknown = client_->GetLeaseUsage((*lease)->id() ^ 1, kPatience).status();
  EXPECT_TRUE(absl::IsNotFound(unknown)) << unknown;
  const uint64_t id = (*lease)->id();
  ASSERT_TRUE((*lease)->Release(kPatience).ok());
  EXPECT_TRUE(absl::IsNotFound(client_->GetLeaseUsage(id, kPatience).status()));
  EXPECT_EQ(host_.TakeAskedForLease(), 0u);
}

TEST_F(ServiceTest, ManyRecordsArriveWhole) {
  std::vector<bootstrap::UsageRecord> many;
  for (uint64_t lease = 1; lease <= 5000; ++lease) {
    many.push_back({"a tenant with a name of some length", lease, 1, true, {}, false});
  }
  host_.set_records(std::move(many));
  Serve(nullptr);
  auto records = client_->GetUsage("", kPatience);
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 5000u);
  EXPECT_EQ(records->back().lease, 5000u);
}

TEST_F(ServiceTest, AServerWithoutCountersSaysHowToHaveThem) {
  Serve(nullptr);
  const absl::Status status = client_->Contribute(SomeContribution(), kPatience).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("--usage-counters"), std::string::npos) << status;
}

TEST_F(ServiceTest, AFabricThatIsNotServedIsNamed) {
  auto accumulator = UsageAccumulator::Start({}, UsageAccumulator::Options());
  ASSERT_TRUE(accumulator.ok()) << accumulator.status();
  Serve(accumulator->get());
  const absl::Status status = client_->Contribute(SomeContribution(), kPatience).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("shm"), std::string::npos) << status;
  server_->Stop();
}

TEST_F(ServiceTest, MalformedContributionsAreRefused) {
  auto accumulator = UsageAccumulator::Start({}, UsageAccumulator::Options());
  ASSERT_TRUE(accumulator.ok()) << accumulator.status();
  Serve(accumulator->get());
  bootstrap::Contribution contribution = SomeContribution();
  contribution.endpoint_address.clear();
  EXPECT_TRUE(absl::IsInvalidArgument(client_->Contribute(contribution, kPatience).status()));
  contribution = SomeContribution();
  contribution.endpoint_address.assign(bootstrap::kMaxAddressBytes + 1, 'x');
  EXPECT_TRUE(absl::IsInvalidArgument(client_->Contribute(contribution, kPatience).status()));
  contribution = SomeContribution();
  contribution.tenants.assign(bootstrap::kMaxContributedTenants + 1, "alice");
  EXPECT_TRUE(absl::IsInvalidArgument(client_->Contribute(contribution, kPatience).status()));
  server_->Stop();
}

}  // namespace
}  // namespace invoker
