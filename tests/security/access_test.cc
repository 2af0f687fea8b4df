// Tokens and tenants before real services: who is let in, to what, and that no tenant reaches
// another one's leases.

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "src/base/sha256.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/lease.h"
#include "src/bootstrap/service/server.h"
#include "tests/bootstrap/fake_host.h"
#include "tests/log/captured_log.h"
#include "tests/security/test_files.h"

namespace invoker::bootstrap {
namespace {

using security::AccessControl;
using security::IssuedFiles;
using security::TestAuthority;
using security::TestFiles;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kAlice[] = "alices-token-0123456789";
constexpr char kBob[] = "bobs-token-0123456789ab";

std::string Tenant(const std::string& name, const std::string& token,
                   const std::string& more = "") {
  return absl::StrCat("tenant {\n  name: \"", name, "\"\n  token_sha256: \"",
                      HashOf(token)->ToHex(), "\"\n", more, "}\n");
}

class AccessTest : public ::testing::Test {
 protected:
  void Start(const std::string& token_file, const std::string& policy_file,
             const security::CertificatePaths& tls = {}) {
    auto access = AccessControl::Open({token_file, policy_file});
    ASSERT_TRUE(access.ok()) << access.status();
    access_ = *std::move(access);
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.security = {tls, access_.get()};
    auto server = Server::Start(options, &host_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ClientCredentials Token(const std::string& name, const std::string& token) {
    ClientCredentials credentials;
    credentials.token_file = files_.Write(name, token + "\n");
    return credentials;
  }
  absl::StatusOr<std::unique_ptr<BootstrapClient>> Connect(const ClientCredentials& credentials) {
    return BootstrapClient::Connect(server_->listen_address(), kPatience, credentials);
  }
  // Any method, with or without a token.
  grpc::Status Call(const std::string& method, const std::vector<std::string>& authorizations) {
    const auto channel =
        grpc::CreateChannel(server_->listen_address(), grpc::InsecureChannelCredentials());
    grpc::GenericStub stub(channel);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    for (const std::string& each : authorizations) context.AddMetadata("authorization", each);
    const grpc::Slice empty;
    grpc::ByteBuffer request(&empty, 1), reply;
    grpc::Status status;
    const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    call->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return status;
  }

  TestFiles files_;
  CapturedLog log_;
  FakeHost host_;
  std::unique_ptr<AccessControl> access_;
  std::unique_ptr<Server> server_;
};

constexpr const char* kMethods[] = {"/invoker.bootstrap.v1.Bootstrap/GetWorkerInfo",
                                    "/invoker.bootstrap.v1.Bootstrap/Lease",
                                    "/invoker.bootstrap.v1.Bootstrap/OpenSession",
                                    "/invoker.bootstrap.v1.Bootstrap/SwitchNotification",
                                    "/invoker.bootstrap.v1.Bootstrap/FindRequest",
                                    "/invoker.bootstrap.v1.Bootstrap/CloseSession",
                                    "/invoker.bootstrap.v1.Memory/RegisterWindow",
                                    "/invoker.bootstrap.v1.Memory/ForgetWindow",
                                    "/no.such.Service/Method"};

TEST_F(AccessTest, EveryMethodOfEveryServiceWantsTheTokenButHealth) {
  Start(files_.Write("tokens", absl::StrCat("# two of them\n", kAlice, "\n\n", kBob, "\n")), "");
  for (const char* method : kMethods) {
    EXPECT_EQ(Call(method, {}).error_code(), grpc::StatusCode::UNAUTHENTICATED) << method;
    EXPECT_EQ(Call(method, {"Bearer wrong-token-wrong-token"}).error_code(),
              grpc::StatusCode::UNAUTHENTICATED)
        << method;
    // Not the scheme, twice, and both at once.
    for (const std::vector<std::string>& odd :
         {std::vector<std::string>{kAlice},
          {absl::StrCat("Basic ", kAlice)},
          {"Bearer "},
          {absl::StrCat("Bearer ", kAlice), absl::StrCat("Bearer ", kAlice)},
          {absl::StrCat("Bearer ", kAlice), "Bearer wrong-token-wrong-token"}}) {
      EXPECT_EQ(Call(method, odd).error_code(), grpc::StatusCode::UNAUTHENTICATED) << method;
    }
    for (const char* token : {kAlice, kBob}) {
      EXPECT_NE(Call(method, {absl::StrCat("Bearer ", token)}).error_code(),
                grpc::StatusCode::UNAUTHENTICATED)
          << method;
    }
  }
  EXPECT_TRUE(Call("/grpc.health.v1.Health/Check", {}).ok());
  // Which does not end by itself.
  EXPECT_EQ(Call("/grpc.health.v1.Health/Watch", {}).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_GE(access_->refused(), 2 * std::size(kMethods));
}

TEST_F(AccessTest, TheClientIsToldWhatIsMissing) {
  Start(files_.Write("tokens", kAlice), "");
  const absl::Status none = Connect({}).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(none.message()),
              AllOf(HasSubstr("invoker_server at " + server_->listen_address()),
                    HasSubstr("asks for a token"), HasSubstr("--token-file")));
  const absl::Status wrong = Connect(Token("wrong", kBob)).status();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(wrong.message()),
              AllOf(HasSubstr("none of this server's"), Not(HasSubstr(kBob))));
  auto client = Connect(Token("right", kAlice));
  ASSERT_TRUE(client.ok()) << client.status();
  auto lease = Lease::Acquire(client->get(), {}, {}, kPatience);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE((*client)->OpenSession((*lease)->id(), SampleRequest(), kPatience).ok());
}

TEST_F(AccessTest, TokensAreReplacedOnBothSidesWithoutARestart) {
  Start(files_.Write("tokens", kAlice), "");
  auto client = Connect(Token("mine", kAlice));
  ASSERT_TRUE(client.ok()) << client.status();
  files_.Write("tokens", kBob);
  EXPECT_EQ((*client)->GetWorkerInfo(kPatience).status().code(),
            absl::StatusCode::kUnauthenticated);
  files_.Write("mine", kBob);
  EXPECT_TRUE((*client)->GetWorkerInfo(kPatience).ok());
  // What is no token file leaves the tokens as they were, and is said once.
  files_.Write("tokens", "short");
  EXPECT_TRUE((*client)->GetWorkerInfo(kPatience).ok());
  EXPECT_TRUE((*client)->GetWorkerInfo(kPatience).ok());
  const std::vector<std::string> log = log_.messages();
  EXPECT_EQ(std::count_if(log.begin(), log.end(),
                          [](const std::string& line) {
                            return line.find("stays in force") != std::string::npos;
                          }),
            1);
}

// No file can be opened while it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none = {0, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(AccessTest, ATokenThatIsTakenBackWhileNoFileCanBeReadIsGoneAfterwards) {
  for (const bool hangup : {false, true}) {
    Start(files_.Write("tokens", kAlice), "");
    const std::string alice = absl::StrCat("Bearer ", kAlice);
    ASSERT_TRUE(access_->Identify(alice, {}).ok());
    files_.Write("tokens", kBob);
    {
      const NoDescriptors none;
      if (hangup) access_->Reload();
      EXPECT_TRUE(access_->Identify(alice, {}).ok());
      EXPECT_TRUE(access_->Identify(alice, {}).ok());
    }
    const std::vector<std::string> log = log_.messages();
    EXPECT_EQ(std::count_if(log.begin(), log.end(),
                            [](const std::string& line) {
                              return line.find("until it can be read") != std::string::npos;
                            }),
              hangup ? 2 : 1);
    EXPECT_EQ(access_->Identify(alice, {}).status().code(), absl::StatusCode::kUnauthenticated);
    EXPECT_TRUE(access_->Identify(absl::StrCat("Bearer ", kBob), {}).ok());
  }
}

TEST_F(AccessTest, WhatCouldNotBeReadForWantOfDescriptorsIsWorthAnotherTry) {
  const std::string path = files_.Write("file", "content");
  const auto read = [&path](const std::string& which) {
    return security::ReadWholeFile("the file", which, security::Secrecy::kPublic).status();
  };
  {
    const NoDescriptors none;
    EXPECT_TRUE(security::WorthAnotherTry(read(path)));
    EXPECT_TRUE(security::WorthAnotherTry(security::LoadCertificates({"", "", path}).status()));
  }
  EXPECT_TRUE(read(path).ok());
  EXPECT_FALSE(security::WorthAnotherTry(read(path)));
  EXPECT_FALSE(security::WorthAnotherTry(read(path + ".gone")));
}

TEST_F(AccessTest, NoTenantReachesAnotherOnesLease) {
  Start("", files_.Write("policy", Tenant("alice", kAlice) + Tenant("bob", kBob)));
  auto alice = Connect(Token("alice", kAlice));
  auto bob = Connect(Token("bob", kBob));
  ASSERT_TRUE(alice.ok() && bob.ok()) << alice.status() << bob.status();
  auto lease = Lease::Acquire(alice->get(), {}, {}, kPatience);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ((*lease)->terms().tenant, "alice");
  const uint64_t id = (*lease)->id();
  const auto opened = (*alice)->OpenSession(id, SampleRequest(), kPatience);
  ASSERT_TRUE(opened.ok()) << opened.status();

  const absl::Status unknown = (*bob)->CloseSession(id ^ 1, opened->handle, kPatience);
  const std::vector<absl::Status> refusals = {
      (*bob)->OpenSession(id, SampleRequest(), kPatience).status(),
      (*bob)->SwitchNotification(id, opened->handle, Notification::kWriteImm, "", kPatience),
      (*bob)->FindRequest(id, opened->handle, 1, kPatience).status(),
      (*bob)->CloseSession(id, opened->handle, kPatience),
      (*bob)->RegisterWindow(id, opened->handle, {1, 4096, 2}, true, true, kPatience).status(),
      (*bob)->ForgetWindow(id, opened->handle, 1, kPatience),
  };
  for (const absl::Status& refusal : refusals) {
    EXPECT_EQ(refusal.code(), absl::StatusCode::kNotFound) << refusal;
  }
  // Word for word as if there were no such lease.
  EXPECT_EQ((*bob)->FindRequest(id ^ 1, opened->handle, 1, kPatience).status(), refusals[2]);
  EXPECT_EQ(refusals[3], unknown);
  EXPECT_TRUE((*alice)->CloseSession(id, opened->handle, kPatience).ok());
}

TEST_F(AccessTest, ATenantIsWhoItIsAndNotWhoItSays) {
  Start("", files_.Write("policy", Tenant("alice", kAlice) + Tenant("bob", kBob)));
  auto alice = Connect(Token("alice", kAlice));
  ASSERT_TRUE(alice.ok()) << alice.status();
  LeaseTerms terms;
  terms.tenant = "bob";
  const absl::Status refused = Lease::Acquire(alice->get(), terms, {}, kPatience).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr("bob"), HasSubstr("alice")));
  terms.tenant = "alice";
  EXPECT_TRUE(Lease::Acquire(alice->get(), terms, {}, kPatience).ok());
}

