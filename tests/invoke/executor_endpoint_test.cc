// One endpoint of an executor, driven by the test's own thread. Doorbells are given to it directly,
// as the reactor would.

#include "src/invoke/executor/executor_endpoint.h"

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "tests/invoke/served_client.h"
#include "tests/invoke/session_pair.h"

namespace invoker {
namespace {

constexpr uint64_t kWindow = 4096;
constexpr uint16_t kFirst = 65535;

class ExecutorEndpointTest : public testing::TestWithParam<const char*> {
 protected:
  ExecutorEndpointTest()
      : registry_(MakeTestFunctions(&functions_)), client_(OpenReactor(GetParam())) {
    ClientSession::Options options;
    options.window_bytes = kWindow;
    auto session = ClientSession::Create(client_.get(), options);
    EXPECT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    shared_.functions = &registry_;
    shared_.watch = &watch_;
    shared_.times = FunctionTimes(registry_.size());
    shared_.bulk_budget = std::make_shared<BulkBudget>();
    shared_.on_session_failed = [this](SessionKey key, const absl::Status& status) {
      failed_.emplace_back(key.number, status);
    };
    shared_.on_unheard = [this] { ++unheard_; };
    endpoint_ = std::make_unique<ExecutorEndpoint>(3, *DiscoverLoopback(GetParam()), &shared_,
                                                   kFirst, transport::ReactorOptions());
  }
  ~ExecutorEndpointTest() override {
    if (endpoint_->open()) endpoint_->EndAll();
  }

  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession() {
    return endpoint_->OpenSession(session_->MakeRequest(Notification::kWriteImm),
                                  Notification::kWriteImm,
                                  *transport::HostBuffer::Allocate(kWindow),
                                  *transport::HostBuffer::Allocate(kWindow), DataKeys(), nullptr);
  }
  uint64_t unknown_sessions() const { return watch_.dropped().unknown_session; }

  TestFunctions functions_;
  FunctionRegistry registry_;
  std::unique_ptr<transport::Reactor> client_;
  std::unique_ptr<ClientSession> session_;
  ExecutorWatch watch_;
  ExecutorShared shared_;
  std::vector<std::pair<uint16_t, absl::Status>> failed_;
  int unheard_ = 0;
  std::unique_ptr<ExecutorEndpoint> endpoint_;
};

std::string Name(const testing::TestParamInfo<const char*>& info) { return NameOfProvider(info); }

INSTANTIATE_TEST_SUITE_P(Providers, ExecutorEndpointTest, testing::Values("tcp;ofi_rxm", "shm"),
                         Name);

TEST_P(ExecutorEndpointTest, ThreadsThatOpenItAtOnceGetOneReactor) {
  EXPECT_FALSE(endpoint_->open());
  absl::Notification go;
  std::vector<std::thread> threads;
  std::vector<transport::Reactor*> reactors(4);
  for (transport::Reactor*& reactor : reactors) {
    threads.emplace_back([this, &go, &reactor] {
      go.WaitForNotification();
      EXPECT_TRUE(endpoint_->Open().ok());
      reactor = endpoint_->reactor();
    });
  }
  go.Notify();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(endpoint_->open());
  for (const transport::Reactor* reactor : reactors) EXPECT_EQ(reactor, endpoint_->reactor());
}

TEST_P(ExecutorEndpointTest, GivesSessionsNumbersAndEpochsAndCountsThem) {
  ASSERT_TRUE(endpoint_->Open().ok());
  EXPECT_TRUE(endpoint_->settled());
  const auto first = OpenSession();
  const auto second = OpenSession();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(first->request_session, kFirst);
  EXPECT_EQ(second->request_session, 0) << "numbers wrap";
  EXPECT_NE(first->epoch, second->epoch);
  EXPECT_EQ(first->endpoint_address, endpoint_->reactor()->address());
  EXPECT_EQ(endpoint_->next_number(), 1);
  EXPECT_EQ(endpoint_->live_sessions(), 2u);
  EXPECT_EQ(shared_.live_sessions, 2u);
  EXPECT_TRUE(shared_.rearrange) << "there is an endpoint to poll";
  EXPECT_FALSE(endpoint_->settled());
  EXPECT_NE(endpoint_->Find({kFirst, first->epoch}), nullptr);
  EXPECT_EQ(endpoint_->Find({kFirst, second->epoch}), nullptr) << "an epoch before or after";
}

TEST_P(ExecutorEndpointTest, TellsOfAClientThatEndsUnheard) {
  ASSERT_TRUE(endpoint_->Open().ok());
  const auto opened = OpenSession();
  ASSERT_TRUE(opened.ok()) << opened.status();
  shared_.rearrange = false;
  endpoint_->EndSession(opened->request_session);
  EXPECT_EQ(unheard_, 1);
  EXPECT_TRUE(failed_.empty()) << "it was ended from outside";
  EXPECT_TRUE(shared_.rearrange) << "it was the last session";
  EXPECT_FALSE(endpoint_->live());
  EXPECT_EQ(endpoint_->live_sessions(), 0u);
  EXPECT_EQ(endpoint_->Counters().live_sessions, 0u);
}

TEST_P(ExecutorEndpointTest, GivenUpItRefusesSessionsAndItsOwnEndWithTheReason) {
  ASSERT_TRUE(endpoint_->Open().ok());
  const auto first = OpenSession();
  const auto second = OpenSession();
  ASSERT_TRUE(first.ok() && second.ok());
  const absl::Status reason = absl::UnavailableError("the card was pulled out");
  endpoint_->GiveUp(reason);
  EXPECT_FALSE(endpoint_->healthy());
  EXPECT_TRUE(endpoint_->worth_replacing());
  EXPECT_EQ(endpoint_->TakesSessions(), reason);
  EXPECT_EQ(OpenSession().status(), reason);
  EXPECT_EQ(endpoint_->live_sessions(), 2u) << "they end at the next tick";
  endpoint_->OnTick(transport::MonotonicNs());
  ASSERT_EQ(failed_.size(), 2u);
  for (const auto& [number, status] : failed_) EXPECT_EQ(status, reason);
  EXPECT_FALSE(endpoint_->live());
}

TEST_P(ExecutorEndpointTest, CountsDoorbellsThatNameNoSession) {
  ASSERT_TRUE(endpoint_->Open().ok());
  const auto opened = OpenSession();
  ASSERT_TRUE(opened.ok()) << opened.status();
  Immediate immediate;
  immediate.kind = MessageKind::kRequest;
  immediate.session = 17;
  endpoint_->OnToken(immediate.Encode());
  EXPECT_EQ(unknown_sessions(), 1u);
  immediate.kind = MessageKind::kResponse;
  immediate.session = opened->request_session;
  endpoint_->OnToken(immediate.Encode());
  EXPECT_EQ(unknown_sessions(), 2u) << "responses go to clients";
  EXPECT_EQ(endpoint_->live_sessions(), 1u);
}

}  // namespace
}  // namespace invoker
