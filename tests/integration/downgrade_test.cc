// A fabric that claims write-with-immediate and drops it: the probe at session open notices.

#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "src/bootstrap/service/server.h"
#include "src/invoke/function/function_library.h"
#include "src/invoke/worker/worker.h"
#include "tests/integration/fabric_test.h"
#include "tests/integration/lost_immediates.h"
#include "tests/integration/random_calls.h"

namespace invoker {
namespace {

using testing::HasSubstr;

// Worker and client in this process, so that either's endpoint can be made to lose immediates.
class DowngradeTest : public testing::TestWithParam<FabricUnderTest> {
 protected:
  void StartWorker(Notification notification) {
    auto library = FunctionLibrary::Load(kTestFunctions);
    ASSERT_TRUE(library.ok()) << library.status();
    library_ = *std::move(library);
    FunctionRegistry functions;
    ASSERT_EQ(library_->RegisterAll(&functions), absl::OkStatus());
    WorkerOptions options;
    options.providers = {GetParam().provider};
    options.addresses.preferred_ip = "127.0.0.1";
    options.notification = notification;
    options.executor.hot_timeout = kClientHotTimeout;
    auto worker = Worker::Start(options, std::move(functions));
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    worker_->set_on_downgraded([this](absl::string_view provider, absl::string_view reason) {
      absl::MutexLock lock(&mutex_);
      reports_.push_back(absl::StrCat(provider, ": ", reason));
    });
    bootstrap::ServerOptions server_options;
    server_options.listen = "127.0.0.1:0";
    auto server = bootstrap::Server::Start(server_options, worker_.get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  absl::StatusOr<std::unique_ptr<Client>> Connect(Notification notification) {
    ClientOptions options;
    options.notification = notification;
    options.hot_timeout = kClientHotTimeout;
    options.peer_timeout = absl::Seconds(5);
    return Client::Connect(server_->listen_address(), options);
  }

  void ExpectDowngraded(const absl::StatusOr<std::unique_ptr<Client>>& client) {
    ASSERT_TRUE(client.ok()) << client.status();
    EXPECT_EQ((*client)->notification(), Notification::kSendAfterWrite);
    EXPECT_THAT((*client)->downgrade_reason(), HasSubstr("immediate"));
    EXPECT_EQ(MakeRandomCalls(client->get(), TestSeed(), 50, 100'000), absl::OkStatus());
    // The probe that was lost holds nothing back: a message as large as the window goes through.
    const std::vector<std::byte> largest((*client)->max_payload(), std::byte{7});
    EXPECT_EQ((*client)->Ping(largest), absl::OkStatus());
    // The worker's user hears of it too.
    EXPECT_THAT(Reports(),
                testing::ElementsAre(testing::AllOf(testing::StartsWith(GetParam().provider + ": "),
                                                    HasSubstr("immediate"),
                                                    HasSubstr("using send_after_write instead"))));
    EXPECT_EQ(worker_->downgrades(), 1u);
  }

  std::vector<std::string> Reports() {
    absl::MutexLock lock(&mutex_);
    return reports_;
  }

  absl::Mutex mutex_;
  std::vector<std::string> reports_;
  std::unique_ptr<FunctionLibrary> library_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<bootstrap::Server> server_;
};

TEST_P(DowngradeTest, ImmediatesThatTheWorkersSideLosesAreGivenUp) {
  {
    LoseImmediates lose;
    StartWorker(Notification::kAuto);
  }
  ASSERT_NE(server_, nullptr);
  ExpectDowngraded(Connect(Notification::kAuto));
}

TEST_P(DowngradeTest, ImmediatesThatTheClientsSideLosesAreGivenUp) {
  StartWorker(Notification::kAuto);
  ASSERT_NE(server_, nullptr);
  std::optional<LoseImmediates> lose(std::in_place);
  const auto client = Connect(Notification::kAuto);
  lose.reset();
  ExpectDowngraded(client);
  // Each session decides for itself.
  const auto other = Connect(Notification::kAuto);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ((*other)->notification(), Notification::kWriteImm);
  EXPECT_EQ((*other)->downgrade_reason(), "");
}

TEST_P(DowngradeTest, ImmediatesThatTheWorkersSideCannotPostAreGivenUp) {
  {
    LoseImmediates refuse(LoseImmediates::How::kRefused);
    StartWorker(Notification::kAuto);
  }
  ASSERT_NE(server_, nullptr);
  worker_->set_on_session_closed([this](uint64_t lease, uint64_t handle, absl::string_view reason) {
    server_->NotifySessionClosed(lease, handle, reason);
  });
  ExpectDowngraded(Connect(Notification::kAuto));
}

TEST_P(DowngradeTest, ImmediatesThatTheClientsSideCannotPostAreGivenUp) {
  StartWorker(Notification::kAuto);
  ASSERT_NE(server_, nullptr);
  std::optional<LoseImmediates> refuse(std::in_place, LoseImmediates::How::kRefused);
  const auto client = Connect(Notification::kAuto);
  refuse.reset();
  ExpectDowngraded(client);
}

TEST_P(DowngradeTest, ASideThatInsistsOnImmediatesIsToldThatTheyAreLost) {
  StartWorker(Notification::kWriteImm);
  ASSERT_NE(server_, nullptr);
  LoseImmediates lose;
  const absl::Status status = Connect(Notification::kAuto).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("tried write_imm,"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().provider));
}

TEST_P(DowngradeTest, SendAfterWriteNeedsNoImmediates) {
  LoseImmediates lose;
  StartWorker(Notification::kSendAfterWrite);
  ASSERT_NE(server_, nullptr);
  const auto client = Connect(Notification::kAuto);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ((*client)->downgrade_reason(), "");
  EXPECT_EQ(worker_->downgrades(), 0u);
  EXPECT_EQ(MakeRandomCalls(client->get(), TestSeed(), 50, 100'000), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Providers, DowngradeTest,
                         testing::Values(FabricUnderTest{transport::WithImmediates("tcp;ofi_rxm"),
                                                         "auto"},
                                         FabricUnderTest{"shm", "auto"}),
                         FabricName);

}  // namespace
}  // namespace invoker
