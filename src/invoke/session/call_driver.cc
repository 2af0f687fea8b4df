#include "src/invoke/session/call_driver.h"

#include <algorithm>
#include <utility>

namespace invoker {
namespace {

// So long a buffer waits for the cells of a probe that was given up.
constexpr int64_t kProbeLimitNs = 1'000'000'000;

// Even behind its deadline, a session looks that long for what has come.
constexpr int64_t kLeastDeliveryNs = 1'000'000;

}  // namespace

void ReleaseResponse(CallDriver* driver, HeldCells cells) { driver->FreeResponse(cells); }

// Holds the turn lock for a scope, and keeps the driver that long: the client, and with it its
// share of the driver, may go while a thread is inside.
class CallDriver::Visit {
 public:
  explicit Visit(CallDriver* driver) : driver_(driver) {
    driver_->lock_.Lock();
    ++driver_->inside_;
  }
  ~Visit() {
    --driver_->inside_;
    driver_->UnlockAndMayEnd();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  CallDriver* driver_;
};

CallDriver::CallDriver(std::unique_ptr<transport::Reactor> reactor, absl::Duration hot_timeout)
    : reactor_(std::move(reactor)),
      hot_ns_(hot_timeout == absl::InfiniteDuration() ? kForever
                                                      : absl::ToInt64Nanoseconds(hot_timeout)) {}

CallDriver::~CallDriver() {
  Close();
  if (session_ != nullptr && !quiet_ && !reactor_->abandoned()) session_->PostQuiesceWrite();
  session_.reset();
  transport::Reactor::Dispose(std::move(reactor_), quiet_);
}

void CallDriver::UnlockClosed() {
  std::shared_ptr<CallDriver> last;
  if (inside_ + held_responses_ + held_calls_ == 0) last = std::move(self_);
  lock_.Unlock();
}

absl::Status CallDriver::Prepare(const ClientSession::Options& options) {
  absl::StatusOr<std::unique_ptr<ClientSession>> session =
      ClientSession::Create(reactor_.get(), options);
  if (!session.ok()) return session.status();
  session_ = *std::move(session);
  reactor_->set_handler(session_.get());
  return absl::OkStatus();
}

absl::Status CallDriver::Attach(const bootstrap::OpenSessionReply& reply) {
  Visit visit(this);
  self_ = shared_from_this();
  return session_->Attach(reply);
}

bootstrap::OpenSessionRequest CallDriver::MakeRequest(transport::Notification notification) {
  Visit visit(this);
  return session_->MakeRequest(notification);
}

void CallDriver::SetNotification(transport::Notification notification) {
  Visit visit(this);
  session_->SetNotification(notification);
}

void CallDriver::HoldFailures(absl::Duration hold) {
  Visit visit(this);
  session_->HoldFailures(absl::ToInt64Nanoseconds(hold));
}

void CallDriver::ChooseMethod(std::optional<uint64_t> pieces_up_to) {
  Visit visit(this);
  ChooseMethodLocked(pieces_up_to);
}

uint64_t CallDriver::pieces_up_to() {
  Visit visit(this);
  return session_->pieces_up_to();
}

uint64_t CallDriver::method_trials() {
  Visit visit(this);
  return method_trials_;
}

absl::StatusOr<Response> CallDriver::Collect(Call* call) {
  if (ABSL_PREDICT_FALSE(!call->status.ok())) {
    absl::Status status = std::move(call->status);
    call->status = absl::OkStatus();
    session_->Finish(call, false);
    return status;
  }
  const HeldCells cells = call->response;
  const absl::Span<const std::byte> payload = session_->Payload(*call);
  session_->Finish(call, true);
  ++held_responses_;
  return Response(this, cells, payload);
}

absl::StatusOr<Response> CallDriver::Run(const ClientSession::Request& request) {
  Visit visit(this);
  absl::Status why_not;
  Call* call = StartLocked(request, /*may_wait_for_others=*/false, &why_not);
  if (ABSL_PREDICT_FALSE(call == nullptr)) return why_not;
  ++running_;
  int64_t next_check_ns = NextCheck(request.interrupted);
  bool interrupted = false;
  while (!call->ended() && !interrupted) {
    DriveOrWait(call, next_check_ns);
    interrupted = !call->ended() && Interrupted(request.interrupted, &next_check_ns);
  }
  --running_;
  // It may have ended while the lock was not held.
  if (interrupted && !call->ended()) {
    session_->EndEarly(call, absl::StatusCode::kCancelled, "the call was interrupted");
    if (!driven_) LeaveLocked();
  }
  return Collect(call);
}

bool CallDriver::CancelLocked(Call* call) {
  if (call->ended()) return false;
  session_->EndEarly(call, absl::StatusCode::kCancelled, "the call was cancelled");
  RunFinishedLocked();
  if (!driven_) LeaveLocked();
  return true;
}

bool CallDriver::Cancel(Call* call) {
  Visit visit(this);
  return CancelLocked(call);
}

bool CallDriver::Cancel(const CallTicket& ticket) {
  Visit visit(this);
  return ticket.Is(Call::State::kOutstanding) && CancelLocked(ticket.call);
}

absl::StatusOr<Call*> CallDriver::Start(const ClientSession::Request& request) {
  Visit visit(this);
  absl::Status why_not;
  Call* call = StartLocked(request, /*may_wait_for_others=*/true, &why_not);
  if (ABSL_PREDICT_FALSE(call == nullptr)) return why_not;
  ++held_calls_;
  ++asynchronous_;
  if (!driven_) LeaveLocked();
  return call;
}

absl::Status CallDriver::StartWithCallback(const ClientSession::Request& request, CallDone& on_done,
                                           CallTicket* ticket) {
  Visit visit(this);
  absl::Status why_not;
  Call* call = StartLocked(request, /*may_wait_for_others=*/true, &why_not);
  if (ABSL_PREDICT_FALSE(call == nullptr)) return why_not;
  call->on_done = std::move(on_done);
  if (ticket != nullptr) *ticket = {call, call->sequence};
  ++asynchronous_;
  if (!driven_) {
    // No thread is going to wait for it.
    helper_leads_ = true;
    LeaveLocked();
  }
  return absl::OkStatus();
}

absl::StatusOr<Response> CallDriver::Await(Call* call) {
  Visit visit(this);
  ++running_;
  while (!call->ended()) DriveOrWait(call, kForever);
  --running_;
  --held_calls_;
  return Collect(call);
}

bool CallDriver::AwaitEnd(Call* call, int64_t deadline_ns) {
  Visit visit(this);
  ++running_;
  while (!call->ended() && transport::MonotonicNs() < deadline_ns) DriveOrWait(call, deadline_ns);
  --running_;
  // The driver's role may have been left to this thread just as its time ran out.
  if (!driven_) LeaveLocked();
  return call->ended();
}

void CallDriver::Drop(Call* call) {
  Visit visit(this);
  --held_calls_;
  session_->Abandon(call);
  if (!driven_) LeaveLocked();
}

absl::StatusOr<HeldCells> CallDriver::AllocateBuffer(uint64_t bytes) {
  Visit visit(this);
  HeldCells cells = session_->AllocateRequestCells(bytes);
  // The program knows nothing of a probe.
  const int64_t limit_ns = cells.cells == 0 ? transport::MonotonicNs() + kProbeLimitNs : 0;
  while (cells.cells == 0 && ProbeHoldsRoomLocked() && session_->failure().ok() &&
         transport::MonotonicNs() < limit_ns) {
    if (!PollForRoomLocked()) WaitForRoomLocked(limit_ns);
    cells = session_->AllocateRequestCells(bytes);
  }
  if (cells.cells == 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no ", bytes, " adjacent bytes are free in the session's request window of ",
                     geometry().window_bytes(),
                     " bytes; release buffers, or start the server with a larger --window"));
  }
  return cells;
}

