// The service and its client over real gRPC: worker info, sessions, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/lease.h"
#include "src/bootstrap/service/server.h"
#include "tests/bootstrap/fake_host.h"

namespace invoker::bootstrap {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    auto server = Server::Start(options, &host_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto client = BootstrapClient::Connect(server_->listen_address(), kPatience);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    auto lease = Lease::Acquire(client_.get(), {}, {}, kPatience);
    ASSERT_TRUE(lease.ok()) << lease.status();
    lease_ = *std::move(lease);
  }

  FakeHost host_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<BootstrapClient> client_;
  std::unique_ptr<Lease> lease_;
};

TEST_F(ServiceTest, TellsAboutTheWorker) {
  const absl::StatusOr<WorkerInfo> info = client_->GetWorkerInfo(kPatience);
  ASSERT_TRUE(info.ok()) << info.status();
  ASSERT_EQ(info->fabrics.size(), 2u);
  EXPECT_EQ(info->fabrics[0].identity.provider, "shm");
  EXPECT_EQ(info->fabrics[1].source_address, SampleInfo().fabrics[1].source_address);
  EXPECT_EQ(info->functions.size(), 2u);
  EXPECT_FALSE(info->draining);
}

TEST_F(ServiceTest, OpensSwitchesAndClosesASession) {
  const absl::StatusOr<OpenSessionReply> reply =
      client_->OpenSession(lease_->id(), SampleRequest(), kPatience);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->endpoint_address, SampleReply().endpoint_address);
  EXPECT_EQ(reply->request_window.key, SampleReply().request_window.key);
  EXPECT_EQ(host_.last_request->endpoint_address, SampleRequest().endpoint_address);
  EXPECT_EQ(host_.last_request->response_window.base, SampleRequest().response_window.base);
  EXPECT_TRUE(client_
                  ->SwitchNotification(lease_->id(), reply->handle, Notification::kSendAfterWrite,
                                       "lost\n", kPatience)
                  .ok());
  EXPECT_TRUE(client_->CloseSession(lease_->id(), reply->handle, kPatience).ok());
  const std::string session = absl::StrCat(lease_->id(), " ", reply->handle);
  EXPECT_THAT(host_.Calls(),
              ElementsAre(absl::StrCat("open ", lease_->id()),
                          absl::StrCat("switch ", session, " send_after_write lost?"),
                          absl::StrCat("close ", session)));
}

// Nobody could take it back.
TEST_F(ServiceTest, AWindowWhoseClientHasGivenUpIsForgotten) {
  const uint64_t handle = SampleReply().handle;
  const std::string session = absl::StrCat(lease_->id(), " ", handle);
  std::atomic<int> pause_ms{0};
  host_.in_register = [&] { absl::SleepFor(absl::Milliseconds(pause_ms.load())); };
  ASSERT_TRUE(
      client_->RegisterWindow(lease_->id(), handle, {1, 4096, 2}, true, true, kPatience).ok());
  EXPECT_THAT(host_.Calls(), ElementsAre(absl::StrCat("register ", session)));
  const std::string forget = absl::StrCat("forget ", session, " ", FakeHost::kWindow);
  // When the server hears that the client has given up is not known, nor does anything tell that it
  // has not: longer each time.
  for (int tries = 0; host_.Count(forget) == 0 && tries < 8; ++tries) {
    pause_ms = 100 << tries;
    EXPECT_EQ(
        client_
            ->RegisterWindow(lease_->id(), handle, {1, 4096, 2}, true, true, absl::Milliseconds(50))
            .status()
            .code(),
        absl::StatusCode::kDeadlineExceeded);
    absl::SleepFor(2 * absl::Milliseconds(pause_ms.load()));
  }
  EXPECT_GT(host_.Count(forget), 0);
}

TEST_F(ServiceTest, AnUnknownLeaseIsRefusedBeforeTheHost) {
  const uint64_t unknown = lease_->id() ^ 1;
  const absl::Status open = client_->OpenSession(unknown, SampleRequest(), kPatience).status();
  EXPECT_EQ(open.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(open.message()),
              AllOf(HasSubstr(server_->listen_address()), HasSubstr("lease is not known")));
  EXPECT_EQ(client_->CloseSession(unknown, 1, kPatience).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_->SwitchNotification(unknown, 1, Notification::kWriteImm, "", kPatience).code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(host_.Calls(), IsEmpty());
}

TEST_F(ServiceTest, TheHostsOwnRefusalReachesTheClient) {
  const absl::Status status = client_->CloseSession(lease_->id(), 5, kPatience);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("session 5 is not of this lease"));
}

