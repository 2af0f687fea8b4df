// StartInvokerServer and ProgramPath.

#include <unistd.h>

#include <climits>

#include "absl/strings/str_cat.h"
#include "bench/harness/server_process.h"
#include "nlohmann/json.hpp"
#include "src/transport/provider/provider_profile.h"

namespace invoker::bench {
namespace {

// Where programs of the benchmarks are, from the root of what is built.
constexpr char kPrograms[] = "/bench/programs";

}  // namespace

std::string ProgramPath(absl::string_view program) {
  char self[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof(self));
  std::string directory(self, length > 0 ? static_cast<size_t>(length) : 0);
  while (!directory.empty()) {
    directory.erase(directory.rfind('/'));
    if (access(absl::StrCat(directory, kPrograms).c_str(), F_OK) == 0) break;
  }
  return absl::StrCat(directory, "/", program);
}

absl::StatusOr<InvokerServer> StartInvokerServer(int core, const std::string& provider,
                                                 const std::string& address,
                                                 const std::vector<std::string>& more) {
  ServerProcess::Options options;
  options.core = core;
  options.command = {
      "tools/invoker_server", "--listen=127.0.0.1:0", absl::StrCat("--provider=", provider),
      // The longest: see client_options.h.
      "--peer-timeout=24h",
      absl::StrCat("--functions=", ProgramPath("bench/functions/libbench_functions.so"))};
  if (transport::FindRow(provider).address_is_ip) {
    options.command.push_back(absl::StrCat("--fabric-address=", address));
  }
  options.command.insert(options.command.end(), more.begin(), more.end());
  absl::StatusOr<std::unique_ptr<ServerProcess>> process = ServerProcess::Start(options);
  if (!process.ok()) {
    return absl::Status(process.status().code(),
                        absl::StrCat(provider, ": ", process.status().message()));
  }
  const nlohmann::json ready = nlohmann::json::parse((*process)->first_line(), nullptr, false);
  if (!ready.is_object() || !ready.contains("listen") || !ready["listen"].is_string()) {
    return absl::InternalError(
        absl::StrCat("invoker_server's first line is no ready line: ", (*process)->first_line()));
  }
  std::string target = ready["listen"];
  return InvokerServer{*std::move(process), std::move(target)};
}

}  // namespace invoker::bench
