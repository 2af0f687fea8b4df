// Limits of sessions, alone: every way in which one ends gives its place back.

#include "src/bootstrap/service/limited_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>

#include "src/security/tenant.h"
#include "tests/bootstrap/fake_host.h"

namespace invoker::bootstrap {
namespace {

using ::testing::HasSubstr;

// Hands out handles of its own, and ends a session before it has been told of if so wanted.
class CountingHost final : public FakeHost {
 public:
  absl::StatusOr<OpenSessionReply> OpenSession(uint64_t lease,
                                               const OpenSessionRequest& request) override {
    if (refuse) return absl::UnavailableError("refused");
    OpenSessionReply reply = SampleReply();
    reply.handle = ++handle;
    if (in_open_session) in_open_session(lease, reply.handle);
    (void)request;
    return reply;
  }
  absl::Status CloseSession(uint64_t, uint64_t) override { return absl::OkStatus(); }

  bool refuse = false;
  uint64_t handle = 0;
  std::function<void(uint64_t lease, uint64_t handle)> in_open_session;
};

class NobodyListens final : public SessionHost::LeaseObserver {
 public:
  void OnQueued(uint32_t) override {}
  void OnGranted(const absl::StatusOr<LeaseTerms>&) override {}
  void OnEnded(const LeaseEnd&) override {}
};

class LimitedHostTest : public ::testing::Test {
 protected:
  void Limit(const SessionLimits& limits) {
    limited_ = std::make_unique<LimitedHost>(limits, &host_);
  }
  void OpenLease(uint64_t lease, const LeaseTerms& terms = {}) {
    limited_->OpenLease(lease, terms, std::make_shared<NobodyListens>());
    if (terms.executors != 0) host_.ObserverOf(lease)->OnGranted(terms);
  }
  // At an endpoint that nobody else has, unless `port` says otherwise.
  absl::StatusOr<OpenSessionReply> Open(uint64_t lease, uint16_t port = 0) {
    OpenSessionRequest request = SampleRequest();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = port != 0 ? port : ++next_port_;
    request.endpoint_address.assign(reinterpret_cast<const char*>(&address), sizeof(address));
    return limited_->OpenSession(lease, request);
  }
  void ExpectRefused(uint64_t lease, const std::string& why) {
    const absl::Status status = Open(lease).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
  void ExpectOpen(uint64_t lease) {
    const absl::Status status = Open(lease).status();
    EXPECT_TRUE(status.ok()) << status;
  }

  CountingHost host_;
  std::unique_ptr<LimitedHost> limited_;
  uint16_t next_port_ = 1000;
};

constexpr uint64_t kWindow = 65536;  // SampleRequest's

TEST_F(LimitedHostTest, OneLeaseLeavesRoomForOthers) {
  Limit({10, 4, 0});
  for (const uint64_t lease : {1, 2, 3}) OpenLease(lease);
  for (int i = 0; i < 4; ++i) ExpectOpen(1);
  ExpectRefused(1, "--max-sessions-per-lease");
  for (int i = 0; i < 4; ++i) ExpectOpen(2);
  for (int i = 0; i < 2; ++i) ExpectOpen(3);
  ExpectRefused(3, "--max-sessions)");
  EXPECT_EQ(limited_->refused(), 2u);
  limited_->CloseLease(1);
  ExpectOpen(3);
}

TEST_F(LimitedHostTest, EveryEndGivesThePlaceBack) {
  Limit({100, 1, 0});
  OpenLease(1);
  for (int i = 0; i < 3; ++i) {
    auto opened = Open(1);
    ASSERT_TRUE(opened.ok()) << opened.status();
    ExpectRefused(1, "has 1 sessions");
    ASSERT_TRUE(limited_->CloseSession(1, opened->handle).ok());
    opened = Open(1);
    ASSERT_TRUE(opened.ok()) << opened.status();
    limited_->OnSessionEnded(1, opened->handle);
    // Twice is once.
    limited_->OnSessionEnded(1, opened->handle);
    EXPECT_TRUE(limited_->CloseSession(1, opened->handle).ok());
    host_.refuse = true;
    EXPECT_EQ(Open(1).status().code(), absl::StatusCode::kUnavailable);
    host_.refuse = false;
    // Before anybody knew its handle.
    host_.in_open_session = [this](uint64_t lease, uint64_t handle) {
      limited_->OnSessionEnded(lease, handle);
    };
    ExpectOpen(1);
    host_.in_open_session = nullptr;
  }
  limited_->CloseLease(1);
  OpenLease(1);
  ExpectOpen(1);
}

TEST_F(LimitedHostTest, WindowsFitIntoTheirMemory) {
  Limit({100, 100, 5 * 2 * kWindow});
  OpenLease(1);
  OpenLease(2);
  for (int i = 0; i < 3; ++i) ExpectOpen(1);
  for (int i = 0; i < 2; ++i) ExpectOpen(2);
  ExpectRefused(2, "--window-memory");
  OpenSessionRequest larger = SampleRequest();
  larger.window_bytes = uint64_t{1} << 62;
  EXPECT_EQ(limited_->OpenSession(1, larger).status().code(), absl::StatusCode::kResourceExhausted);
  limited_->CloseLease(1);
  ExpectOpen(2);
  // With payloads under a tag a session takes twice as much.
  OpenSessionRequest copies = SampleRequest();
  copies.data_auth = DataAuth::kFull;
  EXPECT_EQ(limited_->OpenSession(2, copies).status().code(), absl::StatusCode::kOk);
  ExpectRefused(2, "--window-memory");
}

TEST_F(LimitedHostTest, WindowsOfOwnExecutorsFitIntoTheLeasesMemory) {
  Limit({100, 2, 2 * kWindow});
  LeaseTerms terms;
  terms.executors = 2;
  terms.memory_bytes = 3 * kWindow;
  OpenLease(1, terms);
  for (int i = 0; i < 3; ++i) ExpectOpen(1);
  ExpectRefused(1, "bytes of memory");
  // What shared executors have is another matter.
  OpenLease(2);
  ExpectOpen(2);
  ExpectRefused(2, "--window-memory");
}

TEST_F(LimitedHostTest, ATenantHasWhatThePolicyGivesIt) {
  Limit({100, 100, 0});
  auto allowed = std::make_shared<security::Tenant>();
  allowed->max_sessions = 3;
  LeaseTerms terms;
  terms.tenant = "alice";
  terms.allowed = allowed;
  OpenLease(1, terms);
  OpenLease(2, terms);
  terms.tenant = "bob";
  OpenLease(3, terms);
  for (const uint64_t lease : {1, 2, 1}) ExpectOpen(lease);
  ExpectRefused(2, "\"alice\" has 3 sessions");
  ExpectOpen(3);
  limited_->CloseLease(1);
  ExpectOpen(2);
}

TEST_F(LimitedHostTest, NoClientTakesAnothersEndpoint) {
  Limit({});
  OpenLease(1);
  OpenLease(2);
  const auto first = Open(1, 7);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(Open(1, 7).ok());
  EXPECT_EQ(Open(2, 7).status().code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(limited_->CloseSession(1, first->handle).ok());
  EXPECT_EQ(Open(2, 7).status().code(), absl::StatusCode::kAlreadyExists);
  limited_->CloseLease(1);
  EXPECT_TRUE(Open(2, 7).ok());
}

TEST_F(LimitedHostTest, AnEndpointIsTheSameHoweverItsAddressIsWritten) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = 7;
  four.sin_addr.s_addr = 0x0100007f;
  sockaddr_in padded = four;
  memset(padded.sin_zero, 1, sizeof(padded.sin_zero));
  sockaddr_in6 mapped{};
  mapped.sin6_family = AF_INET6;
  mapped.sin6_port = 7;
  mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
  memcpy(mapped.sin6_addr.s6_addr + 12, &four.sin_addr, 4);
  sockaddr_in other = four;
  other.sin_port = 8;
  const auto canonical = [](const auto& address) {
    return CanonicalEndpoint("p",
                             std::string(reinterpret_cast<const char*>(&address), sizeof(address)));
  };
  EXPECT_EQ(canonical(four), canonical(padded));
  EXPECT_EQ(canonical(four), canonical(mapped));
  EXPECT_NE(canonical(four), canonical(other));
  EXPECT_EQ(CanonicalEndpoint("p", std::string("fi_x://1:2\0more", 15)),
            CanonicalEndpoint("p", std::string("fi_x://1:2\0", 11)));
  EXPECT_NE(CanonicalEndpoint("p", "fi_x://1:2"), CanonicalEndpoint("p", "fi_x://1:3"));
  EXPECT_NE(CanonicalEndpoint("p", "fi_x://1:2"), CanonicalEndpoint("q", "fi_x://1:2"));
}

}  // namespace
}  // namespace invoker::bootstrap
