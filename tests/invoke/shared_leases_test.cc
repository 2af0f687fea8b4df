// Clients of one process that share a lease.

#include "src/invoke/connect/shared_leases.h"

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "invoker/client.h"
#include "src/bootstrap/service/server.h"
#include "src/invoke/worker/worker.h"
#include "tests/invoke/leasing_host.h"
#include "tests/invoke/served_client.h"

namespace invoker {
namespace {

// Counts the leases of a worker.
class CountingHost final : public LeasingHost {
 public:
  using LeasingHost::LeasingHost;

  // That have been opened so far.
  int opened() const {
    absl::MutexLock lock(&mutex_);
    return opened_;
  }
  // Returns when so many are open.
  void AwaitOpen(int count) {
    absl::MutexLock lock(&mutex_);
    const auto there = [&] { return opened_ - closed_ == count; };
    mutex_.Await(absl::Condition(&there));
  }

  void OpenLease(uint64_t lease, const LeaseTerms& terms,
                 std::shared_ptr<LeaseObserver> observer) override {
    LeaseTerms granted = terms;
    {
      absl::MutexLock lock(&mutex_);
      ++opened_;
      granted.ttl = ttl_;
    }
    LeasingHost::OpenLease(lease, granted, std::move(observer));
  }
  ResourceUsage CloseLease(uint64_t lease) override {
    {
      absl::MutexLock lock(&mutex_);
      ++closed_;
    }
    return LeasingHost::CloseLease(lease);
  }
  void GrantFor(absl::Duration ttl) {
    absl::MutexLock lock(&mutex_);
    ttl_ = ttl;
  }

 private:
  mutable absl::Mutex mutex_;
  int opened_ ABSL_GUARDED_BY(mutex_) = 0;
  int closed_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration ttl_ ABSL_GUARDED_BY(mutex_);
};

class SharedLeasesTest : public testing::Test {
 protected:
  void SetUp() override { Start({"tcp;ofi_rxm"}); }
  void TearDown() override { Stop(); }

  void Start(std::vector<std::string> providers) {
    WorkerOptions options;
    options.providers = std::move(providers);
    options.addresses.preferred_ip = "127.0.0.1";
    options.executor.hot_timeout = absl::Microseconds(100);
    auto worker = Worker::Start(options, MakeTestFunctions(&functions_));
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    host_ = std::make_unique<CountingHost>(worker_.get());
    Serve("127.0.0.1:0");
  }
  void Stop() {
    server_->Stop();
    worker_->Stop(absl::Seconds(1));
    server_.reset();
  }