TEST_F(AccessTest, LeasesAtATimeAndTheirTimeAreLimited) {
  Start("", files_.Write("policy", Tenant("alice", kAlice, "  max_leases: 2\n  max_ttl: \"1m\"\n") +
                                       Tenant("bob", kBob)));
  auto alice = Connect(Token("alice", kAlice));
  auto bob = Connect(Token("bob", kBob));
  ASSERT_TRUE(alice.ok() && bob.ok());
  LeaseTerms terms;
  terms.ttl = absl::Minutes(2);
  EXPECT_EQ(Lease::Acquire(alice->get(), terms, {}, kPatience).status().code(),
            absl::StatusCode::kPermissionDenied);
  auto first = Lease::Acquire(alice->get(), {}, {}, kPatience);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->terms().ttl, absl::Minutes(1));
  auto second = Lease::Acquire(alice->get(), {}, {}, kPatience);
  ASSERT_TRUE(second.ok()) << second.status();
  const absl::Status third = Lease::Acquire(alice->get(), {}, {}, kPatience).status();
  EXPECT_EQ(third.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(third.message()), AllOf(HasSubstr("alice"), HasSubstr("2 leases")));
  auto other = Lease::Acquire(bob->get(), {}, {}, kPatience);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ((*other)->terms().ttl, absl::ZeroDuration());  // the host has granted it: no end
}

