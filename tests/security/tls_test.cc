// TLS between real servers and clients over loopback: what works, what is refused, in which words,
// and certificates that change meanwhile.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "src/bootstrap/client/client.h"
#include "src/bootstrap/client/lease.h"
#include "src/bootstrap/service/server.h"
#include "tests/bootstrap/fake_host.h"
#include "tests/log/captured_log.h"
#include "tests/security/test_files.h"

namespace invoker::bootstrap {
namespace {
using security::IssuedFiles;
using security::TestAuthority;
using security::TestFiles;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TlsTest : public ::testing::Test {
 protected:
  void Start(const IssuedFiles& issued, const std::string& client_authorities = "") {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.security.tls = {issued.certificate, issued.key, client_authorities};
    options.security.access = access_.get();
    auto server = Server::Start(options, &host_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void StartPlain() {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    auto server = Server::Start(options, &host_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  absl::StatusOr<std::unique_ptr<BootstrapClient>> Connect(const ClientCredentials& credentials) {
    return BootstrapClient::Connect(server_->listen_address(), kPatience, credentials);
  }
  // Why it did not work.
  std::string Refusal(const ClientCredentials& credentials, absl::StatusCode code) {
    const absl::Status status = Connect(credentials).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(server_->listen_address()));
    return std::string(status.message());
  }
  ClientCredentials With(const TestAuthority& authority) {
    ClientCredentials credentials;
    credentials.tls_ca = authority.file();
    return credentials;
  }
  ClientCredentials With(const TestAuthority& authority, const IssuedFiles& own) {
    ClientCredentials credentials = With(authority);
    credentials.tls_cert = own.certificate;
    credentials.tls_key = own.key;
    return credentials;
  }

  TestFiles files_;
  TestAuthority authority_{&files_, "authority"};
  FakeHost host_;
  CapturedLog log_;
  std::unique_ptr<security::AccessControl>
      access_;  // the servers' that ask which tenant a client is
  std::unique_ptr<Server> server_;
};

TEST_F(TlsTest, LeasesAndSessionsWorkAsInPlaintext) {
  Start(authority_.Issue("server"));
  auto client = Connect(With(authority_));
  ASSERT_TRUE(client.ok()) << client.status();
  auto lease = Lease::Acquire(client->get(), {}, {}, kPatience);
  ASSERT_TRUE(lease.ok()) << lease.status();
  const auto opened = (*client)->OpenSession((*lease)->id(), SampleRequest(), kPatience);
  EXPECT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE((*lease)->Release(kPatience).ok());
}

TEST_F(TlsTest, ACertificateOfAnotherAuthorityIsNotAccepted) {
  Start(authority_.Issue("server"));
  const TestAuthority other(&files_, "other");
  EXPECT_THAT(Refusal(With(other), absl::StatusCode::kUnauthenticated),
              AllOf(HasSubstr("not signed by any authority in " + other.file()),
                    HasSubstr("not the file for this server")));
}

TEST_F(TlsTest, AnExpiredCertificateIsCalledExpired) {
  TestAuthority::Subject subject;
  subject.valid_from_s = -7200;
  subject.valid_until_s = -3600;
  Start(authority_.Issue("server", subject));
  EXPECT_THAT(log_.messages(), Contains(HasSubstr("has expired")));
  EXPECT_THAT(Refusal(With(authority_), absl::StatusCode::kUnauthenticated),
              AllOf(HasSubstr("has expired"), HasSubstr("renew")));
}

TEST_F(TlsTest, ACertificateOfAnotherHostIsNotAcceptedUnlessThatIsAskedFor) {
  TestAuthority::Subject subject;
  subject.names = "DNS:worker.example,IP:192.0.2.7";
  Start(authority_.Issue("server", subject));
  EXPECT_THAT(Refusal(With(authority_), absl::StatusCode::kUnauthenticated),
              AllOf(HasSubstr("is for worker.example, 192.0.2.7"), HasSubstr("not for 127.0.0.1"),
                    HasSubstr("--tls-server-name")));
  ClientCredentials credentials = With(authority_);
  credentials.tls_server_name = "worker.example";
  const auto client = Connect(credentials);
  EXPECT_TRUE(client.ok()) << client.status();
  credentials.tls_server_name = "elsewhere.example";
  EXPECT_THAT(Refusal(credentials, absl::StatusCode::kUnauthenticated),
              HasSubstr("not for elsewhere.example"));
}

TEST_F(TlsTest, AServerWithoutTlsIsNamedSo) {
  StartPlain();
  EXPECT_THAT(Refusal(With(authority_), absl::StatusCode::kFailedPrecondition),
              AllOf(HasSubstr("does not speak TLS"), HasSubstr("--tls-cert")));
}

TEST_F(TlsTest, AClientWithoutTlsIsToldThatTheServerHasIt) {
  Start(authority_.Issue("server"));
  EXPECT_THAT(Refusal({}, absl::StatusCode::kFailedPrecondition),
              AllOf(HasSubstr("speaks TLS, and this client does not"), HasSubstr("--tls-ca")));
}

TEST_F(TlsTest, ClientsNeedACertificateWhereTheServerAsksForOne) {
  const TestAuthority clients(&files_, "clients");
  Start(authority_.Issue("server"), clients.file());
  EXPECT_THAT(Refusal(With(authority_), absl::StatusCode::kUnauthenticated),
              AllOf(HasSubstr("asks clients for a certificate"), HasSubstr("--tls-cert")));
  const auto client = Connect(With(authority_, clients.Issue("alice")));
  EXPECT_TRUE(client.ok()) << client.status();
  // Signed by whom the server does not know for clients.
  const IssuedFiles stranger = authority_.Issue("stranger");
  EXPECT_THAT(Refusal(With(authority_, stranger), absl::StatusCode::kUnauthenticated),
              AllOf(HasSubstr("does not accept the certificate in " + stranger.certificate),
                    HasSubstr("--tls-client-ca")));
}

TEST_F(TlsTest, NewHandshakesUseNewCertificatesAndOpenLeasesStay) {
  Start(authority_.Issue("server"));
  auto client = Connect(With(authority_));
  ASSERT_TRUE(client.ok()) << client.status();
  std::atomic<bool> lost{false};
  LeaseEvents events;
  events.on_lost = [&lost](absl::Status) { lost = true; };
  auto lease = Lease::Acquire(client->get(), {}, events, kPatience);
  ASSERT_TRUE(lease.ok()) << lease.status();
  // Under the same names, by an authority that the old client does not know.
  const TestAuthority next(&files_, "next");
  next.Issue("server");
  EXPECT_TRUE(Connect(With(next)).ok());
  EXPECT_THAT(Refusal(With(authority_), absl::StatusCode::kUnauthenticated),
              HasSubstr("not signed by any authority"));
  EXPECT_TRUE((*client)->OpenSession((*lease)->id(), SampleRequest(), kPatience).ok());
  EXPECT_FALSE(lost);
  EXPECT_THAT(log_.messages(), Contains(HasSubstr("certificates read again")));
}

TEST_F(TlsTest, ABrokenNewCertificateLeavesTheOldOneInUseAndIsReportedOnce) {
  const IssuedFiles issued = authority_.Issue("server");
  Start(issued);
  files_.Write("server.pem", "-----BEGIN CERTIFICATE-----\nnonsense\n", 0644);
  EXPECT_TRUE(Connect(With(authority_)).ok());
  EXPECT_TRUE(Connect(With(authority_)).ok());
  EXPECT_THAT(log_.messages(),
              ::testing::ElementsAre(
                  AllOf(HasSubstr(issued.certificate), HasSubstr("certificates from before"))));
  // A key that everybody can read is no better.
  const IssuedFiles whole = authority_.Issue("server");
  files_.Write("server.key", TestFiles::Read(whole.key), 0644);
  EXPECT_TRUE(Connect(With(authority_)).ok());
  EXPECT_THAT(log_.messages(), Contains(AllOf(HasSubstr(whole.key), HasSubstr("chmod 600"))));
  files_.Write("server.key", TestFiles::Read(whole.key), 0600);
  EXPECT_TRUE(Connect(With(authority_)).ok());
  EXPECT_THAT(log_.messages(), Contains(HasSubstr("certificates read again")));
}

TEST_F(TlsTest, AClientsNewCertificateIsUsedByTheSameClient) {
  const TestAuthority clients(&files_, "clients");
  auto access = security::AccessControl::Open(
      {"", files_.Write("policy",
                        "tenant { name: 'alice' certificate_subject: 'CN=alice,O=Example' }\n"
                        "tenant { name: 'bob' certificate_subject: 'CN=bob,O=Example' }\n")});
  ASSERT_TRUE(access.ok()) << access.status();
  access_ = *std::move(access);
  Start(authority_.Issue("server"), clients.file());
  TestAuthority::Subject subject;
  subject.common_name = "alice";
  const IssuedFiles own = clients.Issue("own", subject);
  auto client = Connect(With(authority_, own));
  ASSERT_TRUE(client.ok()) << client.status();
  const auto before = Lease::Acquire(client->get(), {}, {}, kPatience);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ((*before)->terms().tenant, "alice");
  // Under the same names.
  subject.common_name = "bob";
  clients.Issue("own", subject);
  const auto after = Lease::Acquire(client->get(), {}, {}, kPatience);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ((*after)->terms().tenant, "bob");
  // What alice holds is still hers, and now a stranger's to this client.
  EXPECT_EQ((*client)->OpenSession((*before)->id(), SampleRequest(), kPatience).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE((*before)->Release(kPatience).ok());
}

TEST_F(TlsTest, FilesThatCannotBeUsedAreRefusedAtTheStart) {
  const IssuedFiles issued = authority_.Issue("server");
  const auto start = [this](const security::CertificatePaths& tls) {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.security.tls = tls;
    return Server::Start(options, &host_).status();
  };
  EXPECT_EQ(start({"/nowhere.pem", issued.key, ""}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(start({issued.certificate, "", ""}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(start({"", "", authority_.file()}).code(), absl::StatusCode::kInvalidArgument);
  const absl::Status mismatch = start({issued.certificate, authority_.Issue("other").key, ""});
  EXPECT_THAT(std::string(mismatch.message()), HasSubstr("is not that of the certificate"));
}

TEST_F(TlsTest, PlaintextStaysOnThisMachineUnlessTheUserInsists) {
  ServerOptions options;
  options.listen = "0.0.0.0:0";
  const absl::Status status = Server::Start(options, &host_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("0.0.0.0"), HasSubstr("--tls-cert"), HasSubstr("--allow-plaintext")));
  const IssuedFiles issued = authority_.Issue("server");
  options.security.tls = {issued.certificate, issued.key, ""};
  EXPECT_TRUE(Server::Start(options, &host_).ok());

  // Nobody is asked: the address is for documentation (RFC 5737).
  const absl::Status client =
      BootstrapClient::Connect("192.0.2.1:7000", absl::Milliseconds(200)).status();
  EXPECT_EQ(client.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(client.message()),
              AllOf(HasSubstr("192.0.2.1:7000"), HasSubstr("--tls-ca"), HasSubstr("--plaintext")));
}

}  // namespace
}  // namespace invoker::bootstrap
