// How a group's connector treats members of a cluster whose entries come and go.

#include "src/invoke/group/member_connector.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "tests/integration/server_process.h"

namespace invoker {
namespace {

// Keeps the numbers of the executors that get a client, in their order.
class FilledPlaces {
 public:
  MemberConnector::Places Made() {
    MemberConnector::Places places;
    places.replace = [this](size_t executor, const std::shared_ptr<Client>&) {
      absl::MutexLock lock(&mutex_);
      filled_.push_back(executor);
      return absl::OkStatus();
    };
    places.add = [this](const std::shared_ptr<Client>&) -> absl::StatusOr<size_t> {
      absl::MutexLock lock(&mutex_);
      filled_.push_back(next_);
      return next_++;
    };
    return places;
  }

  std::vector<size_t> Await(size_t count) {
    const auto enough = [this, count]()
                            ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return filled_.size() >= count; };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&enough));
    return filled_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<size_t> filled_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 10;
};

std::unique_ptr<ServerProcess> StartServer() {
  ServerProcessOptions options;
  options.provider = "tcp;ofi_rxm";
  absl::StatusOr<std::unique_ptr<ServerProcess>> server = ServerProcess::Start(options);
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

cluster::Member MemberAt(const ServerProcess& server) {
  cluster::Member member;
  member.server = server.address();
  return member;
}

TEST(MemberConnectorTest, AMemberThatComesBackGetsTheSessionsThatWereLostMeanwhile) {
  const std::unique_ptr<ServerProcess> server = StartServer();
  ASSERT_NE(server, nullptr);
  const cluster::Member member = MemberAt(*server);
  FilledPlaces places;
  MemberConnector connector(ClientOptions(), 3, places.Made());
  connector.Adopt(member, {0, 1, 2});
  ASSERT_TRUE(connector.Start().ok());
  connector.SetMembers({});
  connector.Lost(1);
  connector.SetMembers({member});
  EXPECT_EQ(places.Await(1), std::vector<size_t>{1});
  // It got one session and no more. Each is followed as before.
  connector.Lost(2);
  EXPECT_EQ(places.Await(2), (std::vector<size_t>{1, 2}));
  connector.Lost(1);
  EXPECT_EQ(places.Await(3), (std::vector<size_t>{1, 2, 1}));
}

TEST(MemberConnectorTest, AMemberThatComesBackWithAllItsSessionsGetsNoOthers) {
  const std::unique_ptr<ServerProcess> server = StartServer();
  ASSERT_NE(server, nullptr);
  const cluster::Member member = MemberAt(*server);
  FilledPlaces places;
  MemberConnector connector(ClientOptions(), 2, places.Made());
  connector.Adopt(member, {0, 1});
  ASSERT_TRUE(connector.Start().ok());
  connector.SetMembers({});
  connector.SetMembers({member});
  connector.Lost(0);
  EXPECT_EQ(places.Await(1), std::vector<size_t>{0});
}

TEST(MemberConnectorTest, AMemberWhosePlaceAnotherOneTookGetsAFurtherOne) {
  const std::unique_ptr<ServerProcess> first = StartServer();
  const std::unique_ptr<ServerProcess> second = StartServer();
  ASSERT_TRUE(first != nullptr && second != nullptr);
  const cluster::Member member = MemberAt(*first), other = MemberAt(*second);
  FilledPlaces places;
  MemberConnector connector(ClientOptions(), 1, places.Made());
  connector.Adopt(member, {0, 1});
  ASSERT_TRUE(connector.Start().ok());
  connector.SetMembers({});
  connector.Lost(1);
  connector.SetMembers({other});
  EXPECT_EQ(places.Await(1), std::vector<size_t>{1});
  connector.SetMembers({member, other});
  EXPECT_EQ(places.Await(2), (std::vector<size_t>{1, 10}));
}

}  // namespace
}  // namespace invoker
