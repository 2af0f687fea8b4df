// Usage that one server adds to another's counters: every bit of it, once, over each fabric, by the
// fabric's atomics and by messages.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "proto/bootstrap.grpc.pb.h"
#include "src/accounting/accounting_service.h"
#include "src/accounting/usage_contributor.h"
#include "src/accounting/usage_row.h"
#include "src/bootstrap/conversion/convert_accounting.h"
#include "src/bootstrap/service/server.h"
#include "src/bootstrap/service/service_support.h"
#include "src/invoke/worker/worker.h"
#include "tests/accounting/held_port.h"
#include "tests/integration/server_process.h"
#include "tests/log/captured_log.h"

namespace invoker {
namespace {

// Nobody else takes a port there between two servers.
std::string AnyPort() { return LoopbackAddressOfItsOwn() + ":0"; }

struct Case {
  const char* name;
  const char* provider;
  bool by_message;
};

// A server that other servers add to. It may be stopped, and another one started in its place.
class Accumulating {
 public:
  Accumulating(const Case& way, const std::string& listen, uint32_t max_contributors = 1024) {
    WorkerOptions worker_options;
    worker_options.providers = {way.provider};
    worker_options.addresses.preferred_ip = "127.0.0.1";
    worker_options.executor.hot_timeout = absl::ZeroDuration();
    auto worker = Worker::Start(worker_options, FunctionRegistry());
    EXPECT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    UsageAccumulator::Options options;
    options.by_message = way.by_message;
    options.max_contributors = max_contributors;
    auto accumulator = UsageAccumulator::Start(worker_->fabrics(), options);
    EXPECT_TRUE(accumulator.ok()) << accumulator.status();
    accumulator_ = *std::move(accumulator);
    bootstrap::ServerOptions server_options;
    server_options.listen = listen;
    server_options.services.push_back(MakeAccountingService(accumulator_.get()));
    auto server = bootstrap::Server::Start(server_options, worker_.get());
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~Accumulating() { server_->Stop(); }

  const std::string& address() const { return server_->listen_address(); }

  // A row that the server answers with.
  UsageRow RowOf(const std::string& tenant) {
    auto client = bootstrap::BootstrapClient::Connect(address(), absl::Seconds(30));
    EXPECT_TRUE(client.ok()) << client.status();
    auto records = (*client)->GetUsage(tenant, absl::Seconds(30));
    EXPECT_TRUE(records.ok()) << records.status();
    if (!records.ok() || records->empty()) return {};
    EXPECT_EQ(records->size(), 1u);
    EXPECT_TRUE(records->front().contributed);
    EXPECT_EQ(records->front().tenant, tenant);
    return ToRow(records->front().usage);
  }

 private:
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<UsageAccumulator> accumulator_;
  std::unique_ptr<bootstrap::Server> server_;
};

// A book and who sends it on.
class Contributing {
 public:
  Contributing(const Case& way, const std::string& address, absl::Duration timeout) {
    auto book = UsageBook::Open({});
    EXPECT_TRUE(book.ok());
    book_ = *std::move(book);
    UsageContributorOptions options;
    options.server = address;
    options.interval = absl::Hours(1);
    options.timeout = timeout;
    options.provider = way.provider;
    options.totals = [this] { return book_->Totals(); };
    auto contributor = UsageContributor::Start(std::move(options));
    EXPECT_TRUE(contributor.ok()) << contributor.status();
    contributor_ = *std::move(contributor);
    book_->set_on_lease_closed([raw = contributor_.get()] { raw->Kick(); });
  }
  ~Contributing() { book_->set_on_lease_closed(nullptr); }

  // One lease from its beginning to its end.
  void Use(const std::string& tenant, uint64_t calls) {
    book_->OpenLease(++lease_, tenant, 2, 1 << 20);
    UsageReading reading;
    reading.cpu_time = absl::Microseconds(7 * calls);
    reading.calls = calls;
    reading.bytes_in = 1000 * calls;
    reading.bytes_out = 3'000'000'000 * calls;
    book_->CloseLease(lease_, reading);
  }

