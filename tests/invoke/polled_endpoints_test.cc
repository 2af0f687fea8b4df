// The test's own thread drives every endpoint.

#include "src/invoke/executor/polled_endpoints.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/invoke/executor/fabric_endpoints.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

constexpr uint64_t kWindow = 4096;

class PolledEndpointsTest : public testing::Test {
 protected:
  PolledEndpointsTest()
      : registry_(MakeTestFunctions(&functions_)), client_reactor_(OpenReactor("shm")) {
    ClientSession::Options options;
    options.window_bytes = kWindow;
    auto client = ClientSession::Create(client_reactor_.get(), options);
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    shared_.functions = &registry_;
    shared_.watch = &watch_;
    shared_.times = FunctionTimes(registry_.size());
  }

  FabricEndpoints Make(bool wait_slows_polling) {
    std::vector<transport::FabricChoice> fabrics;
    for (const char* provider : {"tcp;ofi_rxm", "shm"}) {
      fabrics.push_back(*DiscoverLoopback(provider));
      fabrics.back().profile.wait_slows_polling = wait_slows_polling;
    }
    transport::ReactorOptions options;
    options.use = transport::ReactorUse::kHot;
    options.retirement = absl::Milliseconds(1);
    return FabricEndpoints(std::move(fabrics), &shared_, 1, options);
  }

  SessionKey OpenSession(ExecutorEndpoint* endpoint, uint16_t fabric) {
    EXPECT_TRUE(endpoint->Open().ok());
    const auto reply =
        endpoint->OpenSession(client_->MakeRequest(Notification::kWriteImm),
                              Notification::kWriteImm, *transport::HostBuffer::Allocate(kWindow),
                              *transport::HostBuffer::Allocate(kWindow), DataKeys(), nullptr);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? SessionKey{reply->request_session, reply->epoch, fabric} : SessionKey();
  }

  TestFunctions functions_;
  FunctionRegistry registry_;
  std::unique_ptr<transport::Reactor> client_reactor_;
  std::unique_ptr<ClientSession> client_;
  ExecutorWatch watch_;
  ExecutorShared shared_;
};

TEST_F(PolledEndpointsTest, OnlyEndpointsOfSessionsArePolledUntilTheyHaveSettled) {
  const FabricEndpoints endpoints = Make(/*wait_slows_polling=*/false);
  PolledEndpoints polled(&shared_, &endpoints);
  polled.Arrange();
  EXPECT_FALSE(polled.live());
  ExecutorEndpoint* const endpoint = endpoints.ForNewSession(1, true).current().get();
  const SessionKey key = OpenSession(endpoint, 1);
  ASSERT_TRUE(shared_.rearrange);
  polled.Arrange();
  EXPECT_TRUE(polled.live());
  ASSERT_EQ(polled.reactors().size(), 1u);
  EXPECT_EQ(polled.reactors()[0], endpoint->reactor());
  const uint64_t turns = polled.turns();
  polled.Turn();
  EXPECT_EQ(polled.turns(), turns + 1);
  endpoint->EndSession(key.number);
  polled.Arrange();
  EXPECT_FALSE(polled.live());
  EXPECT_EQ(polled.reactors().size(), 1u);
  const int64_t give_up_ns = transport::MonotonicNs() + int64_t{60'000'000'000};
  while (!polled.reactors().empty() && transport::MonotonicNs() < give_up_ns) {
    polled.PollLeaving();
    polled.Arrange();
  }
  EXPECT_TRUE(polled.reactors().empty());
  endpoint->EndAll();
}

TEST_F(PolledEndpointsTest, AnEndpointThatAwaitsACheckIsPolledWithoutASession) {
  const FabricEndpoints endpoints = Make(/*wait_slows_polling=*/false);
  PolledEndpoints polled(&shared_, &endpoints);
  const std::shared_ptr<ExecutorEndpoint> endpoint = endpoints.ForNewSession(1, true).current();
  ASSERT_TRUE(endpoint->Open().ok());
  endpoint->reactor()->ExpectCheck(7);
  shared_.rearrange = true;
  polled.Arrange();
  EXPECT_TRUE(polled.awaits_check());
  EXPECT_EQ(polled.reactors().size(), 1u);
  endpoint->reactor()->ExpectCheck(0);
  polled.PollLeaving();
  polled.Arrange();
  EXPECT_FALSE(polled.awaits_check());
  EXPECT_TRUE(polled.reactors().empty());
  endpoint->EndAll();
}

TEST_F(PolledEndpointsTest, AFewSessionsOfAHotExecutorDoWithoutAWaitObject) {
  const FabricEndpoints endpoints = Make(/*wait_slows_polling=*/true);
  EXPECT_EQ(endpoints.fabrics(), 2u);
  EXPECT_EQ(endpoints.sets().size(), 4u);
  EndpointSet& hot = endpoints.ForNewSession(1, true);
  EndpointSet& other = endpoints.ForNewSession(1, false);
  EXPECT_EQ(hot.use(), transport::ReactorUse::kHot);
  EXPECT_EQ(other.use(), transport::ReactorUse::kBlocking);
  std::vector<SessionKey> keys;
  while (&endpoints.ForNewSession(1, true) == &hot) {
    ASSERT_LT(keys.size(), 100u);
    keys.push_back(OpenSession(hot.current().get(), 1));
  }
  EXPECT_GT(keys.size(), 1u);
  EXPECT_EQ(&endpoints.ForNewSession(1, true), &other);
  const SessionKey on_other = OpenSession(other.current().get(), 1);
  EXPECT_EQ(endpoints.Find(keys.front()), hot.current().get());
  EXPECT_EQ(endpoints.Find(on_other), other.current().get());
  EXPECT_EQ(endpoints.Find({on_other.number, on_other.epoch, 0}), nullptr);
  size_t open = 0;
  endpoints.ForEachOf(0, [&open](ExecutorEndpoint*) { ++open; });
  EXPECT_EQ(open, 0u);
  endpoints.ForEach([&open](ExecutorEndpoint* endpoint) {
    ++open;
    endpoint->EndAll();
  });
  EXPECT_EQ(open, 2u);
}

}  // namespace
}  // namespace invoker
