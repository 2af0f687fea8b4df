// The options of subcommands that lease executors, and what a lease cost, in words.

#ifndef INVOKER_TOOLS_LEASE_SETTINGS_H_
#define INVOKER_TOOLS_LEASE_SETTINGS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "invoker/client_group.h"
#include "invoker/lease.h"
#include "tools/invoker_cli.h"

namespace invoker::tools {

struct LeaseSettings {
  bool lease = false;
  LeaseOptions options;
  std::vector<std::string> uploads;  // libraries
};

// --lease, and what is of use with it only: --executors, --at-least, --label, --memory, --polling,
// --hot-timeout, --ttl, --call-limit, --wait, --tenant and --upload.
void AddLeaseOptions(CLI::App* command, LeaseSettings* settings);

// Leases executors on the server, or on several ("HOST:PORT,HOST:PORT"), and uploads what is to be
// uploaded. nullptr after an error, which has been printed; `exit_code` says which.
std::unique_ptr<ClientGroup> AcquireLeases(const ServerSettings& server,
                                           const LeaseSettings& settings, int* exit_code);

// Gives them back, and prints the bill of each on standard error if it is `wanted`.
void ReleaseLeases(ClientGroup* group, bool wanted);

// "2 calls, function time 1.5ms, ..."
std::string UsageText(const ResourceUsage& usage);

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_LEASE_SETTINGS_H_
