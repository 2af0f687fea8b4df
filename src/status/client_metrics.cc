#include <utility>

#include "invoker/metrics.h"
#include "src/invoke/connect/client_totals.h"
#include "src/security/access_control.h"
#include "src/status/http_server.h"
#include "src/status/metric_families.h"
#include "src/status/metrics_text.h"

namespace invoker {
namespace {

using status::CallFamilies;
using status::Families;
using status::Family;

void AddFabrics(const bootstrap::ClientStatus& status, Families* families) {
  Family sessions("invoker_client_sessions", "Open sessions, one for each executor.",
                  Family::Type::Gauge);
  Family outstanding("invoker_client_calls_outstanding", "Calls that have not ended.",
                     Family::Type::Gauge);
  for (const auto& [provider, fabric] : status.fabrics) {
    sessions.Add(fabric.sessions, {{"fabric", provider}});
    outstanding.Add(fabric.outstanding, {{"fabric", provider}});
  }
  families->Add(std::move(sessions));
  families->Add(std::move(outstanding));
}

}  // namespace

std::string ClientMetrics() {
  const bootstrap::ClientStatus status = ClientTotals::Read();
  Families families;
  CallFamilies calls({"invoker_client_", "Calls begun; each try of a group's.",
                      "Calls that ended without an answer, or whose function failed.",
                      "Payloads of the requests.", "Payloads of the answers.",
                      "Time from a request's start to its answer, of one call in 31."});
  calls.Add(status.functions);
  families.Add(std::move(calls));
  AddFabrics(status, &families);
  families.AddCounter("invoker_client_sessions_opened_total", "Sessions opened.", status.sessions);
  families.AddCounter("invoker_client_retries_total", "Calls of groups that were tried again.",
                      status.retries);
  Family drops("invoker_client_dropped_responses_total", "Responses that led to nothing.",
               Family::Type::Counter);
  for (const auto& [reason, count] : status.drops) drops.Add(count, {{"reason", reason}});
  families.Add(std::move(drops));
  families.AddGauge("invoker_client_registered_bytes",
                    "Memory that this process has registered with fabrics.",
                    static_cast<double>(status.registered_bytes));
  return families.Text();
}

class MetricsServer::Parts {
 public:
  absl::Status Start(const MetricsOptions& options) {
    absl::StatusOr<std::unique_ptr<security::AccessControl>> access =
        security::AccessControl::Open({options.token_file, ""});
    if (!access.ok()) return access.status();
    access_ = *std::move(access);
    status::HttpOptions http;
    http.listen = options.listen;
    http.tls = {options.tls_cert, options.tls_key, options.tls_client_ca};
    http.allow_plaintext = options.allow_plaintext;
    http.access = access_.get();
    http.pages["/metrics"] = {status::kMetricsContentType, [] { return ClientMetrics(); }};
    absl::StatusOr<std::unique_ptr<status::HttpServer>> server =
        status::HttpServer::Start(std::move(http));
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    return absl::OkStatus();
  }
  const std::string& address() const { return server_->address(); }

 private:
  std::unique_ptr<security::AccessControl> access_;
  std::unique_ptr<status::HttpServer> server_;  // asks the above
};

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const MetricsOptions& options) {
  auto parts = std::make_unique<Parts>();
  if (absl::Status status = parts->Start(options); !status.ok()) return status;
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(parts)));
}

MetricsServer::MetricsServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
MetricsServer::~MetricsServer() = default;

const std::string& MetricsServer::address() const { return parts_->address(); }

}  // namespace invoker
