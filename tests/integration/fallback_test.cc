// The best fabric does not work: the client goes on with the next, and says so.

#include <gmock/gmock.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "src/bootstrap/service/server.h"
#include "src/invoke/function/function_library.h"
#include "src/invoke/worker/worker.h"
#include "tests/integration/fabric_test.h"
#include "tests/integration/lost_immediates.h"
#include "tests/integration/random_calls.h"

namespace invoker {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using How = LoseImmediates::How;

constexpr char kBest[] = "shm";
constexpr char kNext[] = "tcp;ofi_rxm";

// The helper processes that try fabrics for a worker lose immediates, too, while one exists.
class LoseInSelfTests {
 public:
  explicit LoseInSelfTests(How how, const std::string& provider = "") {
    setenv("LOSE", std::to_string(static_cast<int>(how)).c_str(), 1);
    setenv("LOSE_PROVIDER", provider.c_str(), 1);
  }
  ~LoseInSelfTests() {
    unsetenv("LOSE");
    unsetenv("LOSE_PROVIDER");
  }
};

// Worker and client in this process, so that either's endpoints can be broken.
class FallbackTest : public testing::Test {
 protected:
  void SetUp() override {
    auto library = FunctionLibrary::Load(kTestFunctions);
    ASSERT_TRUE(library.ok()) << library.status();
    library_ = *std::move(library);
  }

  absl::Status StartWorker(std::vector<std::string> providers) {
    FunctionRegistry functions;
    if (absl::Status status = library_->RegisterAll(&functions); !status.ok()) return status;
    WorkerOptions options;
    options.providers = std::move(providers);
    options.addresses.preferred_ip = "127.0.0.1";
    options.executor.hot_timeout = kClientHotTimeout;
    options.self_test.program = "tests/integration/lossy_self_test";
    auto worker = Worker::Start(options, std::move(functions));
    if (!worker.ok()) return worker.status();
    worker_ = *std::move(worker);
    bootstrap::ServerOptions server_options;
    server_options.listen = "127.0.0.1:0";
    auto server = bootstrap::Server::Start(server_options, worker_.get());
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    worker_->set_on_session_closed(
        [this](uint64_t lease, uint64_t handle, absl::string_view reason) {
          server_->NotifySessionClosed(lease, handle, reason);
        });
    return absl::OkStatus();
  }

  void TearDown() override {
    if (server_ == nullptr) return;
    server_->Stop();
    worker_->Stop(absl::Seconds(1));
    server_.reset();
    worker_.reset();
    EXPECT_EQ(SharedMemoryOf(getpid()), std::vector<std::string>());
  }

  absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& provider = "auto") {
    ClientOptions options;
    options.provider = provider;
    options.hot_timeout = kClientHotTimeout;
    options.peer_timeout = absl::Seconds(5);
    return Client::Connect(server_->listen_address(), options);
  }

  void ExpectTheNext(const absl::StatusOr<std::unique_ptr<Client>>& client) {
    ASSERT_TRUE(client.ok()) << client.status();
    EXPECT_EQ((*client)->provider(), kNext);
    EXPECT_THAT((*client)->fabric_choice(),
                StartsWith("tcp;ofi_rxm: shm was tried first and failed ("));
    EXPECT_EQ((*client)->downgrade_reason(), "");
    EXPECT_EQ(MakeRandomCalls(client->get(), TestSeed(), 50, 100'000), absl::OkStatus());
    // What was tried before is gone.
    EXPECT_EQ(worker_->Counters().live_sessions, 1u);
  }

  std::unique_ptr<FunctionLibrary> library_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<bootstrap::Server> server_;
};

TEST_F(FallbackTest, AFabricThatPostsNothingIsGivenUp) {
  ASSERT_EQ(StartWorker({kBest, kNext}), absl::OkStatus());
  LoseImmediates broken(How::kWithEverything, kBest);
  ExpectTheNext(Connect());
}

TEST_F(FallbackTest, AFabricThatIsSilentIsGivenUpAfterBothNotifications) {
  ASSERT_EQ(StartWorker({kBest, kNext}), absl::OkStatus());
  LoseImmediates broken(How::kWithAllElseRefused, kBest);
  const auto client = Connect();
  ExpectTheNext(client);
  EXPECT_THAT((*client)->fabric_choice(), HasSubstr("tried write_imm, then send_after_write"));
}

TEST_F(FallbackTest, AFabricThatIsBrokenAtTheWorkerIsGivenUp) {
  {
    // Named ones are opened at the start.
    LoseImmediates broken(How::kWithEverything, kBest);
    ASSERT_EQ(StartWorker({kBest, kNext}), absl::OkStatus());
  }
  ExpectTheNext(Connect());
}

TEST_F(FallbackTest, TheFabricThatWasNamedIsNotReplaced) {
  ASSERT_EQ(StartWorker({kBest, kNext}), absl::OkStatus());
  LoseImmediates broken(How::kWithEverything, kBest);
  const absl::Status status = Connect(kBest).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(kBest));
  EXPECT_EQ(worker_->Counters().live_sessions, 0u);
}

TEST_F(FallbackTest, WhenNoFabricWorksEachIsToldOf) {
  ASSERT_EQ(StartWorker({kBest, kNext}), absl::OkStatus());
  LoseImmediates broken(How::kWithEverything);
  const absl::Status status = Connect().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("shm: "), HasSubstr("tcp;ofi_rxm: ")));
  EXPECT_EQ(worker_->Counters().live_sessions, 0u);
}

// What fails its test at the start is not offered in the first place.
TEST_F(FallbackTest, AnAutomaticWorkerOffersOnlyWhatItHasProven) {
  {
    const LoseInSelfTests broken(How::kWithEverything, kBest);
    ASSERT_EQ(StartWorker({}), absl::OkStatus());
  }
  for (const auto& fabric : worker_->fabrics()) EXPECT_NE(fabric.profile.provider, kBest);
  EXPECT_THAT(worker_->notes(), testing::Contains(StartsWith("shm is not offered: ")));
  const auto client = Connect();
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ((*client)->provider(), worker_->fabrics().front().profile.provider);
}

// And what only works without immediates is not tried with them.
TEST_F(FallbackTest, AnAutomaticWorkerClaimsOnlyTheNotificationThatItHasSeen) {
  {
    const LoseInSelfTests lose(How::kSilently, kBest);
    ASSERT_EQ(StartWorker({}), absl::OkStatus());
  }
  EXPECT_EQ(worker_->fabrics().front().profile.provider, kBest);
  EXPECT_THAT(worker_->notes(),
              testing::Contains(StartsWith("shm is served with send_after_write: ")));
  const auto client = Connect();
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ((*client)->provider(), kBest);
  EXPECT_EQ((*client)->notification(), Notification::kSendAfterWrite);
  EXPECT_EQ(worker_->downgrades(), 0u);
}

TEST_F(FallbackTest, AWorkerWithoutAnyFabricThatWorksSaysWhatIsWrongWithEach) {
  const LoseInSelfTests broken(How::kWithEverything);
  const absl::Status status = StartWorker({});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("shm: "), HasSubstr("tcp;ofi_rxm: "), HasSubstr("invoker fabrics")));
}

}  // namespace
}  // namespace invoker