  UsageRow RowOf(const std::string& tenant) const {
    for (const UsageBook::TenantTotal& total : book_->Totals()) {
      if (total.tenant == tenant) return ToRow(total.usage);
    }
    return {};
  }

  UsageContributor& contributor() { return *contributor_; }

 private:
  uint64_t lease_ = 0;
  std::unique_ptr<UsageBook> book_;
  std::unique_ptr<UsageContributor> contributor_;
};

// An accumulator that vanishes between its answer and the additions: a server process that is
// killed once it has answered. The first round's only.
class VanishedService final : public bootstrap::v1::Accounting::Service {
 public:
  explicit VanishedService(const Case& way) {
    auto there = ServerProcess::Start({.provider = way.provider, .more = {"--usage-counters"}});
    EXPECT_TRUE(there.ok()) << there.status();
    if (there.ok()) there_ = *std::move(there);
  }

  grpc::Status Contribute(grpc::ServerContext* context,
                          const bootstrap::v1::ContributeRequest* request,
                          bootstrap::v1::ContributeReply* reply) override {
    bootstrap::Mark(context);
    if (there_ == nullptr) return bootstrap::ToGrpc(absl::UnavailableError("it has vanished"));
    absl::StatusOr<bootstrap::ContributionTarget> target = Ask(*request);
    if (!target.ok()) return bootstrap::ToGrpc(target.status());
    *reply = bootstrap::ToProto(*target);
    there_->Kill();
    there_.reset();
    port_.Hold(target->endpoint_address);
    return grpc::Status::OK;
  }

 private:
  absl::StatusOr<bootstrap::ContributionTarget> Ask(
      const bootstrap::v1::ContributeRequest& request) {
    absl::StatusOr<bootstrap::Contribution> contribution = bootstrap::FromProto(request);
    if (!contribution.ok()) return contribution.status();
    auto client = bootstrap::BootstrapClient::Connect(there_->address(), absl::Seconds(30));
    if (!client.ok()) return client.status();
    return (*client)->Contribute(*contribution, absl::Seconds(30));
  }

  std::unique_ptr<ServerProcess> there_;
  HeldPort port_;
};

class Contribution : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Accumulating> Accumulate(const std::string& listen = AnyPort()) {
    return std::make_unique<Accumulating>(GetParam(), listen);
  }
  std::unique_ptr<Contributing> Contribute(const std::string& address,
                                           absl::Duration timeout = absl::Seconds(30)) {
    return std::make_unique<Contributing>(GetParam(), address, timeout);
  }
  std::string Log() const { return absl::StrJoin(log_.messages(), "\n"); }

