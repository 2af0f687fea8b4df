// The clients that the pages are served to, over plain HTTP and over TLS.

#include "src/status/http_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/unique_fd.h"
#include "src/bootstrap/messages/host_port.h"
#include "tests/security/test_files.h"

namespace invoker::status {
namespace {

using security::TestAuthority;
using security::TestFiles;
using testing::HasSubstr;

constexpr char kToken[] = "a-token-of-many-characters";

HttpOptions Options() {
  HttpOptions options;
  options.listen = "127.0.0.1:0";
  options.pages["/page"] = {"text/plain", [] { return std::string("content"); }};
  return options;
}

std::unique_ptr<HttpServer> Start(HttpOptions options) {
  auto server = HttpServer::Start(std::move(options));
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

uint16_t PortOf(const HttpServer& server) {
  return bootstrap::ParseHostPort(server.address()).value().port;
}

TEST(HttpServerTest, PagesAreMadeWhenTheyAreAskedFor) {
  int made = 0;
  HttpOptions options = Options();
  options.pages["/page"].make = [&made] { return std::to_string(++made); };
  const auto server = Start(options);
  ASSERT_NE(server, nullptr);
  httplib::Client client("127.0.0.1", PortOf(*server));
  EXPECT_EQ(client.Get("/page")->body, "1");
  const httplib::Result second = client.Get("/page");
  EXPECT_EQ(second->body, "2");
  EXPECT_EQ(second->get_header_value("Content-Type"), "text/plain");
  EXPECT_EQ(client.Get("/other")->status, 404);
  EXPECT_EQ(client.Get("/page?query")->body, "3");
  EXPECT_EQ(client.Post("/page")->status, 405);
  const httplib::Result head = client.Head("/page");
  EXPECT_EQ(head->get_header_value("Content-Length"), "1");
}

TEST(HttpServerTest, ASiteWhoseNameStandsForThisMachineIsToldNothing) {
  const auto server = Start(Options());
  ASSERT_NE(server, nullptr);
  httplib::Client client("127.0.0.1", PortOf(*server));
  const auto status_of = [&client](const std::string& host) {
    return client.Get("/page", {{"Host", host}})->status;
  };
  EXPECT_EQ(status_of("site.example"), 421);
  EXPECT_EQ(status_of("site.example:80"), 421);
  for (const char* own :
       {"localhost", "LOCALHOST.:9100", "127.0.0.1", "127.0.1.1:9100", "[::1]:9100", "[::1]"}) {
    EXPECT_EQ(status_of(own), 200) << own;
  }
}

// A connection without a library's help.
class RawClient {
 public:
  explicit RawClient(const HttpServer& server) {
    const auto socket = bootstrap::OpenConnection({"127.0.0.1", PortOf(server)}, absl::Seconds(10));
    EXPECT_TRUE(socket.ok()) << socket.status();
    socket_ = UniqueFd(socket.ok() ? *socket : -1);
    fcntl(socket_.get(), F_SETFL, fcntl(socket_.get(), F_GETFL) & ~O_NONBLOCK);
  }
  // False once the server has closed the connection.
  bool Send(const std::string& text) {
    return send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  void EndSending() { shutdown(socket_.get(), SHUT_WR); }
  // All that comes until the server closes the connection.
  std::string Receive() {
    std::string all;
    std::array<char, 4096> some;
    ssize_t size = 0;
    while ((size = recv(socket_.get(), some.data(), some.size(), 0)) > 0) {
      all.append(some.data(), static_cast<size_t>(size));
    }
    return all;
  }

 private:
  UniqueFd socket_;
};

HttpOptions ImpatientOptions() {
  HttpOptions options = Options();
  options.patience = absl::Milliseconds(200);
  return options;
}

TEST(HttpServerTest, ARequestThatComesTooSlowlyIsGivenUp) {
  const auto server = Start(ImpatientOptions());
  ASSERT_NE(server, nullptr);
  RawClient slow(*server);
  // Each byte comes in time. All of them would not.
  EXPECT_TRUE(slow.Send("GET /page HTTP/1.1\r\n"));
  while (slow.Send("a")) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  RawClient silent(*server);
  EXPECT_EQ(silent.Receive(), "");
}

TEST(HttpServerTest, ARequestThatIsTooLongIsRefused) {
  const auto server = Start(Options());
  ASSERT_NE(server, nullptr);
  RawClient client(*server);
  EXPECT_TRUE(client.Send("GET /page HTTP/1.1\r\n"));
  const std::string header = "Header: " + std::string(1000, 'x') + "\r\n";
  // The header never ends.
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(client.Send(header));
  client.EndSending();
  EXPECT_THAT(client.Receive(), HasSubstr("431"));
}

TEST(HttpServerTest, GarbageIsAnsweredWithAnError) {
  const auto server = Start(Options());
  ASSERT_NE(server, nullptr);
  RawClient client(*server);
  EXPECT_TRUE(client.Send("garbage\r\n\r\n"));
  EXPECT_THAT(client.Receive(), HasSubstr("400"));
}

TEST(HttpServerTest, ManyConnectionsThatAskNothingDoNotKeepOthersOutForLong) {
  HttpOptions options = Options();
  options.patience = absl::Seconds(1);
  const auto server = Start(options);
  ASSERT_NE(server, nullptr);
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(std::make_unique<RawClient>(*server));
  // A machine that is busy for a second may cut it off, but not for ever.
  int status = 0;
  while (status == 0) {
    const httplib::Result result = httplib::Client("127.0.0.1", PortOf(*server)).Get("/page");
    if (result) status = result->status;
  }
  EXPECT_EQ(status, 200);
}

TEST(HttpServerTest, ProgramsThatAreStartedInheritNothing) {
  const auto sockets = [] {
    size_t inherited = 0;
    for (int fd = 3; fd < 1024; ++fd) {
      sockaddr_storage address = {};
      socklen_t size = sizeof(address);
      const bool is_tcp = getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
                          address.ss_family == AF_INET;
      if (is_tcp && (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) ++inherited;
    }
    return inherited;
  };
  size_t inside = 99;
  const size_t before = sockets();
  HttpOptions options = Options();
  options.pages["/page"].make = [&] {
    inside = sockets();
    return std::string();
  };
  const auto server = Start(options);
  ASSERT_NE(server, nullptr);
  RawClient client(*server);
  EXPECT_TRUE(client.Send("GET /page HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(client.Receive(), HasSubstr("200"));
  EXPECT_EQ(inside, before);
}

TEST(HttpServerTest, ItEndsWhileConnectionsAreOpen) {
  auto server = Start(Options());
  ASSERT_NE(server, nullptr);
  RawClient client(*server);
  EXPECT_TRUE(client.Send("GET /page"));
  server.reset();
  EXPECT_EQ(client.Receive(), "");
}

TEST(HttpServerTest, OtherMachinesReachNoPlaintextPortUnlessToldSo) {
  HttpOptions options = Options();
  options.listen = "0.0.0.0:0";
  const absl::Status refused = HttpServer::Start(options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--allow-plaintext"));
  options.allow_plaintext = true;
  EXPECT_NE(Start(options), nullptr);
}

TEST(HttpServerTest, APortThatIsTakenIsNamed) {
  const auto first = Start(Options());
  ASSERT_NE(first, nullptr);
  HttpOptions options = Options();
  options.listen = first->address();
  const absl::Status taken = HttpServer::Start(options).status();
  EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists) << taken;
  EXPECT_THAT(std::string(taken.message()), HasSubstr(first->address()));
}

class TokenTest : public testing::Test {
 protected:
  void SetUp() override {
    auto access = security::AccessControl::Open({files_.Write("tokens", kToken), ""});
    ASSERT_TRUE(access.ok()) << access.status();
    access_ = *std::move(access);
    HttpOptions options = Options();
    options.access = access_.get();
    server_ = Start(std::move(options));
    ASSERT_NE(server_, nullptr);
  }
  int StatusFor(const httplib::Headers& headers) {
    return httplib::Client("127.0.0.1", PortOf(*server_)).Get("/page", headers)->status;
  }

  TestFiles files_;
  std::unique_ptr<security::AccessControl> access_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(TokenTest, ItIsTakenAsABearerTokenAndAsAPassword) {
  EXPECT_EQ(StatusFor({{"Authorization", std::string("Bearer ") + kToken}}), 200);
  EXPECT_EQ(StatusFor({httplib::make_basic_authentication_header("anyone", kToken)}), 200);
}

TEST_F(TokenTest, WithoutItOrWithTwoNothingIsShown) {
  EXPECT_EQ(StatusFor({}), 401);
  EXPECT_EQ(StatusFor({{"Authorization", "Bearer another-token-of-many"}}), 401);
  EXPECT_EQ(StatusFor({{"Authorization", "Basic %%%"}}), 401);
  EXPECT_EQ(StatusFor({{"Authorization", std::string("Bearer ") + kToken},
                       {"Authorization", std::string("Bearer ") + kToken}}),
            401);
  EXPECT_EQ(access_->refused(), 4u);
}

class TlsTest : public testing::Test {
 protected:
  HttpOptions TlsOptions(const security::IssuedFiles& issued) {
    HttpOptions options = Options();
    options.tls = {issued.certificate, issued.key, ""};
    return options;
  }
  // Fails if the server shows no certificate that the authority has signed.
  httplib::Result Get(const HttpServer& server, const security::IssuedFiles& own = {}) {
    httplib::SSLClient client("127.0.0.1", PortOf(server), own.certificate, own.key);
    client.set_ca_cert_path(authority_.file().c_str());
    client.enable_server_certificate_verification(true);
    return client.Get("/page");
  }

  TestFiles files_;
  TestAuthority authority_{&files_, "authority"};
};

TEST_F(TlsTest, PagesAreEncryptedAndCertificatesThatChangeAreTaken) {
  const auto server = Start(TlsOptions(authority_.Issue("server")));
  ASSERT_NE(server, nullptr);
  ASSERT_TRUE(Get(*server));
  EXPECT_EQ(Get(*server)->body, "content");
  // One that nobody trusts takes its place, in the same files.
  const TestAuthority other(&files_, "other");
  other.Issue("server");
  EXPECT_FALSE(Get(*server));
  authority_.Issue("server");
  EXPECT_TRUE(Get(*server));
  // Plain HTTP gets no answer there.
  EXPECT_FALSE(httplib::Client("127.0.0.1", PortOf(*server)).Get("/page"));
}

TEST_F(TlsTest, WithAuthoritiesClientsNeedACertificate) {
  HttpOptions options = TlsOptions(authority_.Issue("server"));
  options.tls.authorities = authority_.file();
  const auto server = Start(options);
  ASSERT_NE(server, nullptr);
  EXPECT_FALSE(Get(*server));
  EXPECT_TRUE(Get(*server, authority_.Issue("client")));
  const TestAuthority other(&files_, "other");
  EXPECT_FALSE(Get(*server, other.Issue("client")));
}

TEST_F(TlsTest, ACertificateThatCannotBeUsedIsNamed) {
  HttpOptions options = TlsOptions({files_.Write("no.pem", "nothing"), files_.Write("no.key", "")});
  const absl::Status status = HttpServer::Start(options).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("no.pem"));
}

}  // namespace
}  // namespace invoker::status
