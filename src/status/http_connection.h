// One connection of an HttpServer's: one request and its answer, over plain TCP or TLS.

#ifndef INVOKER_SRC_STATUS_HTTP_CONNECTION_H_
#define INVOKER_SRC_STATUS_HTTP_CONNECTION_H_

#include <openssl/ssl.h>

#include <array>
#include <boost/asio/ssl/error.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace invoker::status {

using HttpRequest = boost::beast::http::request<boost::beast::http::empty_body>;
using HttpResponse = boost::beast::http::response<boost::beast::http::string_body>;

// Answers a request. `tls` is nullptr on a plain connection.
using HttpHandler = std::function<HttpResponse(const HttpRequest& request, const SSL* tls)>;

// What a connection may take. It is closed when it has taken more.
struct HttpLimits {
  static constexpr uint32_t kMostRequestBytes = 16 << 10;

  std::chrono::milliseconds time;  // from its beginning to the end of its answer
};

// `Stream` is a boost::beast::tcp_stream, or an ssl_stream of one. Lives until it has ended; then
// `ended` runs. All of it runs on one thread at a time.
template <typename Stream>
class HttpConnection : public std::enable_shared_from_this<HttpConnection<Stream>> {
 public:
  HttpConnection(Stream stream, const HttpHandler* handler, std::function<void()> ended)
      : stream_(std::move(stream)), handler_(handler), ended_(std::move(ended)) {
    parser_.header_limit(HttpLimits::kMostRequestBytes);
    parser_.body_limit(0);
  }
  ~HttpConnection() { ended_(); }
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  void Start(const HttpLimits& limits) {
    // For all that follows, however slowly it comes.
    boost::beast::get_lowest_layer(stream_).expires_after(limits.time);
    if constexpr (kTls) {
      stream_.async_handshake(boost::asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](Error error) {
                                if (!error) self->Read();
                              });
    } else {
      Read();
    }
  }

 private:
  using Error = boost::beast::error_code;
  static constexpr bool kTls = !std::is_same_v<Stream, boost::beast::tcp_stream>;

  void Read() {
    namespace http = boost::beast::http;
    http::async_read(stream_, buffer_, parser_,
                     [self = this->shared_from_this()](Error error, size_t) {
                       if (!error) {
                         self->Write((*self->handler_)(self->parser_.get(), self->Tls()));
                       } else if (const std::optional<http::status> why = Refusal(error)) {
                         self->Write({*why, 11, error.message() + "\n"});
                       }
                     });
  }

  // What a request that cannot be read is answered with; nothing if there is nobody to answer.
  static std::optional<boost::beast::http::status> Refusal(const Error& error) {
    namespace http = boost::beast::http;
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      return http::status::request_header_fields_too_large;
    }
    if (error == http::error::end_of_stream || error == http::error::partial_message) return {};
    if (error.category() != make_error_code(http::error::bad_method).category()) return {};
    return http::status::bad_request;
  }

  void Write(HttpResponse response) {
    response_ = std::move(response);
    response_.keep_alive(false);
    response_.prepare_payload();
    if (parser_.get().method() == boost::beast::http::verb::head) response_.body().clear();
    boost::beast::http::async_write(stream_, response_,
                                    [self = this->shared_from_this()](Error error, size_t) {
                                      if (!error) self->Close();
                                    });
  }

  void Close() {
    if constexpr (kTls) {
      stream_.async_shutdown([self = this->shared_from_this()](Error) { self->Linger(); });
    } else {
      Error ignored;
      stream_.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
      Linger();
    }
  }

  // Until the client closes too. A socket that is closed with something unread takes back what was
  // sent.
  void Linger() {
    boost::beast::get_lowest_layer(stream_).async_read_some(
        boost::asio::buffer(unread_), [self = this->shared_from_this()](Error error, size_t) {
          if (!error) self->Linger();
        });
  }

  const SSL* Tls() {
    if constexpr (kTls) return stream_.native_handle();
    return nullptr;
  }

  Stream stream_;
  const HttpHandler* const handler_;
  const std::function<void()> ended_;
  boost::beast::flat_buffer buffer_{HttpLimits::kMostRequestBytes};
  std::array<char, 4096> unread_;
  boost::beast::http::request_parser<boost::beast::http::empty_body> parser_;
  HttpResponse response_;
};

}  // namespace invoker::status

#endif  // INVOKER_SRC_STATUS_HTTP_CONNECTION_H_