  void Serve(const std::string& address) {
    server_options_.listen = address;
    auto server = bootstrap::Server::Start(server_options_, host_.get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::unique_ptr<Client> Connect(ClientOptions options = Patient()) {
    auto client = Client::Connect(server_->listen_address(), options);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }
  // Where many tests run at once, a worker that is alive may answer late.
  static ClientOptions Patient() {
    ClientOptions options;
    options.peer_timeout = absl::Seconds(30);
    options.hot_timeout = absl::ZeroDuration();
    return options;
  }
  static void ExpectCalls(Client* client) {
    const auto response = client->Invoke(Find(*client, "echo"), "hello");
    EXPECT_TRUE(response.ok()) << response.status();
  }

  TestFunctions functions_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<CountingHost> host_;
  bootstrap::ServerOptions server_options_;
  std::unique_ptr<bootstrap::Server> server_;
};

TEST_F(SharedLeasesTest, OneLeaseServesSeveralClientsUntilTheLastOneCloses) {
  std::unique_ptr<Client> first = Connect();
  std::unique_ptr<Client> second = Connect();
  std::unique_ptr<Client> third = Connect();
  EXPECT_EQ(host_->opened(), 1);
  first.reset();
  ExpectCalls(second.get());
  second.reset();
  ExpectCalls(third.get());
  third.reset();
  host_->AwaitOpen(0);
  ExpectCalls(Connect().get());
  EXPECT_EQ(host_->opened(), 2);
}

TEST_F(SharedLeasesTest, OtherOptionsTakeAnotherLease) {
  const std::unique_ptr<Client> first = Connect();
  ClientOptions other = Patient();
  other.peer_timeout = absl::Seconds(20);
  const std::unique_ptr<Client> second = Connect(other);
  other.provider = "tcp;ofi_rxm";
  const std::unique_ptr<Client> third = Connect(other);
  EXPECT_EQ(host_->opened(), 3);
}

TEST_F(SharedLeasesTest, AFullLeaseIsFollowedByAnother) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 17; ++i) clients.push_back(Connect());
  EXPECT_EQ(host_->opened(), 2);
  for (const std::unique_ptr<Client>& client : clients) ExpectCalls(client.get());
}

TEST_F(SharedLeasesTest, AWorkersOwnLimitOfSessionsIsRespected) {
  server_->Stop();
  server_options_.sessions.per_lease = 2;
  Serve("127.0.0.1:0");
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(Connect());
  EXPECT_EQ(host_->opened(), 3);
  for (const std::unique_ptr<Client>& client : clients) ExpectCalls(client.get());
}

// What such a client is told when no fabric works is not the worker's refusal alone.
TEST_F(SharedLeasesTest, AWorkersOwnLimitIsRespectedWhereAFabricIsPassedOver) {
  Stop();
  server_options_.sessions.per_lease = 1;
  Start({"shm", "tcp;ofi_rxm"});
  ClientOptions options = Patient();
  options.worker_in_this_process = true;
  const std::unique_ptr<Client> first = Connect(options);
  const std::unique_ptr<Client> second = Connect(options);
  EXPECT_EQ(host_->opened(), 2);
  ExpectCalls(first.get());
  ExpectCalls(second.get());
}

TEST_F(SharedLeasesTest, ClientsComeAndGoOnManyThreads) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this] {
      for (int round = 0; round < 8; ++round) ExpectCalls(Connect().get());
    });
  }
  for (std::thread& thread : threads) thread.join();
  host_->AwaitOpen(0);
}

TEST_F(SharedLeasesTest, ALeaseThatHasATimeToEndIsNotShared) {
  host_->GrantFor(absl::Hours(1));
  const std::unique_ptr<Client> first = Connect();
  const std::unique_ptr<Client> second = Connect();
  EXPECT_EQ(host_->opened(), 2);
}

// Whether or not the client has learnt of the end yet.
TEST_F(SharedLeasesTest, AServerThatHasBeenStartedAgainGrantsANewLease) {
  const std::unique_ptr<Client> before = Connect();
  const std::string address = server_->listen_address();
  server_->Stop();
  Serve(address);
  const std::unique_ptr<Client> after = Connect();
  ExpectCalls(after.get());
  EXPECT_EQ(host_->opened(), 2);
}

TEST(SharedLeasesKeyTest, ChangesWithTheFilesOfTheCredentials) {
  const std::string file = testing::TempDir() + "/shared_leases_token";
  std::ofstream(file) << "first\n";
  ClientOptions options;
  options.credentials.token_file = file;
  const auto before = SharedLeases::KeyFor("127.0.0.1:7000", options);
  ASSERT_TRUE(before.ok()) << before.status();
  const auto again = SharedLeases::KeyFor("127.0.0.1:7000", options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(before->files == again->files && before->words == again->words);
  // Replaced, as a token should be.
  std::ofstream(file + ".new") << "second\n";
  ASSERT_EQ(std::rename((file + ".new").c_str(), file.c_str()), 0);
  const auto after = SharedLeases::KeyFor("127.0.0.1:7000", options);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_FALSE(before->files == after->files);
  std::remove(file.c_str());
}

}  // namespace
}  // namespace invoker
