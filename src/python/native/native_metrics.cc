#include "src/python/native/native_metrics.h"

#include <utility>

#include "src/python/native/errors.h"
#include "src/python/native/gil.h"

namespace invoker::python {

std::unique_ptr<NativeMetrics> NativeMetrics::Start(
    const std::string& listen, const std::string& tls_cert, const std::string& tls_key,
    const std::string& tls_client_ca, const std::string& token_file, bool allow_plaintext) {
  MetricsOptions options;
  options.listen = listen;
  options.tls_cert = tls_cert;
  options.tls_key = tls_key;
  options.tls_client_ca = tls_client_ca;
  options.token_file = token_file;
  options.allow_plaintext = allow_plaintext;
  if (absl::Status status = BeginUse(); !status.ok()) Raise(status);
  absl::StatusOr<std::unique_ptr<MetricsServer>> server =
      WithoutGil([&] { return MetricsServer::Start(options); });
  if (!server.ok()) Raise(server.status());
  return std::unique_ptr<NativeMetrics>(new NativeMetrics(*std::move(server)));
}

NativeMetrics::NativeMetrics(std::unique_ptr<MetricsServer> server)
    : address_(server->address()), server_(std::move(server)) {}

void NativeMetrics::Close() {
  // Its threads are another process's.
  if (mark_.forked()) static_cast<void>(server_.release());
  if (server_ == nullptr) return;
  // It waits for the answers that are under way.
  WithoutGil([server = std::move(server_)]() mutable {
    server.reset();
    return true;
  });
}

}  // namespace invoker::python