 private:
  const CapturedLog log_;
};

// An addition takes effect when the owner's side of the fabric has come to it, which may be after
// its completion.
bool Arrives(Accumulating* there, const std::string& tenant, const UsageRow& row) {
  const absl::Time limit = absl::Now() + absl::Seconds(30);
  while (there->RowOf(tenant) != row) {
    if (absl::Now() > limit) {
      EXPECT_EQ(there->RowOf(tenant), row);
      return false;
    }
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

std::string NameOfCase(const testing::TestParamInfo<Case>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Every, Contribution,
                         testing::Values(Case{"Tcp", "tcp;ofi_rxm", false},
                                         Case{"Shm", "shm", false},
                                         Case{"ShmByMessage", "shm", true}),
                         NameOfCase);

TEST_P(Contribution, EverythingArrivesOnce) {
  auto there = Accumulate();
  auto here = Contribute(there->address());
  for (uint64_t round = 1; round <= 5; ++round) {
    for (const char* tenant : {"alice", "bob", ""}) here->Use(tenant, round);
    const absl::Status status = here->contributor().Flush();
    ASSERT_TRUE(status.ok()) << status;
    for (const char* tenant : {"alice", "bob"}) {
      ASSERT_TRUE(Arrives(there.get(), tenant, here->RowOf(tenant))) << tenant << " " << round;
    }
  }
  EXPECT_EQ(there->RowOf("alice")[3], 15u) << "calls";
  const uint64_t additions = here->contributor().additions();
  ASSERT_TRUE(here->contributor().Flush().ok());
  EXPECT_EQ(here->contributor().additions(), additions) << "there was nothing new";
  EXPECT_EQ(here->contributor().unconfirmed(), 0u);
  EXPECT_EQ(Log(), "");
}

TEST_P(Contribution, TheEndOfALeaseNeedsNoOtherOccasion) {
  auto there = Accumulate();
  auto here = Contribute(there->address());
  here->Use("alice", 3);
  EXPECT_TRUE(Arrives(there.get(), "alice", here->RowOf("alice")));
}

TEST_P(Contribution, SeveralServersAddUp) {
  auto there = Accumulate();
  constexpr uint64_t kServers = 3;
  std::vector<std::unique_ptr<Contributing>> servers;
  for (uint64_t i = 0; i < kServers; ++i) servers.push_back(Contribute(there->address()));
  for (uint64_t round = 0; round < 20; ++round) {
    for (auto& server : servers) server->Use("alice", 5);
  }
  for (auto& server : servers) ASSERT_TRUE(server->contributor().Flush().ok());
  UsageRow expected = {};
  for (auto& server : servers) {
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += server->RowOf("alice")[i];
  }
  EXPECT_TRUE(Arrives(there.get(), "alice", expected));
  EXPECT_EQ(expected[3], kServers * 20 * 5);
}

TEST_P(Contribution, WhatCouldNotBeAddedIsKept) {
  auto there = Accumulate();
  const std::string address = there->address();
  there.reset();
  auto here = Contribute(address, absl::Seconds(3));
  here->Use("alice", 3);
  EXPECT_FALSE(here->contributor().Flush().ok());
  here->Use("alice", 4);
  EXPECT_FALSE(here->contributor().Flush().ok());
  EXPECT_NE(Log().find(address), std::string::npos);
  EXPECT_EQ(here->contributor().additions(), 0u);
  there = Accumulate(address);
  // A connection that was refused is tried again after a while.
  absl::Status status;
  for (int i = 0; i < 10 && !(status = here->contributor().Flush()).ok(); ++i) {
  }
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(Arrives(there.get(), "alice", here->RowOf("alice")));
  EXPECT_EQ(here->contributor().unconfirmed(), 0u);
}

TEST_P(Contribution, MoreServersThanThereIsRoomForAreRefusedAndSaySo) {
  Accumulating there(GetParam(), AnyPort(), /*max_contributors=*/2);
  std::vector<std::unique_ptr<Contributing>> servers;
  for (int i = 0; i < 3; ++i) servers.push_back(Contribute(there.address()));
  // Each asks under a number of its own, and asks again.
  for (uint64_t round = 1; round <= 2; ++round) {
    for (int i = 0; i < 2; ++i) {
      servers[i]->Use(absl::StrCat("tenant", i), round);
      const absl::Status status = servers[i]->contributor().Flush();
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  servers[2]->Use("tenant2", 1);
  const absl::Status refused = servers[2]->contributor().Flush();
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(Log().find("2 contributing servers"), std::string::npos) << Log();
  for (int i = 0; i < 2; ++i) {
    const std::string tenant = absl::StrCat("tenant", i);
    EXPECT_TRUE(Arrives(&there, tenant, servers[i]->RowOf(tenant)));
  }
  EXPECT_EQ(there.RowOf("tenant2"), UsageRow{});
}

TEST_P(Contribution, CountersThatBeganAnewGetWhatIsNew) {
  auto there = Accumulate();
  const std::string address = there->address();
  auto here = Contribute(address, absl::Seconds(5));
  here->Use("alice", 3);
  ASSERT_TRUE(here->contributor().Flush().ok());
  const UsageRow before = here->RowOf("alice");
  there.reset();
  there = Accumulate(address);
  here->Use("alice", 10);
  // The channel may have to find out first that its server has gone.
  absl::Status status;
  for (int tries = 0; tries < 10; ++tries) {
    status = here->contributor().Flush();
    if (status.ok()) break;
  }
  ASSERT_TRUE(status.ok()) << status;
  UsageRow expected = here->RowOf("alice");
  for (size_t i = 0; i < expected.size(); ++i) expected[i] -= before[i];
  EXPECT_TRUE(Arrives(there.get(), "alice", expected));
  EXPECT_NE(Log().find("begun anew"), std::string::npos) << Log();
}

TEST_P(Contribution, WhatMayHaveBeenAddedIsNotAddedAgain) {
  // Offers the fabric, and hands out the address of an endpoint that is gone by then.
  WorkerOptions worker_options;
  worker_options.providers = {GetParam().provider};
  worker_options.addresses.preferred_ip = "127.0.0.1";
  worker_options.executor.hot_timeout = absl::ZeroDuration();
  auto worker = Worker::Start(worker_options, FunctionRegistry());
  ASSERT_TRUE(worker.ok()) << worker.status();
  bootstrap::ServerOptions server_options;
  server_options.listen = AnyPort();
  server_options.services.push_back(
      [](const bootstrap::ServiceParts&) { return std::make_unique<VanishedService>(GetParam()); });
  auto server = bootstrap::Server::Start(server_options, worker->get());
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->listen_address();
  auto here = Contribute(address, absl::Seconds(5));
  here->Use("alice", 3);
  // The end of the lease may have begun a round by itself. Then that is the one which fails, and
  // this one may find nothing left to add.
  here->contributor().Flush().IgnoreError();
  EXPECT_NE(Log().find("cannot add usage"), std::string::npos) << Log();
  const uint64_t lost = here->contributor().unconfirmed();
  EXPECT_EQ(here->contributor().additions(), lost);
  // Some fabrics do not even take an addition to an endpoint that is gone.
  EXPECT_EQ(Log().find("may or may not") != std::string::npos, lost > 0) << Log();
  (*server)->Stop();
  server->reset();

  auto there = Accumulate(address);
  absl::Status status;
  for (int tries = 0; tries < 10; ++tries) {
    status = here->contributor().Flush();
    if (status.ok()) break;
  }
  ASSERT_TRUE(status.ok()) << status;
  // Each counter's growth went into the one round or into the other.
  const UsageRow all = here->RowOf("alice");
  const auto missing = [&](const UsageRow& row) {
    uint64_t counters = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_TRUE(row[i] == 0 || row[i] == all[i]) << i;
      counters += row[i] == all[i] ? 0 : 1;
    }
    return counters;
  };
  const absl::Time limit = absl::Now() + absl::Seconds(30);
  while (missing(there->RowOf("alice")) > lost && absl::Now() < limit) {
    absl::SleepFor(absl::Milliseconds(2));
  }
  EXPECT_EQ(missing(there->RowOf("alice")), lost);
  EXPECT_EQ(here->contributor().unconfirmed(), lost);
}

TEST_P(Contribution, ManyTenantsTakeSeveralRequests) {
  auto there = Accumulate();
  auto here = Contribute(there->address());
  const uint64_t tenants = 2 * bootstrap::kMaxContributedTenants + 10;
  for (uint64_t i = 1; i <= tenants; ++i) here->Use(absl::StrCat("tenant", i), i);
  const absl::Status status = here->contributor().Flush();
  ASSERT_TRUE(status.ok()) << status;
  for (uint64_t i : {uint64_t{1}, tenants / 2, tenants}) {
    const std::string tenant = absl::StrCat("tenant", i);
    EXPECT_TRUE(Arrives(there.get(), tenant, here->RowOf(tenant)));
    EXPECT_EQ(there->RowOf(tenant)[3], i);
  }
}

TEST(ContributorTest, AnAddressThatIsNoneIsRefusedAtOnce) {
  UsageContributorOptions options;
  options.server = "nowhere";
  options.totals = [] { return std::vector<UsageBook::TenantTotal>(); };
  EXPECT_TRUE(absl::IsInvalidArgument(UsageContributor::Start(std::move(options)).status()));
}

TEST(ContributorTest, WithNothingToTellNobodyIsAsked) {
  UsageContributorOptions options;
  options.server = "127.0.0.1:1";
  options.totals = [] { return std::vector<UsageBook::TenantTotal>(); };
  auto contributor = UsageContributor::Start(std::move(options));
  ASSERT_TRUE(contributor.ok()) << contributor.status();
  EXPECT_TRUE((*contributor)->Flush().ok());
}

}  // namespace
}  // namespace invoker