TEST_F(ServiceTest, AnotherProviderIsRefusedWithBothNames) {
  OpenSessionRequest request = SampleRequest();
  request.fabric.provider = "verbs";
  const absl::Status status = client_->OpenSession(lease_->id(), request, kPatience).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("verbs"), HasSubstr("tcp;ofi_rxm")));
  EXPECT_THAT(host_.Calls(), IsEmpty());
}

TEST_F(ServiceTest, AnotherProtocolVersionIsRefusedWithBothNumbers) {
  OpenSessionRequest request = SampleRequest();
  request.protocol_version = 9;
  const absl::Status status = client_->OpenSession(lease_->id(), request, kPatience).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("worker speaks protocol version 6"),
                                                   HasSubstr("the client protocol version 9")));
}

TEST_F(ServiceTest, AnOversizedAddressIsRefused) {
  OpenSessionRequest request = SampleRequest();
  request.endpoint_address.assign(kMaxAddressBytes + 1, 'x');
  EXPECT_EQ(client_->OpenSession(lease_->id(), request, kPatience).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ServiceTest, SwitchingToAutoIsRefused) {
  EXPECT_EQ(client_->SwitchNotification(lease_->id(), 1, Notification::kAuto, "", kPatience).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(host_.Calls(), IsEmpty());
}

TEST_F(ServiceTest, ADrainingWorkerKeepsSessionsButOpensNone) {
  server_->Drain("upgrade");
  const absl::StatusOr<WorkerInfo> info = client_->GetWorkerInfo(kPatience);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_TRUE(info->draining);
  const absl::Status open = client_->OpenSession(lease_->id(), SampleRequest(), kPatience).status();
  EXPECT_EQ(open.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(open.message()), HasSubstr("draining: upgrade"));
  const absl::Status lease = Lease::Acquire(client_.get(), {}, {}, kPatience).status();
  EXPECT_EQ(lease.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(lease.message()), HasSubstr("draining: upgrade"));
  EXPECT_TRUE(client_->CloseSession(lease_->id(), SampleReply().handle, kPatience).ok());
}

TEST_F(ServiceTest, ARestartedServerIsFoundByTheSameClient) {
  ServerOptions options;
  options.listen = server_->listen_address();
  server_->Stop();
  const absl::Status gone = client_->GetWorkerInfo(kPatience).status();
  EXPECT_EQ(gone.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(gone.message()), HasSubstr("connection refused"));
  FakeHost host;
  const auto again = Server::Start(options, &host);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(BootstrapClient::Connect((*again)->listen_address(), kPatience).ok());
  // The old client's channel may still wait before its next attempt.
  absl::Status status;
  const absl::Time deadline = absl::Now() + kPatience;
  do {
    status = client_->GetWorkerInfo(kPatience).status();
  } while (!status.ok() && absl::Now() < deadline);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(RequestThreadsTest, RequestsThatFindNoThreadAreRefusedAndLeasesNeedNone) {
  constexpr int kThreads = 4;
  constexpr int kRequests = 10;
  FakeHost host;
  absl::Mutex mutex;
  int waiting = 0;
  int refused = 0;
  bool go_on = false;
  host.in_open = [&] {
    absl::MutexLock lock(&mutex);
    ++waiting;
    mutex.Await(absl::Condition(&go_on));
  };
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.max_request_threads = kThreads;
  const auto server = Server::Start(options, &host);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto client = BootstrapClient::Connect((*server)->listen_address(), kPatience);
  ASSERT_TRUE(client.ok()) << client.status();
  const auto lease = Lease::Acquire(client->get(), {}, {}, kPatience);
  ASSERT_TRUE(lease.ok()) << lease.status();
  std::vector<std::thread> threads;
  for (int i = 0; i < kRequests; ++i) {
    threads.emplace_back([&] {
      const absl::Status status =
          (*client)->OpenSession((*lease)->id(), SampleRequest(), kPatience).status();
      if (status.ok()) return;
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      absl::MutexLock lock(&mutex);
      ++refused;
    });
  }
  {
    absl::MutexLock lock(&mutex);
    const auto all = [&] { return waiting + refused == kRequests; };
    EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&all), kPatience));
    EXPECT_GT(waiting, 0);
    EXPECT_LT(waiting, kThreads);
  }
  EXPECT_TRUE(Lease::Acquire(client->get(), {}, {}, kPatience).ok());
  {
    absl::MutexLock lock(&mutex);
    go_on = true;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE((*client)->GetWorkerInfo(kPatience).ok());
}

}  // namespace
}  // namespace invoker::bootstrap
