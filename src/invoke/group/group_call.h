// A call of a group whose result goes to a callback: its tries, one after the other.

#ifndef INVOKER_SRC_INVOKE_GROUP_GROUP_CALL_H_
#define INVOKER_SRC_INVOKE_GROUP_GROUP_CALL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "invoker/client.h"
#include "src/invoke/group/call_tries.h"
#include "src/invoke/group/deferred_calls.h"
#include "src/invoke/group/executor_loads.h"
#include "src/invoke/group/group_access.h"
#include "src/invoke/group/group_function_ids.h"
#include "src/invoke/session/driver/call_driver.h"

namespace invoker {

// Kept by the callback of its try, or by the thread that is to start the next one. Any thread may
// cancel it; all else is done by one thread at a time.
class GroupCall : public std::enable_shared_from_this<GroupCall> {
 public:
  // What a call uses of its group. `deferred` is the group's own, and used only by threads that
  // `access` has let in.
  struct Group {
    std::shared_ptr<ExecutorLoads> loads;
    std::shared_ptr<GroupAccess> access;
    DeferredCalls* deferred;
  };

  GroupCall(Group group, std::shared_ptr<const GroupFunctionIds> function,
            const CallOptions& options)
      : group_(std::move(group)), function_(std::move(function)), tries_(options) {}

  // The first try. Once. Blocks as Client::InvokeAsync does. After an error `done` has not been
  // taken, and is not called. Input that the caller keeps until the call has ended is not copied.
  absl::Status Start(const CallInput& input, bool caller_keeps_input, CallDone& done);

  // Future::Cancel.
  bool Cancel() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status StartTry(const CallInput& input, const CallOptions& options)
      ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t BeginTry(ExecutorLoads::Session session) ABSL_LOCKS_EXCLUDED(mutex_);
  void TryStarted(uint64_t event, std::shared_ptr<CallDriver> driver, const CallTicket& ticket)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void TryEnded(absl::StatusOr<Response> response) ABSL_LOCKS_EXCLUDED(mutex_);
  bool TakeNextTry(const absl::Status& last) ABSL_LOCKS_EXCLUDED(mutex_);
  void StartAgain();
  void StartAgainAndBlock();
  std::optional<absl::Status> StartIfThereIsRoom(bool delivers);
  bool cancelled() const ABSL_LOCKS_EXCLUDED(mutex_);
  void End(absl::StatusOr<Response> response) ABSL_LOCKS_EXCLUDED(mutex_);

  const Group group_;
  const std::shared_ptr<const GroupFunctionIds> function_;
  CallTries tries_;
  CallDone done_;
  KeptInput input_;  // for further tries
  bool uses_callers_memory_ = false;
  std::optional<ExecutorLoads::Session> session_;  // the latest try's

  mutable absl::Mutex mutex_;
  // Beginnings and ends of tries: tells the thread that has started one whether it still goes on.
  uint64_t events_ ABSL_GUARDED_BY(mutex_) = 0;
  // The try's under way, for Cancel; nullptr: there is none, or it is being started.
  std::shared_ptr<CallDriver> driver_ ABSL_GUARDED_BY(mutex_);
  CallTicket ticket_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;  // is not tried again
  // Cancel has returned true while no try was under way: the call ends as CANCELLED.
  bool ends_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_GROUP_GROUP_CALL_H_
