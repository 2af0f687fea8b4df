#include "src/invoke/group/group_tries.h"

#include "src/invoke/client/call_starter.h"
#include "src/invoke/group/start_on_executor.h"

namespace invoker {

GroupTries::~GroupTries() {
  if (session_.has_value()) loads_->End(*session_);
}

absl::Status GroupTries::Start(const CallInput& input) {
  absl::Status status = CallStarter::CheckForAnyClient(input, tries_.options());
  if (!status.ok()) return status;
  input_.Keep(input, loads_->client(0), /*caller_keeps=*/false);
  return StartTry(input_.get());
}

absl::Status GroupTries::StartTry(const CallInput& input) {
  return StartOnExecutor(*loads_, *function_, tries_.options(),
                         [&](ExecutorLoads::Session session, const RemoteFunction& function,
                             const CallOptions& options) {
                           absl::StatusOr<Future> started =
                               CallStarter::Start(session.client(), function, input, options);
                           if (!started.ok()) return started.status();
                           session_ = session;
                           try_ = *std::move(started);
                           return absl::OkStatus();
                         });
}

void GroupTries::TryEnded(absl::StatusOr<Response> response) {
  const ExecutorLoads::Session session = *std::exchange(session_, std::nullopt);
  const absl::Status last = response.status();
  // Without a look at the client, which may have gone with the group.
  if (ShowsLostExecutor(last) && !absl::IsCancelled(last)) loads_->Lose(session, last);
  loads_->End(session);
  if (response.ok()) {
    result_ = std::move(response);
    return;
  }
  // The group may have gone.
  if (access_->Enter()) {
    const bool again = tries_.TakeNext(last, *loads_);
    const absl::Status status = again ? StartTry(input_.get()) : last;
    access_->Leave();
    if (!status.ok()) result_ = tries_.StatusAfter(status);
    return;
  }
  result_ = tries_.StatusAfter(last);
}

absl::StatusOr<Response> GroupTries::Get() {
  while (!result_.has_value()) TryEnded(try_->Get());
  return *std::move(result_);
}

bool GroupTries::Wait(absl::Duration limit) {
  const CallDeadline deadline(limit);
  while (!result_.has_value()) {
    if (!try_->Wait(deadline.left())) return false;
    TryEnded(try_->Get());
  }
  return true;
}

bool GroupTries::Cancel() {
  tries_.GiveUp();
  return !result_.has_value() && try_->Cancel();
}

}  // namespace invoker
