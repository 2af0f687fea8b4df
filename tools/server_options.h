// invoker_server's command line.

#ifndef INVOKER_TOOLS_SERVER_OPTIONS_H_
#define INVOKER_TOOLS_SERVER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/accounting/server_accounting.h"
#include "src/bootstrap/service/connection_table.h"
#include "src/bootstrap/service/limited_host.h"
#include "src/cluster/registration.h"
#include "src/code/upload_policy.h"
#include "src/invoke/worker/worker.h"
#include "src/isolation/spawner/executor_spawner.h"
#include "src/lease/lease_policy.h"
#include "src/security/certificates.h"
#include "tools/options.h"

namespace invoker::tools {

struct ServerSettings {
  std::string listen = "127.0.0.1:0";
  bool allow_plaintext = false;
  security::CertificatePaths tls;  // certificate empty: plaintext
  std::string token_file;          // AccessOptions'
  std::string policy_file;
  std::vector<std::string> functions;
  absl::Duration drain_timeout = absl::Seconds(5);
  absl::Duration peer_timeout = absl::Seconds(5);
  bootstrap::ConnectionLimits connections;
  bootstrap::SessionLimits sessions;
  WorkerOptions worker;

  // Leases of executors of their own; policy.total.cores of 0: none.
  LeasePolicy policy;
  bool leases_asked_for = false;  // by a flag, so that a server without them would be a mistake
  SpawnerOptions spawner;         // but for its libraries and its worker

  UploadPolicy upload = UploadPolicy::kNone;
  std::string upload_cache;  // a directory; empty: a temporary one
  uint64_t upload_cache_bytes = uint64_t{1} << 30;

  AccountingOptions accounting;

  cluster::RegistrationOptions cluster;

  std::string metrics;  // HOST:PORT of the status page and the metrics; empty: none

  LogSettings log;
};

// The flags that stand for several settings, or for none at all, as they were given.
struct ServerFlags {
  std::string polling;
  std::string sandbox = "none";
  std::string allow_upload = "none";
};

void AddServerOptions(CLI::App* app, ServerSettings* settings, ServerFlags* flags);

// After parsing: fills in what depends on several flags and on this machine. INVALID_ARGUMENT for
// flags that contradict each other.
absl::Status Settle(const CLI::App& app, const ServerFlags& flags, ServerSettings* settings);

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_SERVER_OPTIONS_H_
