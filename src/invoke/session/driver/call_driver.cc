#include "src/invoke/session/driver/call_driver.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "invoker/call_fate.h"
#include "invoker/client_options.h"
#include "src/transport/base/shared_files.h"

namespace invoker {
namespace {

// How long AllocateBuffer waits for the cells of a probe that was given up.
constexpr int64_t kProbeLimitNs = 1'000'000'000;

// FailAfterDelivery polls that long at least, even behind its deadline.
constexpr int64_t kLeastDeliveryNs = 1'000'000;

// How often a waiting thread asks whether it is to give up.
constexpr int64_t kInterruptCheckNs = 100'000'000;

uint64_t NextSessionNumber() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

void ReleaseResponse(CallDriver* driver, HeldCells cells) { driver->FreeResponse(cells); }
uint64_t SessionOf(const CallDriver* driver) { return driver->session(); }

// Holds the turn lock for a scope, and keeps the driver that long: the client, and with it its
// share of the driver, may go while a thread is inside.
class ABSL_SCOPED_LOCKABLE CallDriver::Visit {
 public:
  explicit Visit(CallDriver* driver)
      ABSL_EXCLUSIVE_LOCK_FUNCTION(driver->lock_) ABSL_NO_THREAD_SAFETY_ANALYSIS : driver_(driver) {
    driver_->lock_.Lock();
    driver_->life_.Add();
  }
  ~Visit() ABSL_UNLOCK_FUNCTION() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    driver_->life_.Remove();
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
                                                      : absl::ToInt64Nanoseconds(hot_timeout)),
      number_(NextSessionNumber()) {}

CallDriver::~CallDriver() {
  Close();
  if (session_ != nullptr && !lent_.quiet() && !reactor_->endpoint_quarantined()) {
    session_->PostQuiesceWrite();
  }
  session_.reset();
  transport::Reactor::Close(std::move(reactor_), lent_.quiet());
}

void CallDriver::UnlockClosed() {
  const std::shared_ptr<const void> last = life_.TakeShare();
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
  life_.Begin(shared_from_this());
  // The executor, which is the only peer, has them open by now. So they do not stay where a signal
  // ends the process.
  transport::RemoveFilesBeside(reactor_->address());
  return session_->Attach(reply);
}

bootstrap::OpenSessionRequest CallDriver::MakeRequest(Notification notification) {
  Visit visit(this);
  return session_->MakeRequest(notification);
}

void CallDriver::SetNotification(Notification notification) {
  Visit visit(this);
  session_->SetNotification(notification);
}

void CallDriver::HoldFailures(absl::Duration hold) {
  Visit visit(this);
  session_->HoldFailures(absl::ToInt64Nanoseconds(hold));
}

void CallDriver::ChooseMethod(std::optional<uint64_t> pieces_up_to) {
  Visit visit(this);
  trials_.Choose(session_.get(), *reactor_, pieces_up_to);
}

uint64_t CallDriver::pieces_up_to() {
  Visit visit(this);
  return session_->pieces_up_to();
}

uint64_t CallDriver::method_trials() {
  Visit visit(this);
  return trials_.trials();
}

SessionCounts CallDriver::Counts() {
  Visit visit(this);
  SessionCounts counts;
  counts.dropped = session_->dropped();
  session_->meters().ForEach([&counts](uint16_t id, const bootstrap::FunctionCounts& function) {
    counts.functions.emplace_back(id, function);
  });
  return counts;
}

uint32_t CallDriver::outstanding() {
  Visit visit(this);
  return session_->outstanding();
}

absl::Status CallDriver::status() {
  Visit visit(this);
  return session_->failure();
}

// Calls: their start, their results.

absl::StatusOr<Response> CallDriver::Run(const ClientSession::Request& request) {
  Visit visit(this);
  absl::Status why_not;
  Call* call = StartLocked(request, /*may_wait_for_others=*/false, &why_not);
  if (ABSL_PREDICT_FALSE(call == nullptr)) return why_not;
  ++running_;
  int64_t next_check_ns = NextCheck(request.interrupted);
  bool interrupted = false;
  while (!call->ended() && !interrupted) {
    DriveOrWaitLocked(call, next_check_ns);
    interrupted = !call->ended() && InterruptedLocked(request.interrupted, &next_check_ns);
  }
  --running_;
  // It may have ended while the lock was not held.
  if (interrupted && !call->ended()) {
    session_->EndEarly(call, absl::StatusCode::kCancelled, "the call was interrupted");
    HandOnLocked();
  }
  return CollectLocked(call);
}

absl::StatusOr<Call*> CallDriver::Start(const ClientSession::Request& request) {
  Visit visit(this);
  absl::Status why_not;
  Call* call = StartLocked(request, /*may_wait_for_others=*/true, &why_not);
  if (ABSL_PREDICT_FALSE(call == nullptr)) return why_not;
  life_.Add();
  helper_.CallStarted();
  HandOnLocked();
  return call;
}

absl::Status CallDriver::StartWithCallback(const ClientSession::Request& request, CallDone& on_done,
                                           CallTicket* ticket, bool comes_back) {
  Visit visit(this);
  absl::Status why_not;
  Call* call = StartLocked(request, /*may_wait_for_others=*/true, &why_not);
  if (ABSL_PREDICT_FALSE(call == nullptr)) return why_not;
  call->on_done = std::move(on_done);
  if (ticket != nullptr) *ticket = {call, call->sequence};
  helper_.CallbackStarted();
  if (!role_.taken()) {
    if (!comes_back) helper_.Lead();
    HandOnLocked();
  }
  return absl::OkStatus();
}

void CallDriver::LeaveToHelper() {
  Visit visit(this);
  if (role_.taken()) return;
  helper_.Lead();
  HandOnLocked();
}

void CallDriver::DriveForCallbacks(absl::FunctionRef<bool()> done, int64_t deadline_ns) {
  Visit visit(this);
  const bool in_haste =
      deadline_ns != kForever && deadline_ns - transport::MonotonicNs() < kHasteNs;
  while (!done() && session_->needs_turns() &&
         (deadline_ns == kForever || transport::MonotonicNs() < deadline_ns)) {
    if (in_haste) {
      DriveOrWaitLocked</*kTurns=*/1>(nullptr, deadline_ns);
    } else {
      DriveOrWaitLocked(nullptr, deadline_ns);
    }
  }
  // The driver's role may have been left to this thread.
  HandOnLocked();
}

absl::StatusOr<Response> CallDriver::Await(Call* call) {
  Visit visit(this);
  ++running_;
  while (!call->ended()) DriveOrWaitLocked(call, kForever);
  --running_;
  life_.Remove();
  return CollectLocked(call);
}

bool CallDriver::AwaitEnd(Call* call, int64_t deadline_ns) {
  Visit visit(this);
  ++running_;
  while (!call->ended()) {
    if (transport::MonotonicNs() >= deadline_ns) {
      LookLocked();
      break;
    }
    DriveOrWaitLocked(call, deadline_ns);
  }
  --running_;
  // The driver's role may have been left to this thread just as its time ran out.
  HandOnLocked();
  return call->ended();
}

void CallDriver::Drop(Call* call) {
  Visit visit(this);
  life_.Remove();
  session_->Retire(call);
  HandOnLocked();
}

bool CallDriver::Cancel(Call* call) {
  Visit visit(this);
  return CancelLocked(call);
}

bool CallDriver::Cancel(const CallTicket& ticket) {
  Visit visit(this);
  return ticket.Is(Call::State::kOutstanding) && CancelLocked(ticket.call);
}

bool CallDriver::CancelLocked(Call* call) {
  if (call->ended()) return false;
  session_->EndEarly(call, absl::StatusCode::kCancelled, "the call was cancelled");
  RunCallbacksLocked();
  HandOnLocked();
  return true;
}

absl::StatusOr<Response> CallDriver::CollectLocked(Call* call) {
  if (ABSL_PREDICT_FALSE(!call->status.ok())) {
    absl::Status status = std::move(call->status);
    call->status = absl::OkStatus();
    session_->Finish(call, false);
    return status;
  }
  const HeldCells cells = call->response;
  const absl::Span<const std::byte> payload = session_->Payload(*call);
  session_->Finish(call, true);
  life_.AddResponse();
  return Response(this, cells, payload);
}

int64_t CallDriver::NextCheckAfterNow() { return transport::MonotonicNs() + kInterruptCheckNs; }

bool CallDriver::InterruptedLocked(bool (*interrupted)(), int64_t* next_check_ns) {
  if (interrupted == nullptr || transport::MonotonicNs() < *next_check_ns) return false;
  lock_.Unlock();
  const bool result = interrupted();
  lock_.Lock();
  *next_check_ns = NextCheckAfterNow();
  return result;
}

// Memory: cells of the windows, and memory of the program's own.

absl::StatusOr<HeldCells> CallDriver::AllocateBuffer(uint64_t bytes) {
  Visit visit(this);
  HeldCells cells = session_->AllocateRequestCells(bytes);
  const int64_t limit_ns = cells.cells == 0 ? transport::MonotonicNs() + kProbeLimitNs : 0;
  while (cells.cells == 0 && trials_.ProbeHoldsRoom() && session_->failure().ok() &&
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
  life_.RemoveResponse();
  session_->FreeResponseCells(cells);
  UnlockAndMayEnd();
}

absl::StatusOr<transport::MemoryRegion> CallDriver::RegisterMemory(transport::HostBuffer buffer,
                                                                   transport::RegionUse use) {
  // Takes long. Other calls' deadlines and the lease's heartbeats may wait for the lock.
  transport::MemoryRegion::Prepare(reactor_->profile(), buffer, use);
  lock_.Lock();
  absl::StatusOr<transport::MemoryRegion> region = reactor_->Register(std::move(buffer), use);
  lock_.Unlock();
  return region;
}

void CallDriver::CloseMemory(transport::MemoryRegion region) {
  lock_.Lock();
  if (session_->failed_with_buffers()) {
    // Only a driver may sleep on the reactor. All calls have ended, so another driver leaves.
    reactor_->Submit([] {});
    while (!role_.TryTake()) WaitLocked(nullptr, kForever);
    if (!lent_.settled(*reactor_)) lent_.Settle(session_.get(), reactor_.get());
    role_.Leave();
    HandOnLocked();
  }
  std::move(region).Close();
  lock_.Unlock();
}

void CallDriver::RunLocked(absl::FunctionRef<void()> task) {
  lock_.Lock();
  task();
  lock_.Unlock();
}

void CallDriver::LetTransfersEnd() {
  lock_.Lock();
  LentMemory::LetTransfersEnd(reactor_.get());
  lock_.Unlock();
}

bool CallDriver::DriveUntil(absl::FunctionRef<bool()> done, int64_t deadline_ns) {
  lock_.Lock();
  while (!done() && session_->failure().ok() && transport::MonotonicNs() < deadline_ns) {
    if (!role_.TryTake()) {
      WaitLocked(nullptr, deadline_ns);
      continue;
    }
    const int events = session_->Turn();
    if (lock_.Contended()) lock_.Yield();
    if (events == 0 && !done()) SleepLocked(deadline_ns);
    role_.Leave();
    if (callbacks_due_locked() && !delivery_.RunsHere()) RunCallbacksLocked();
  }
  const bool result = done();
  HandOnLocked();
  lock_.Unlock();
  return result;
}

// The end of the session.

void CallDriver::Fail(const absl::Status& reason) {
  lock_.Lock();
  lent_.SessionFails(*session_, *reactor_);
  session_->Fail(reason);
  role_.WakeAll();
  LeaveCallbacksToHelperLocked();
  lock_.Unlock();
  // The driver may sleep.
  reactor_->Submit([] {});
}

void CallDriver::FailAfterDelivery(const absl::Status& reason, int64_t deadline_ns) {
  {
    Visit visit(this);
    session_->TakeNoMore(reason);
    const int64_t limit_ns = std::max(deadline_ns, transport::MonotonicNs() + kLeastDeliveryNs);
    while (session_->outstanding() > 0 && session_->failure().ok() &&
           transport::MonotonicNs() < limit_ns) {
      reactor_->Poll();
      if (lock_.Contended()) lock_.Yield();
    }
  }
  Fail(reason);
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
      session_->Turn();
    }
    view = session_->ViewPath(known_answers);
    HandOnLocked();
    LeaveCallbacksToHelperLocked();
  }
  // For a driver that sleeps, in case a call has ended.
  if (view.answers != known_answers) reactor_->Submit([] {});
  return view;
}

void CallDriver::Close() {
  if (session_ == nullptr) return;
  Fail(absl::CancelledError("the client has been closed"));
  {
    Visit visit(this);
    helper_.Stop();
  }
  helper_.Join();
  lock_.Lock();
  // Callbacks that the helper has not come to, and those that other threads run.
  RunCallbacksLocked();
  while (delivery_.AwaitOthers(lock_)) RunCallbacksLocked();
  life_.Close();
  UnlockAndMayEnd();
}

}  // namespace invoker
