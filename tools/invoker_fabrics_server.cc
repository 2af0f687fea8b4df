// `invoker fabrics --verify --server`: every fabric of a worker, tried by a session of its own.

#include <algorithm>
#include <memory>
#include <utility>

#include "invoker/client.h"
#include "src/bootstrap/client/client.h"
#include "src/transport/reactor/reactor.h"
#include "tools/invoker_fabrics.h"
#include "tools/latency_summary.h"

namespace invoker::tools {
namespace {

constexpr int kPings = 100;
constexpr size_t kPingBytes = 64;

ServerFabric TryFabric(const std::string& server, const std::string& provider,
                       const ClientCredentials& credentials, absl::Duration timeout) {
  ServerFabric fabric;
  fabric.provider = provider;
  ClientOptions options;
  options.provider = provider;
  options.connect_timeout = timeout;
  options.credentials = credentials;
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(server, options);
  if (!client.ok()) {
    fabric.status = client.status();
    return fabric;
  }
  fabric.notification = std::string(NotificationName((*client)->notification()));
  fabric.downgrade_reason = (*client)->downgrade_reason();
  const std::vector<std::byte> payload(kPingBytes);
  CallOptions call;
  call.timeout = timeout;
  std::vector<int64_t> times_ns;
  times_ns.reserve(kPings);
  for (int i = 0; i < kPings && fabric.status.ok(); ++i) {
    const int64_t start_ns = transport::MonotonicNs();
    fabric.status = (*client)->Ping(payload, call);
    if (fabric.status.ok()) times_ns.push_back(transport::MonotonicNs() - start_ns);
  }
  fabric.pings = static_cast<uint32_t>(times_ns.size());
  if (!times_ns.empty()) fabric.round_trip_us = Summarize(&times_ns).p50_us;
  return fabric;
}

}  // namespace

absl::Status TryServer(const std::string& server, const std::string& provider,
                       const ClientCredentials& credentials, absl::Duration timeout,
                       std::vector<ServerFabric>* fabrics) {
  absl::StatusOr<std::unique_ptr<bootstrap::BootstrapClient>> client =
      bootstrap::BootstrapClient::Connect(server, timeout, credentials);
  if (!client.ok()) return client.status();
  const absl::StatusOr<bootstrap::WorkerInfo> info = (*client)->GetWorkerInfo(timeout);
  if (!info.ok()) return info.status();
  std::vector<std::string> providers;
  for (const bootstrap::FabricOffer& offer : info->fabrics) {
    const std::string& offered = offer.identity.provider;
    if (!provider.empty() && provider != offered) continue;
    if (std::find(providers.begin(), providers.end(), offered) == providers.end()) {
      providers.push_back(offered);
    }
  }
  // The client says in words why a fabric that the worker does not offer cannot be had.
  if (providers.empty() && !provider.empty()) providers.push_back(provider);
  for (const std::string& each : providers)
    fabrics->push_back(TryFabric(server, each, credentials, timeout));
  return absl::OkStatus();
}

}  // namespace invoker::tools
