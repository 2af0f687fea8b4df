#include "src/status/http_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/base/start_thread.h"
#include "src/bootstrap/messages/host_port.h"
#include "src/security/token.h"
#include "src/status/tls_context.h"

namespace invoker::status {
namespace {

constexpr size_t kThreads = 16;
constexpr time_t kPatienceSeconds = 5;
constexpr size_t kMostRequestBytes = 16 << 10;
constexpr char kBasic[] = "Basic ";

// What the bootstrap's clients would have sent: the password of basic authentication is the token.
std::string AuthorizationOf(const httplib::Request& request) {
  const size_t count = request.get_header_value_count("Authorization");
  // Neither of two is to be believed.
  if (count != 1) return count == 0 ? "" : "twice";
  std::string value = request.get_header_value("Authorization");
  if (!absl::StartsWith(value, kBasic)) return value;
  std::string decoded;
  if (!absl::Base64Unescape(value.substr(sizeof(kBasic) - 1), &decoded)) return value;
  const size_t colon = decoded.find(':');
  if (colon == std::string::npos) return value;
  return absl::StrCat(security::kTokenScheme, decoded.substr(colon + 1));
}

}  // namespace

class HttpServer::Impl {
 public:
  explicit Impl(HttpOptions options) : options_(std::move(options)), tls_(options_.tls) {}
  ~Impl() {
    if (server_ != nullptr) server_->stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Listen() {
    const absl::StatusOr<bootstrap::HostPort> wanted = bootstrap::ParseHostPort(options_.listen);
    if (!wanted.ok()) return wanted.status();
    absl::StatusOr<bootstrap::HostPort> address = bootstrap::ResolveListenAddress(*wanted);
    if (!address.ok()) return address.status();
    if (absl::Status status = Make(*address); !status.ok()) return status;
    Configure();
    int port = address->port;
    if (port == 0) {
      port = server_->bind_to_any_port(address->host);
    } else if (!server_->bind_to_port(address->host, port)) {
      port = -1;
    }
    if (port <= 0) return bootstrap::ListenError(EADDRINUSE, *address);
    address->port = static_cast<uint16_t>(port);
    address_ = bootstrap::FormatHostPort(*address);
    absl::Status started = transport::StartThread(&thread_, [this] {
      server_->listen_after_bind();
      ended_ = true;
    });
    // A server that does not run yet cannot be stopped.
    while (started.ok() && !server_->is_running() && !ended_) std::this_thread::yield();
    return started;
  }

  const std::string& address() const { return address_; }

 private:
  absl::Status Make(const bootstrap::HostPort& address) {
    if (options_.tls.certificate.empty()) {
      if (!options_.allow_plaintext && !bootstrap::IsLoopback(address.host)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "other machines reach ", bootstrap::FormatHostPort(address),
            ", and nothing that goes there would be encrypted: give a certificate and its key "
            "(--tls-cert, --tls-key), use 127.0.0.1, or say --allow-plaintext if the network is "
            "trusted"));
      }
      server_ = std::make_unique<httplib::Server>();
      return absl::OkStatus();
    }
    if (absl::Status status = tls_.Load(); !status.ok()) return status;
    server_ = std::make_unique<httplib::SSLServer>([this](SSL_CTX& context) {
      tls_.Use(&context);
      return true;
    });
    return absl::OkStatus();
  }

  void Configure() {
    server_->new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    // The library's own choice lets another program listen on the same port.
    server_->set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    server_->set_keep_alive_max_count(1);
    server_->set_read_timeout(kPatienceSeconds);
    server_->set_write_timeout(kPatienceSeconds);
    server_->set_payload_max_length(kMostRequestBytes);
    server_->set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          return Admit(request, &response) ? httplib::Server::HandlerResponse::Unhandled
                                           : httplib::Server::HandlerResponse::Handled;
        });
    for (const auto& [path, page] : options_.pages) {
      server_->Get(path, [&page = page](const httplib::Request&, httplib::Response& response) {
        response.set_header("Cache-Control", "no-store");
        response.set_header("X-Content-Type-Options", "nosniff");
        response.set_content(page.make(), page.content_type.c_str());
      });
    }
  }

  bool Admit(const httplib::Request& request, httplib::Response* response) {
    if (options_.access == nullptr || !options_.access->required()) return true;
    const absl::StatusOr<security::Caller> caller =
        options_.access->Identify(AuthorizationOf(request), ShownOn(request.ssl));
    if (!caller.ok()) {
      response->status = 401;
      response->set_header("WWW-Authenticate", "Basic realm=\"Invoker: any name, and a token\"");
      response->set_content(absl::StrCat(caller.status().message(), "\n"), "text/plain");
      return false;
    }
    if (absl::Status sees = security::CheckSeesOthers(*caller); !sees.ok()) {
      response->status = 403;
      response->set_content(absl::StrCat(sees.message(), "\n"), "text/plain");
      return false;
    }
    return true;
  }

  const HttpOptions options_;
  TlsContext tls_;
  std::unique_ptr<httplib::Server> server_;
  std::string address_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
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
