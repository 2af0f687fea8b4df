#include "tools/server_ready.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "invoker/notification.h"
#include "invoker/version.h"
#include "nlohmann/json.hpp"
#include "src/transport/discovery/discovery.h"
#include "src/transport/provider/provider_profile.h"

namespace invoker::tools {
namespace {

nlohmann::ordered_json DescribeFabric(const transport::FabricChoice& fabric) {
  nlohmann::ordered_json entry;
  entry["provider"] = fabric.profile.provider;
  entry["fabric_address"] = transport::DescribeSource(*fabric.info);
  entry["notification"] = NotificationName(fabric.profile.notification);
  entry["same_host_only"] = fabric.profile.same_host_only;
  return entry;
}

}  // namespace

absl::Status PrintReady(const Worker& worker, const bootstrap::WorkerInfo& info,
                        const bootstrap::Server& server, UploadPolicy upload,
                        const std::string& metrics) {
  nlohmann::ordered_json line;
  line["ready"] = true;
  line["listen"] = server.listen_address();
  if (!metrics.empty()) line["metrics"] = metrics;
  line["provider"] = worker.fabrics().front().profile.provider;
  line["fabric_address"] = transport::DescribeSource(*worker.fabrics().front().info);
  line["fabrics"] = nlohmann::json::array();
  for (const transport::FabricChoice& fabric : worker.fabrics()) {
    line["fabrics"].push_back(DescribeFabric(fabric));
  }
  line["executors"] = info.executors;
  line["notify"] = NotificationName(info.notification);
  line["window"] = info.window_bytes;
  line["functions"] = nlohmann::json::array();
  for (const bootstrap::FunctionInfo& function : info.functions) {
    line["functions"].push_back(function.name);
  }
  line["lease_cores"] = info.capacity.cores;
  line["lease_memory"] = info.capacity.memory_bytes;
  line["python"] = info.capacity.python;
  line["allow_upload"] = UploadPolicyName(upload);
  line["pid"] = getpid();
  line["version"] = Version();
  // A name with bytes that are not UTF-8 must not end the program.
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (fwrite(text.data(), 1, text.size(), stdout) != text.size() || fflush(stdout) != 0) {
    return absl::UnavailableError("cannot write to standard output");
  }
  return absl::OkStatus();
}

}  // namespace invoker::tools
