// What this process's clients have done, for Prometheus.
//
//   invoker::MetricsOptions options;
//   options.listen = "127.0.0.1:9465";
//   auto metrics = invoker::MetricsServer::Start(options);
//   if (!metrics.ok()) std::cerr << metrics.status() << std::endl;
//
// docs/guide/watching.md lists the metrics. A worker's own are elsewhere: ServerOptions::metrics,
// or invoker_server --metrics.

#ifndef INVOKER_SRC_INVOKE_METRICS_H_
#define INVOKER_SRC_INVOKE_METRICS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "invoker/export.h"

namespace invoker {

// Returns what all clients of this process have done, closed ones included, in Prometheus's text
// format. Any thread. Waits for no call.
INVOKER_EXPORT std::string ClientMetrics();

struct MetricsOptions {
  // HOST:PORT; port 0 takes a free one. An address that other machines can reach needs tls_cert, or
  // allow_plaintext.
  std::string listen = "127.0.0.1:0";
  // Files. The first three are PEM, and read again when they change, as the last one is.
  std::string tls_cert;          // the certificate chain: connections are HTTPS
  std::string tls_key;           // its private key, readable by no other user
  std::string tls_client_ca;     // authorities: one of them has signed each reader's certificate
  std::string token_file;        // readers must show one of the tokens in it, one a line
  bool allow_plaintext = false;  // on a trusted network
};

// Serves ClientMetrics at /metrics, over HTTP, on threads of its own.
class INVOKER_EXPORT MetricsServer {
 public:
  // Returns with the server listening. INVALID_ARGUMENT: an option. ALREADY_EXISTS: the port is
  // taken.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const MetricsOptions& options);
  // Waits for the answers that are under way.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // With the real port: "127.0.0.1:41223". Any thread.
  const std::string& address() const;

 private:
  class Parts;

  explicit MetricsServer(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_METRICS_H_
