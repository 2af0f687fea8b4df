// Starts calls of a group for code that keeps its callback when a call cannot start: Python.

#ifndef INVOKER_SRC_INVOKE_GROUP_GROUP_CALL_STARTER_H_
#define INVOKER_SRC_INVOKE_GROUP_GROUP_CALL_STARTER_H_

#include "absl/status/statusor.h"
#include "invoker/client_group.h"

namespace invoker {

class GroupCallStarter {
 public:
  // ClientGroup::InvokeAsync. An error says why the call cannot start: `done` has not been taken
  // then, and is not called. Input that the caller keeps until the call has ended is not copied.
  static absl::StatusOr<GroupFuture> Start(ClientGroup& group, const GroupFunction& function,
                                           const CallInput& input, bool caller_keeps_input,
                                           const CallOptions& options, CallDone& done);
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_GROUP_CALL_STARTER_H_
