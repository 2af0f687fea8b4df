// Serves pages that are made when they are asked for, over HTTP or HTTPS, to clients that the
// server's bootstrap would answer too.
//
// Each request has a connection of its own, which is closed when it takes too long, and a few
// threads answer them. A client that must show a token sends it as a bearer token, or as the
// password of HTTP's basic authentication, which browsers ask for; the user's name does not matter
// then.

#ifndef INVOKER_SRC_STATUS_HTTP_SERVER_H_
#define INVOKER_SRC_STATUS_HTTP_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/security/access_control.h"
#include "src/security/certificates.h"

namespace invoker::status {

struct Page {
  std::string content_type;
  std::function<std::string()> make;  // on a thread of the server's
};

struct HttpOptions {
  // HOST:PORT; port 0 picks a free one.
  std::string listen;
  // No certificate: plaintext. With authorities, clients must have a certificate that one of them
  // has signed. Read again when the files have changed.
  security::CertificatePaths tls;
  bool allow_plaintext = false;                 // also where other machines can reach the port
  security::AccessControl* access = nullptr;    // outlives the server; nullptr: nobody is asked
  std::map<std::string, Page> pages = {};       // by path
  absl::Duration patience = absl::Seconds(10);  // with a request, from its connection to its answer
};

class HttpServer {
 public:
  // Returns with the server listening. Errors as bootstrap::Server::Start's.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpOptions options);
  // Waits for pages that are being made. Answers that are on their way are cut off.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // With the real port: "127.0.0.1:41223".
  const std::string& address() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace invoker::status

#endif  // INVOKER_SRC_STATUS_HTTP_SERVER_H_
