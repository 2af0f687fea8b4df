// Opens several sessions under one lease at the same time.

#ifndef INVOKER_SRC_INVOKE_CLIENT_OPEN_SESSIONS_H_
#define INVOKER_SRC_INVOKE_CLIENT_OPEN_SESSIONS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "invoker/client.h"
#include "src/invoke/connect/client_lease.h"

namespace invoker {

// One with each of the lease's executors, in their order; or, if the lease has none of its own, so
// many with those that the worker shares. Blocks as Client::Connect does. Any thread. All or none:
// the error is that of the first executor that failed.
absl::StatusOr<std::vector<std::unique_ptr<Client>>> OpenSessions(
    const std::shared_ptr<ClientLease>& lease, size_t sessions, const ClientOptions& options);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CLIENT_OPEN_SESSIONS_H_