TEST_F(AccessTest, FunctionsThatATenantMayNotCallAreNotNamed) {
  Start("", files_.Write("policy", Tenant("alice", kAlice, "  function: \"thumb*\"\n")));
  auto alice = Connect(Token("alice", kAlice));
  ASSERT_TRUE(alice.ok()) << alice.status();
  ASSERT_EQ((*alice)->worker_info().functions.size(), 2u);
  EXPECT_EQ((*alice)->worker_info().functions[0].name, "");
  EXPECT_EQ((*alice)->worker_info().functions[1].name, "thumbnail");
  auto lease = Lease::Acquire(alice->get(), {}, {}, kPatience);
  ASSERT_TRUE(lease.ok()) << lease.status();
  ASSERT_TRUE((*alice)->OpenSession((*lease)->id(), SampleRequest(), kPatience).ok());
  ASSERT_NE(host_.last_request->filter, nullptr);
  EXPECT_FALSE(host_.last_request->filter->Allows(0));
  EXPECT_TRUE(host_.last_request->filter->Allows(1));
  EXPECT_FALSE(host_.last_request->filter->Allows(2));
  EXPECT_EQ(host_.last_request->session_token, "");
}

TEST_F(AccessTest, AChangedPolicyHoldsAndABrokenOneDoesNot) {
  Start("", files_.Write("policy", Tenant("alice", kAlice)));
  EXPECT_EQ(Connect(Token("bob", kBob)).status().code(), absl::StatusCode::kUnauthenticated);
  files_.Write("policy", Tenant("alice", kAlice) + Tenant("bob", kBob));
  EXPECT_TRUE(Connect(Token("bob", kBob)).ok());
  const std::string path = files_.Write("policy", "tenant {\n  nam: \"x\"\n}\n");
  EXPECT_TRUE(Connect(Token("bob", kBob)).ok());
  EXPECT_THAT(log_.messages(), Contains(AllOf(HasSubstr(path + ":2:"), HasSubstr("nam"),
                                              HasSubstr("stays in force"))));
  access_->Reload();
  EXPECT_TRUE(Connect(Token("bob", kBob)).ok());
  files_.Write("policy", Tenant("alice", kAlice));
  access_->Reload();
  EXPECT_EQ(Connect(Token("bob", kBob)).status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(AccessTest, CertificatesTellTenantsToo) {
  TestAuthority authority(&files_, "authority");
  const IssuedFiles server = authority.Issue("server");
  TestAuthority::Subject subject;
  subject.organization = "Example";
  subject.common_name = "alice";
  subject.names = "URI:spiffe://example/alice,DNS:alice.example";
  const IssuedFiles alice = authority.Issue("alice_cert", subject);
  subject.common_name = "bob";
  subject.names = "DNS:bob.example";
  const IssuedFiles bob = authority.Issue("bob_cert", subject);
  subject.common_name = "eve";
  subject.names = "DNS:eve.example";
  const IssuedFiles eve = authority.Issue("eve_cert", subject);
  Start("",
        files_.Write("policy",
                     "tenant { name: 'alice' certificate_name: 'spiffe://example/alice' }\n"
                     "tenant { name: 'bob' certificate_subject: 'CN=bob,O=Example' }\n"),
        {server.certificate, server.key, authority.file()});
  const auto connect = [&](const IssuedFiles& own) {
    ClientCredentials credentials;
    credentials.tls_ca = authority.file();
    credentials.tls_cert = own.certificate;
    credentials.tls_key = own.key;
    return Connect(credentials);
  };
  for (const auto& [own, name] : {std::make_pair(alice, "alice"), std::make_pair(bob, "bob")}) {
    auto client = connect(own);
    ASSERT_TRUE(client.ok()) << client.status();
    auto lease = Lease::Acquire(client->get(), {}, {}, kPatience);
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ((*lease)->terms().tenant, name);
  }
  const absl::Status stranger = connect(eve).status();
  EXPECT_EQ(stranger.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(stranger.message()), HasSubstr("CN=eve,O=Example"));
}

}  // namespace
}  // namespace invoker::bootstrap
