// The line of JSON that invoker_server prints when it is ready.

#ifndef INVOKER_TOOLS_SERVER_READY_H_
#define INVOKER_TOOLS_SERVER_READY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "src/bootstrap/messages/messages.h"
#include "src/bootstrap/service/server.h"
#include "src/code/upload_policy.h"
#include "src/invoke/worker/worker.h"

namespace invoker::tools {

// On standard output. "provider" and "fabric_address" are those of the first fabric. `info` is what
// clients are told, and `metrics` the address of the status page; empty: none.
absl::Status PrintReady(const Worker& worker, const bootstrap::WorkerInfo& info,
                        const bootstrap::Server& server, UploadPolicy upload,
                        const std::string& metrics);

}  // namespace invoker::tools

#endif  // INVOKER_TOOLS_SERVER_READY_H_
