#include "src/status/http_server.h"

#include <fcntl.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "src/base/start_thread.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/security/token.h"
#include "src/status/http_connection.h"
#include "src/status/tls_context.h"

namespace invoker::status {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr size_t kThreads = 4;
// Others wait in the system's queue until one of these has ended.
constexpr size_t kMostConnections = 128;
constexpr char kBasic[] = "Basic ";
// The page has all that it needs, and is nobody's frame.
constexpr char kContentPolicy[] =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string Text(beast::string_view text) { return {text.data(), text.size()}; }

// What the bootstrap's clients would have sent: the password of basic authentication is the token.
std::string AuthorizationOf(const HttpRequest& request) {
  const size_t count = request.count(http::field::authorization);
  // Neither of two is to be believed.
  if (count != 1) return count == 0 ? "" : "twice";
  std::string value = Text(request[http::field::authorization]);
  if (!absl::StartsWith(value, kBasic)) return value;
  std::string decoded;
  if (!absl::Base64Unescape(value.substr(sizeof(kBasic) - 1), &decoded)) return value;
  const size_t colon = decoded.find(':');
  if (colon == std::string::npos) return value;
  return absl::StrCat(security::kTokenScheme, decoded.substr(colon + 1));
}

// Whether a browser that asks for this host knows that it asks this machine, which listens at
// `own`. It does not where a name of another site's has been made to stand for this machine's
// address.
bool NamesThisMachine(beast::string_view host, const std::string& own) {
  std::string name = Text(host);
  const size_t colon = name.rfind(':');
  if (colon != std::string::npos && name.find(']', colon) == std::string::npos) {
    name.resize(colon);
  }
  if (name.size() > 2 && name.front() == '[') name = name.substr(1, name.size() - 2);
  if (!name.empty() && name.back() == '.') name.pop_back();
  beast::error_code error;
  asio::ip::make_address(name, error);
  return name.empty() || !error || absl::EqualsIgnoreCase(name, "localhost") ||
         absl::EqualsIgnoreCase(name, own);
}

// No program that this process starts inherits it.
void CloseInPrograms(int descriptor) { fcntl(descriptor, F_SETFD, FD_CLOEXEC); }

HttpResponse Answer(http::status status, std::string text) {
  HttpResponse response(status, 11, std::move(text));
  response.set(http::field::content_type, "text/plain");
  response.set(http::field::cache_control, "no-store");
  response.set("X-Content-Type-Options", "nosniff");
  response.set("Content-Security-Policy", kContentPolicy);
  return response;
}

}  // namespace

