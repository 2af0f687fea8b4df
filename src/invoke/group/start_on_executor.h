// Starts a call of a group on the executor with the fewest calls under way.

#ifndef INVOKER_SRC_INVOKE_GROUP_START_ON_EXECUTOR_H_
#define INVOKER_SRC_INVOKE_GROUP_START_ON_EXECUTOR_H_

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "invoker/client.h"
#include "invoker/client_options.h"
#include "src/invoke/group/executor_loads.h"
#include "src/invoke/group/group_function_ids.h"
#include "src/invoke/session/call_deadline.h"

namespace invoker {

// Whether a call that `client` made, and that failed like this, shows that its executor is lost. A
// call that its caller cancelled shows nothing.
inline bool ShowsLostExecutor(const Client& client, const absl::Status& status) {
  return ShowsLostExecutor(status) && !(absl::IsCancelled(status) && client.status().ok());
}

// Calls start(session, function, options), which returns why the call could not be started, for one
// executor, and for another one if that was lost. After OK the call counts for the session until
// ExecutorLoads::End. Blocks as far as `start` does.
template <typename Start>
absl::Status StartOnExecutor(ExecutorLoads& loads, const GroupFunctionIds& function,
                             CallOptions options, Start&& start) {
  const CallDeadline deadline(options.timeout);
  while (true) {
    const absl::StatusOr<ExecutorLoads::Session> session = loads.Begin();
    if (!session.ok()) return session.status();
    const RemoteFunction* const remote = function.In(*session);
    if (ABSL_PREDICT_FALSE(remote == nullptr)) {
      loads.End(*session);
      continue;
    }
    absl::Status status = start(*session, *remote, options);
    if (status.ok()) return status;
    const bool lost = ShowsLostExecutor(session->client(), status);
    if (lost) loads.Lose(*session, status);
    loads.End(*session);
    if (!lost || deadline.passed()) return status;
    options.timeout = deadline.left();
  }
}

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_START_ON_EXECUTOR_H_
