// Session tokens: each opens one session, of its own lease, while it is fresh.

#include "src/bootstrap/service/session_tokens.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "proto/bootstrap.grpc.pb.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/lease.h"
#include "src/bootstrap/client/session_token_pool.h"
#include "src/bootstrap/conversion/convert.h"
#include "src/bootstrap/service/server.h"
#include "tests/bootstrap/fake_host.h"

namespace invoker::bootstrap {
namespace {

using ::testing::HasSubstr;

TEST(SessionTokensTest, ATokenIsGoodOnce) {
  SessionTokens tokens(absl::Hours(1));
  const auto granted = tokens.Grant(7, 2);
  ASSERT_TRUE(granted.ok()) << granted.status();
  ASSERT_EQ(granted->size(), 2u);
  EXPECT_NE((*granted)[0], (*granted)[1]);
  EXPECT_EQ((*granted)[0].size(), kSessionTokenBytes);
  EXPECT_TRUE(tokens.Spend(7, (*granted)[0]).ok());
  const absl::Status again = tokens.Spend(7, (*granted)[0]);
  EXPECT_EQ(again.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(again.message()), HasSubstr("already"));
  EXPECT_TRUE(tokens.Spend(7, (*granted)[1]).ok());
  EXPECT_EQ(tokens.counters().replayed, 1u);
}

TEST(SessionTokensTest, ATokenIsGoodForItsLeaseOnly) {
  SessionTokens tokens(absl::Hours(1));
  const auto granted = tokens.Grant(7, 1);
  ASSERT_TRUE(granted.ok()) << granted.status();
  EXPECT_FALSE(tokens.Spend(8, (*granted)[0]).ok());
  EXPECT_EQ(tokens.counters().foreign, 1u);
  // The attempt has not used it up.
  EXPECT_TRUE(tokens.Spend(7, (*granted)[0]).ok());
}

TEST(SessionTokensTest, UnknownExpiredAndForgottenOnesAreRefused) {
  SessionTokens tokens(absl::Nanoseconds(1));
  EXPECT_FALSE(tokens.Spend(7, "").ok());
  EXPECT_FALSE(tokens.Spend(7, std::string(kSessionTokenBytes, 'x')).ok());
  EXPECT_EQ(tokens.counters().unknown, 2u);
  const auto granted = tokens.Grant(7, 2);
  ASSERT_TRUE(granted.ok()) << granted.status();
  EXPECT_THAT(std::string(tokens.Spend(7, (*granted)[0]).message()), HasSubstr("expired"));
  EXPECT_EQ(tokens.counters().expired, 1u);
  tokens.Forget(7);
  EXPECT_FALSE(tokens.Spend(7, (*granted)[1]).ok());
  EXPECT_EQ(tokens.counters().unknown, 3u);
}

TEST(SessionTokensTest, OneLeaseHoldsNoMoreThanItsShare) {
  SessionTokens tokens(absl::Hours(1));
  const auto first = tokens.Grant(7, 1);
  ASSERT_TRUE(first.ok());
  const auto other = tokens.Grant(8, 1);
  ASSERT_TRUE(other.ok());
  for (size_t held = 0; held < SessionTokens::kMostOfLease;) {
    const auto more = tokens.Grant(7, 1'000'000);
    ASSERT_TRUE(more.ok());
    ASSERT_EQ(more->size(), size_t{SessionTokens::kMostAtOnce});
    held += more->size();
  }
  EXPECT_FALSE(tokens.Spend(7, (*first)[0]).ok());
  EXPECT_TRUE(tokens.Spend(8, (*other)[0]).ok());
}

class SessionTokenServiceTest : public ::testing::Test {
 protected:
  void Start(absl::Duration expiry) {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.session_token_expiry = expiry;
    auto server = Server::Start(options, &host_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::Bootstrap::NewStub(
        grpc::CreateChannel(server_->listen_address(), grpc::InsecureChannelCredentials()));
  }
  // A lease, by hand.
  struct Held {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<v1::LeaseRequest, v1::LeaseEvent>> stream;
    v1::LeaseEvent::Granted granted;
  };
  std::unique_ptr<Held> Take() {
    auto held = std::make_unique<Held>();
    held->stream = stub_->Lease(&held->context);
    v1::LeaseRequest request;
    request.mutable_terms();
    EXPECT_TRUE(held->stream->Write(request));
    v1::LeaseEvent event;
    EXPECT_TRUE(held->stream->Read(&event));
    EXPECT_TRUE(event.has_granted());
    held->granted = event.granted();
    return held;
  }
  grpc::Status Open(uint64_t lease, const std::string& token) {
    OpenSessionRequest request = SampleRequest();
    request.session_token = token;
    grpc::ClientContext context;
    v1::OpenSessionReply reply;
    return stub_->OpenSession(&context, ToProto(lease, request), &reply);
  }

  FakeHost host_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::Bootstrap::Stub> stub_;
};

TEST_F(SessionTokenServiceTest, ReplayedForeignAndMissingTokensOpenNothing) {
  Start(absl::Hours(1));
  const auto mine = Take();
  const auto other = Take();
  ASSERT_GE(mine->granted.session_tokens().tokens_size(), 2);
  const std::string token = mine->granted.session_tokens().tokens(0);
  const uint64_t lease = mine->granted.lease();
  EXPECT_EQ(Open(lease, other->granted.session_tokens().tokens(0)).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Open(lease, "").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(host_.Calls().empty());
  EXPECT_TRUE(Open(lease, token).ok());
  EXPECT_EQ(Open(lease, token).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(host_.Count(absl::StrCat("open ", lease)), 1);
  const SessionTokens::Counters refused = server_->refused_session_tokens();
  EXPECT_EQ(refused.foreign, 1u);
  EXPECT_EQ(refused.unknown, 1u);
  EXPECT_EQ(refused.replayed, 1u);
  mine->context.TryCancel();
  other->context.TryCancel();
}

TEST_F(SessionTokenServiceTest, TheStreamGrantsMore) {
  Start(absl::Hours(1));
  const auto held = Take();
  v1::LeaseRequest request;
  request.mutable_more_session_tokens()->set_count(1'000'000);
  ASSERT_TRUE(held->stream->Write(request));
  v1::LeaseEvent event;
  ASSERT_TRUE(held->stream->Read(&event));
  ASSERT_TRUE(event.has_session_tokens());
  EXPECT_EQ(event.session_tokens().tokens_size(), static_cast<int>(SessionTokens::kMostAtOnce));
  EXPECT_TRUE(Open(held->granted.lease(), event.session_tokens().tokens(9)).ok());
  held->context.TryCancel();
}

TEST_F(SessionTokenServiceTest, AClientOpensAsManySessionsAsItLikesOnSeveralThreads) {
  Start(absl::Hours(1));
  auto client = BootstrapClient::Connect(server_->listen_address(), kPatience);
  ASSERT_TRUE(client.ok()) << client.status();
  auto lease = Lease::Acquire(client->get(), {}, {}, kPatience);
  ASSERT_TRUE(lease.ok()) << lease.status();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) {
        const auto opened = (*client)->OpenSession((*lease)->id(), SampleRequest(), kPatience);
        EXPECT_TRUE(opened.ok()) << opened.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server_->refused_session_tokens().total(), 0u);
  // And the lease can still be given back, once.
  EXPECT_TRUE((*lease)->Release(kPatience).ok());
}

TEST(SessionTokenPoolTest, WhatHasGoneStaleIsNotTakenAndTheNextIsAskedForBeforeItIsWanted) {
  std::atomic<int> asked{0};
  SessionTokenPool pool([&asked] { ++asked; });
  pool.Add({"stale"}, absl::ZeroDuration());
  pool.Add({"fresh"}, absl::Hours(1));
  EXPECT_EQ(*pool.Take(kPatience), "fresh");
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(pool.TakeWanted(), 1u);
  std::thread taker([&pool] { EXPECT_EQ(*pool.Take(kPatience), "asked for"); });
  pool.Add({"asked for"}, absl::Hours(1));
  taker.join();
  EXPECT_EQ(asked, 2);
}

TEST(SessionTokenPoolTest, TheLeasesEndEndsTheWait) {
  SessionTokenPool pool([] {});
  std::thread taker([&pool] { EXPECT_EQ(*pool.Take(kPatience), ""); });
  while (pool.TakeWanted() == 0) std::this_thread::yield();
  pool.Close();
  taker.join();
  EXPECT_EQ(*pool.Take(kPatience), "");
  SessionTokenPool silent([] {});
  EXPECT_EQ(silent.Take(absl::Milliseconds(1)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace invoker::bootstrap
