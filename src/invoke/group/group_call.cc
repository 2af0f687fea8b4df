#include "src/invoke/group/group_call.h"

#include "src/invoke/client/call_starter.h"
#include "src/invoke/connect/connection.h"
#include "src/invoke/group/start_on_executor.h"

namespace invoker {

absl::Status GroupCall::Start(const CallInput& input, bool caller_keeps_input, CallDone& done) {
  const CallOptions options = tries_.options();
  absl::Status status = CallStarter::CheckForAnyClient(input, options);
  if (!status.ok()) return status;
  done_ = std::move(done);
  const Client& any = group_.loads->client(0);
  input_.Keep(input, any, caller_keeps_input);
  uses_callers_memory_ = CallStarter::UsesCallersMemory(any, input, options);
  status = StartTry(input_.get(), options);
  if (!status.ok()) done = std::move(done_);
  return status;
}

absl::Status GroupCall::StartTry(const CallInput& input, const CallOptions& options) {
  return StartOnExecutor(
      *group_.loads, *function_, options,
      [&](ExecutorLoads::Session session, const RemoteFunction& function,
          const CallOptions& final_options) {
        const uint64_t event = BeginTry(session);
        std::shared_ptr<CallDriver> driver = session.client().connection().driver();
        CallTicket ticket;
        CallDone done = [call = shared_from_this()](absl::StatusOr<Response> response) {
          call->TryEnded(std::move(response));
        };
        absl::Status status =
            CallStarter::Start(session.client(), function, input, final_options, done, &ticket);
        if (status.ok()) TryStarted(event, std::move(driver), ticket);
        return status;
      });
}

uint64_t GroupCall::BeginTry(ExecutorLoads::Session session) {
  session_ = session;
  absl::MutexLock lock(&mutex_);
  return ++events_;
}

// The try may have ended already.
void GroupCall::TryStarted(uint64_t event, std::shared_ptr<CallDriver> driver,
                           const CallTicket& ticket) {
  {
    absl::MutexLock lock(&mutex_);
    if (event != events_) return;
    if (!cancelled_) {
      driver_ = std::move(driver);
      ticket_ = ticket;
      return;
    }
  }
  driver->Cancel(ticket);
}

void GroupCall::TryEnded(absl::StatusOr<Response> response) {
  if (!response.ok() && ShowsLostExecutor(session_->client(), response.status())) {
    group_.loads->Lose(*session_, response.status());
  }
  group_.loads->End(*session_);
  // The group may have gone.
  if (!response.ok() && group_.access->Enter()) {
    const bool again = TakeNextTry(response.status());
    if (again) StartAgain();
    group_.access->Leave();
    if (again) return;
  }
  End(std::move(response));
}

bool GroupCall::TakeNextTry(const absl::Status& last) {
  absl::MutexLock lock(&mutex_);
  if (cancelled_ || !tries_.TakeNext(last, *group_.loads)) return false;
  ++events_;
  driver_.reset();
  return true;
}

// On whichever thread has brought the news, which must not block.
void GroupCall::StartAgain() {
  if (uses_callers_memory_) {
    return group_.deferred->RunApart([call = shared_from_this()] { call->StartAgainAndBlock(); });
  }
  if (std::optional<absl::Status> status = StartIfThereIsRoom(/*delivers=*/true)) {
    if (!status->ok()) End(*std::move(status));
    return;
  }
  const bool waits = group_.deferred->Add([call = shared_from_this()] {
    std::optional<absl::Status> status = call->StartIfThereIsRoom(/*delivers=*/false);
    if (!status.has_value()) return false;
    if (!status->ok()) {
      call->group_.deferred->RunApart([call, status] { call->End(*status); });
    }
    return true;
  });
  if (waits) return;
  End(WithFate(absl::ResourceExhaustedError("the session's windows have no room now, and the "
                                            "system has no thread to wait for some"),
               CallFate::kNotSent));
}

// Registers memory, which takes a round trip.
void GroupCall::StartAgainAndBlock() {
  absl::Status status =
      WithFate(absl::CancelledError("the call was cancelled"), CallFate::kNotSent);
  if (!cancelled() && group_.access->Enter()) {
    status = StartTry(input_.get(), tries_.options());
    group_.access->Leave();
  }
  if (!status.ok()) End(std::move(status));
}

// Nothing if the call is to wait for room, and for that alone; if it cannot be started, why. A
// thread that `delivers` cannot tell whether there will be room: it may have to make some itself.
std::optional<absl::Status> GroupCall::StartIfThereIsRoom(bool delivers) {
  if (cancelled()) {
    return WithFate(absl::CancelledError("the call was cancelled"), CallFate::kNotSent);
  }
  if (tries_.late()) {
    return WithFate(
        absl::DeadlineExceededError("the deadline passed while the call waited for room in the "
                                    "session's windows"),
        CallFate::kNotSent);
  }
  CallOptions options = tries_.options();
  bool (*const interrupted)() = options.interrupted;
  // Asked when the call would have to wait.
  options.interrupted = [] { return true; };
  // Others' callbacks may wait for what this thread has yet to do.
  const CallDriver::CallbacksElsewhere elsewhere;
  absl::Status status = StartTry(input_.get(), options);
  if (status.ok()) return status;
  const bool full = absl::IsCancelled(status) || (delivers && absl::IsResourceExhausted(status));
  if (!full || (interrupted != nullptr && interrupted())) return status;
  if (group_.loads->left() > 0) return std::nullopt;
  // The wait was this function's own, and no reason to end.
  status = group_.loads->status();
  if (status.ok()) return std::nullopt;
  return WithFate(std::move(status), CallFate::kNotSent);
}

bool GroupCall::Cancel() {
  std::shared_ptr<CallDriver> driver;
  CallTicket ticket;
  {
    absl::MutexLock lock(&mutex_);
    if (ended_) return false;
    cancelled_ = true;
    // Between two tries: the thread that is to start the next one sees this.
    if (driver_ == nullptr) return ends_cancelled_ = true;
    driver = driver_;
    ticket = ticket_;
  }
  return driver->Cancel(ticket);
}

bool GroupCall::cancelled() const {
  absl::MutexLock lock(&mutex_);
  return cancelled_;
}

void GroupCall::End(absl::StatusOr<Response> response) {
  bool ends_cancelled;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    driver_.reset();
    ends_cancelled = ends_cancelled_;
  }
  if (ends_cancelled && !absl::IsCancelled(response.status())) {
    const CallFate fate = response.ok() ? CallFate::kExecuted : GetCallFate(response.status());
    response = WithFate(absl::CancelledError("the call was cancelled"), fate);
  }
  if (!response.ok()) response = tries_.StatusAfter(response.status());
  done_(std::move(response));
}

}  // namespace invoker
