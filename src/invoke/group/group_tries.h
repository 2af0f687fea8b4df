// A call of a group whose result a thread waits for: its tries, one after the other.

#ifndef INVOKER_SRC_INVOKE_GROUP_GROUP_TRIES_H_
#define INVOKER_SRC_INVOKE_GROUP_GROUP_TRIES_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "invoker/client.h"
#include "src/invoke/group/call_tries.h"
#include "src/invoke/group/executor_loads.h"
#include "src/invoke/group/group_access.h"
#include "src/invoke/group/group_function_ids.h"

namespace invoker {

// One thread at a time. May outlive the group.
class GroupTries {
 public:
  GroupTries(std::shared_ptr<ExecutorLoads> loads, std::shared_ptr<GroupAccess> access,
             std::shared_ptr<const GroupFunctionIds> function, const CallOptions& options)
      : loads_(std::move(loads)),
        access_(std::move(access)),
        function_(std::move(function)),
        tries_(options) {}
  // The call counts for its executor until here, or until its result is known.
  ~GroupTries();
  GroupTries(const GroupTries&) = delete;
  GroupTries& operator=(const GroupTries&) = delete;

  // The first try. Once. Blocks as Client::InvokeAsync does.
  absl::Status Start(const CallInput& input);

  // The call's result; once. Blocks, and tries again if need be.
  absl::StatusOr<Response> Get();
  // Blocks until Get would not, or `limit` has passed; longer where another try waits for room.
  // Whether Get would not block.
  bool Wait(absl::Duration limit);
  // Future::Cancel.
  bool Cancel();

 private:
  absl::Status StartTry(const CallInput& input);
  // A try has ended: sets the result, or starts the next try.
  void TryEnded(absl::StatusOr<Response> response);

  const std::shared_ptr<ExecutorLoads> loads_;
  const std::shared_ptr<GroupAccess> access_;
  const std::shared_ptr<const GroupFunctionIds> function_;
  CallTries tries_;
  KeptInput input_;                                // for further tries
  std::optional<ExecutorLoads::Session> session_;  // the try's under way
  std::optional<Future> try_;
  std::optional<absl::StatusOr<Response>> result_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_GROUP_TRIES_H_