class HttpServer::Impl {
 public:
  explicit Impl(HttpOptions options)
      : options_(std::move(options)),
        limits_{std::chrono::milliseconds(absl::ToInt64Milliseconds(options_.patience))},
        certificates_(options_.tls) {}
  ~Impl() {
    stopping_ = true;
    io_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Listen() {
    const absl::StatusOr<bootstrap::HostPort> wanted = bootstrap::ParseHostPort(options_.listen);
    if (!wanted.ok()) return wanted.status();
    absl::StatusOr<bootstrap::HostPort> address = bootstrap::ResolveListenAddress(*wanted);
    if (!address.ok()) return address.status();
    on_loopback_ = bootstrap::IsLoopback(address->host);
    own_name_ = wanted->host;
    if (absl::Status status = CheckEncryption(*address); !status.ok()) return status;
    beast::error_code error;
    Bind(address->host, address->port, &error);
    if (error) return bootstrap::ListenError(error.value(), *address);
    address->port = acceptor_.local_endpoint().port();
    address_ = bootstrap::FormatHostPort(*address);
    Accept();
    for (size_t i = 0; i < kThreads; ++i) {
      std::thread thread;
      absl::Status started = transport::StartThread(&thread, [this] { io_.run(); });
      if (!started.ok()) return started;
      threads_.push_back(std::move(thread));
    }
    return absl::OkStatus();
  }

  const std::string& address() const { return address_; }

 private:
  absl::Status CheckEncryption(const bootstrap::HostPort& address) {
    if (!options_.tls.certificate.empty()) {
      if (absl::Status status = certificates_.Load(); !status.ok()) return status;
      certificates_.Use(tls_.native_handle());
      return absl::OkStatus();
    }
    if (options_.allow_plaintext || on_loopback_) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "other machines reach ", bootstrap::FormatHostPort(address),
        ", and nothing that goes there would be encrypted: give a certificate and its key "
        "(--tls-cert, --tls-key), use 127.0.0.1, or say --allow-plaintext if the network is "
        "trusted"));
  }

  void Bind(const std::string& host, uint16_t port, beast::error_code* error) {
    const tcp::endpoint endpoint(asio::ip::make_address(host, *error), port);
    if (*error) return;
    if (acceptor_.open(endpoint.protocol(), *error)) return;
    CloseInPrograms(acceptor_.native_handle());
    if (acceptor_.set_option(asio::socket_base::reuse_address(true), *error)) return;
    if (acceptor_.bind(endpoint, *error)) return;
    acceptor_.listen(asio::socket_base::max_listen_connections, *error);
  }

  // The acceptor's strand, for these.

  void Accept() {
    acceptor_.async_accept(asio::make_strand(io_), [this](beast::error_code error, auto socket) {
      if (error) return AcceptLater();
      CloseInPrograms(socket.native_handle());
      ++connections_;
      Serve(beast::tcp_stream(std::move(socket)));
      paused_ = connections_ == kMostConnections;
      if (!paused_) Accept();
    });
  }

  // There may be no descriptor left, for example.
  void AcceptLater() {
    retry_.expires_after(std::chrono::milliseconds(100));
    retry_.async_wait([this](beast::error_code) { Accept(); });
  }

  void OnConnectionEnded() {
    --connections_;
    if (std::exchange(paused_, false)) Accept();
  }

  void Serve(beast::tcp_stream stream) {
    if (options_.tls.certificate.empty()) return Start(std::move(stream));
    Start(beast::ssl_stream<beast::tcp_stream>(std::move(stream), tls_));
  }

  template <typename Stream>
  void Start(Stream stream) {
    const auto ended = [this] {
      if (!stopping_) asio::post(acceptor_.get_executor(), [this] { OnConnectionEnded(); });
    };
    const auto executor = beast::get_lowest_layer(stream).get_executor();
    const auto connection =
        std::make_shared<HttpConnection<Stream>>(std::move(stream), &handler_, ended);
    asio::dispatch(executor, [this, connection] { connection->Start(limits_); });
  }

  // Any thread, for the rest.

  HttpResponse AnswerTo(const HttpRequest& request, const SSL* tls) {
    if (absl::optional<HttpResponse> refusal = Refuse(request, tls); refusal.has_value()) {
      return *std::move(refusal);
    }
    if (request.method() != http::verb::get && request.method() != http::verb::head) {
      HttpResponse response = Answer(http::status::method_not_allowed, "only GET and HEAD\n");
      response.set(http::field::allow, "GET, HEAD");
      return response;
    }
    const std::string target = Text(request.target());
    const auto page = options_.pages.find(target.substr(0, target.find('?')));
    if (page == options_.pages.end()) return Answer(http::status::not_found, "no such page\n");
    HttpResponse response = Answer(http::status::ok, page->second.make());
    response.set(http::field::content_type, page->second.content_type);
    return response;
  }

  absl::optional<HttpResponse> Refuse(const HttpRequest& request, const SSL* tls) {
    if (options_.access == nullptr || !options_.access->required()) {
      // What any program of this machine may see is not for other sites that its browser shows.
      // Nor does a browser take a certificate of another name.
      if (!on_loopback_ || tls != nullptr ||
          NamesThisMachine(request[http::field::host], own_name_)) {
        return absl::nullopt;
      }
      return Answer(http::status::misdirected_request,
                    "this port is asked by the names of this machine only: localhost, an address "
                    "in numbers, or the name that it was told to listen at\n");
    }
    const absl::StatusOr<security::Caller> caller =
        options_.access->Identify(AuthorizationOf(request), ShownOn(tls));
    if (!caller.ok()) {
      HttpResponse response =
          Answer(http::status::unauthorized, absl::StrCat(caller.status().message(), "\n"));
      response.set(http::field::www_authenticate, "Basic realm=\"Invoker: any name, and a token\"");
      return response;
    }
    if (absl::Status sees = security::CheckSeesOthers(*caller); !sees.ok()) {
      return Answer(http::status::forbidden, absl::StrCat(sees.message(), "\n"));
    }
    return absl::nullopt;
  }

  const HttpOptions options_;
  const HttpLimits limits_;
  const HttpHandler handler_ = [this](const HttpRequest& request, const SSL* tls) {
    return AnswerTo(request, tls);
  };
  TlsContext certificates_;
  asio::ssl::context tls_{asio::ssl::context::tls_server};
  bool on_loopback_ = false;
  std::string own_name_;  // the host that was to be listened at
  std::string address_;
  std::atomic<bool> stopping_{false};
  asio::io_context io_;
  tcp::acceptor acceptor_{asio::make_strand(io_)};
  asio::steady_timer retry_{acceptor_.get_executor()};
  size_t connections_ = 0;
  bool paused_ = false;  // nothing is accepted, until a connection has ended
  std::vector<std::thread> threads_;
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  if (absl::Status status = impl->Listen(); !status.ok()) return status;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

const std::string& HttpServer::address() const { return impl_->address(); }

}  // namespace invoker::status
