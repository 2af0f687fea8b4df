// What the parts of `invoker fabrics` share.

#ifndef INVOKER_TOOLS_INVOKER_FABRICS_H_
#define INVOKER_TOOLS_INVOKER_FABRICS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "invoker/client_credentials.h"
#include "src/transport/discovery/rdma_device.h"
#include "src/transport/self_test/fabric_report.h"

namespace invoker::tools {

// A provider that has a profile row and no endpoint on this machine.
struct AbsentProvider {
  std::string provider;
  std::string hint;
};

// What outside libfabric decides what it finds.
struct FabricEnvironment {
  std::string libfabric_version;
  std::vector<std::string> variables;  // "NAME=value", only those that are set
  // The memory that this process may lock, in bytes; nothing if there is no limit.
  std::optional<uint64_t> locked_memory;
};

// One fabric that a worker offers, tried by this side.
struct ServerFabric {
  std::string provider;
  absl::Status status;  // OK: a session opened, and its probe came back
  std::string notification;
  std::string downgrade_reason;
  uint32_t pings = 0;
  double round_trip_us = 0;  // their median
};

struct FabricsOutcome {
  FabricEnvironment environment;
  std::vector<transport::RdmaDevice> devices;
  std::vector<transport::FabricReport> fabrics;
  std::vector<AbsentProvider> absent;
  std::string server;  // "" if none was asked for
  std::vector<ServerFabric> server_fabrics;
};

// The environment, the devices, every fabric of this machine (not tried), and what is absent.
absl::StatusOr<FabricsOutcome> LookForFabrics();

// One document, complete.
std::string FabricsAsJson(const FabricsOutcome& outcome);

// For people: a table with a line for each kind of fabric, and a paragraph for each below it.
std::string FabricsAsText(const FabricsOutcome& outcome);

// Connects over every fabric that the worker offers (or over `provider` only, unless it is empty),
// one after the other. An error: the worker cannot be asked.
absl::Status TryServer(const std::string& server, const std::string& provider,
                       const ClientCredentials& credentials, absl::Duration timeout,
                       std::vector<ServerFabric>* fabrics);

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_INVOKER_FABRICS_H_
