// The client's side of an upload: code goes to the worker once, by its hash, and from there into
// the executors of a lease.

#ifndef INVOKER_SRC_CODE_UPLOAD_CLIENT_H_
#define INVOKER_SRC_CODE_UPLOAD_CLIENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/bootstrap/client/client.h"
#include "src/bootstrap/messages/messages.h"

namespace invoker {

// Has `code` loaded into every executor of the lease, and uploads it only if the worker has not got
// it; tries again where too much is being uploaded just then. `name`: of a Python function; of a
// library, what messages call it. Blocks for `timeout` at most. Returns all functions that the
// lease's executors have then, by id. Errors are those of the service Code (proto/bootstrap.proto).
// Any thread.
absl::StatusOr<std::vector<bootstrap::FunctionInfo>> UploadAndLoad(
    bootstrap::BootstrapClient* client, uint64_t lease, absl::string_view code, CodeKind kind,
    absl::string_view name, absl::Duration timeout);

// The bytes of the file at `path`. NOT_FOUND, PERMISSION_DENIED, or INVALID_ARGUMENT for what is no
// regular file or is empty.
absl::StatusOr<std::string> ReadCode(const std::string& path);

}  // namespace invoker

#endif  // INVOKER_SRC_CODE_UPLOAD_CLIENT_H_