void CallDriver::FreeBuffer(HeldCells cells, const bool* busy) {
  Visit visit(this);
  session_->ReleaseBuffer(cells, busy);
}

void CallDriver::FreeResponse(HeldCells cells) {
  lock_.Lock();
  --held_responses_;
  session_->FreeResponseCells(cells);
  UnlockAndMayEnd();
}

void CallDriver::FailAfterDelivery(const absl::Status& reason, int64_t deadline_ns) {
  {
    Visit visit(this);
    const int64_t limit_ns = std::max(deadline_ns, transport::MonotonicNs() + kLeastDeliveryNs);
    while (session_->outstanding() > 0 && transport::MonotonicNs() < limit_ns) reactor_->Poll();
  }
  Fail(reason);
}

void CallDriver::Fail(const absl::Status& reason) {
  lock_.Lock();
  // Answers to these may be under way.
  if (!session_->answered() || reactor_->operations().outstanding() > 0) quiet_ = false;
  session_->Fail(reason);
  for (CallWaiter* waiter : waiters_) waiter->Wake();
  LeaveCallbacksToHelperLocked();
  lock_.Unlock();
  // The driver may sleep.
  reactor_->Submit([] {});
}

PathView CallDriver::ViewPath(uint64_t known_answers) {
  Visit visit(this);
  return session_->ViewPath(known_answers);
}

PathView CallDriver::ViewPathAfterTurns(uint64_t known_answers) {
  constexpr int kTurns = 256;
  PathView view;
  {
    Visit visit(this);
    view = session_->ViewPath(known_answers);
    if (!view.under_way || view.answers != known_answers) return view;
    const uint64_t until = reactor_->counters().turns + kTurns;
    while (reactor_->counters().turns < until && session_->answers() == known_answers) {
      session_->Flush();
      reactor_->Poll();
    }
    view = session_->ViewPath(known_answers);
    if (!driven_) LeaveLocked();
    LeaveCallbacksToHelperLocked();
  }
  // For a driver that sleeps, in case a call has ended.
  if (view.answers != known_answers) reactor_->Submit([] {});
  return view;
}

absl::Status CallDriver::status() {
  Visit visit(this);
  return session_->failure();
}

void CallDriver::Close() {
  if (session_ == nullptr) return;
  Fail(absl::CancelledError("the client has been closed"));
  {
    Visit visit(this);
    helper_stop_ = true;
  }
  helper_waiter_.Wake();
  if (helper_.joinable()) helper_.join();
  lock_.Lock();
  // What the helper has not come to, and what other threads are at.
  RunFinishedLocked();
  CallWaiter waiter;
  closer_ = &waiter;
  while (delivering_ > 0 && !DeliversHere()) {
    lock_.Unlock();
    waiter.Wait(absl::InfiniteDuration());
    lock_.Lock();
    RunFinishedLocked();
  }
  closer_ = nullptr;
  closed_ = true;
  UnlockAndMayEnd();
}

}  // namespace invoker
