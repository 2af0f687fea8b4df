#include "src/invoke/call_driver.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/invoke/client.h"

namespace invoker {
namespace {

// The clock is read once in so many turns.
constexpr uint32_t kTurnsPerClock = 64;

// A sleeper looks up at least this often, in case a call with an earlier deadline has been started
// meanwhile.
constexpr int64_t kLongestSleepNs = 5'000'000;

constexpr int64_t kForever = INT64_MAX;

// How long responses are looked for that a worker sent just before it ended the session.
constexpr int64_t kDeliveryNs = 10'000'000;

// How often a waiting thread asks whether it is to give up.
constexpr int64_t kInterruptCheckNs = 100'000'000;

// True on a thread that runs callbacks: what it still has to take or deliver itself it cannot wait
// for.
thread_local bool t_delivers = false;

}  // namespace

// Holds the turn lock for a scope.
class CallDriver::Turn {
 public:
  explicit Turn(TurnLock* lock) : lock_(lock) { lock_->Lock(); }
  ~Turn() { lock_->Unlock(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  TurnLock* lock_;
};

CallDriver::CallDriver(std::unique_ptr<transport::Reactor> reactor, absl::Duration hot_timeout)
    : reactor_(std::move(reactor)),
      hot_ns_(hot_timeout == absl::InfiniteDuration() ? kForever
                                                      : absl::ToInt64Nanoseconds(hot_timeout)) {}

CallDriver::~CallDriver() {
  Close();
  session_.reset();
  transport::Reactor::Dispose(std::move(reactor_), quiet_);
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
  Turn turn(&lock_);
  return session_->Attach(reply);
}

bootstrap::OpenSessionRequest CallDriver::MakeRequest(transport::Notification notification) {
  Turn turn(&lock_);
  return session_->MakeRequest(notification);
}

void CallDriver::SetNotification(transport::Notification notification) {
  Turn turn(&lock_);
  session_->SetNotification(notification);
}

absl::StatusOr<Response> CallDriver::Run(const ClientSession::Request& request) {
  // The client may be destroyed, which ends this call, before this thread has left.
  std::shared_ptr<CallDriver> self = shared_from_this();
  Turn turn(&lock_);
  absl::StatusOr<Call*> call = StartLocked(request);
  if (!call.ok()) return call.status();
  ++running_;
  int64_t next_check_ns =
      request.interrupted == nullptr ? kForever : transport::MonotonicNs() + kInterruptCheckNs;
  bool interrupted = false;
  while (!(*call)->ended() && !interrupted) {
    DriveOrWait(*call, next_check_ns);
    interrupted = !(*call)->ended() && Interrupted(request.interrupted, &next_check_ns);
  }
  --running_;
  // It may have ended while the lock was not held.
  if (!interrupted || (*call)->ended()) return Collect(*call, self);
  session_->Abandon(*call);
  if (!driven_) LeaveLocked();
  return WithFate(absl::CancelledError("the wait for the response was interrupted"),
                  CallFate::kMaybeExecuted);
}

absl::StatusOr<Call*> CallDriver::Start(const ClientSession::Request& request) {
  const std::shared_ptr<CallDriver> self = shared_from_this();
  Turn turn(&lock_);
  absl::StatusOr<Call*> call = StartLocked(request);
  if (call.ok() && !driven_) LeaveLocked();
  return call;
}

absl::Status CallDriver::StartWithCallback(const ClientSession::Request& request,
                                           CallDone& on_done) {
  const std::shared_ptr<CallDriver> self = shared_from_this();
  Turn turn(&lock_);
  absl::StatusOr<Call*> call = StartLocked(request);
  if (!call.ok()) return call.status();
  (*call)->on_done = std::move(on_done);
  if (!driven_) LeaveLocked();
  return absl::OkStatus();
}

absl::StatusOr<Response> CallDriver::Await(Call* call) {
  std::shared_ptr<CallDriver> self = shared_from_this();
  Turn turn(&lock_);
  ++running_;
  while (!call->ended()) DriveOrWait(call, kForever);
  --running_;
  return Collect(call, self);
}

bool CallDriver::AwaitEnd(Call* call, int64_t deadline_ns) {
  Turn turn(&lock_);
  while (!call->ended() && transport::MonotonicNs() < deadline_ns) DriveOrWait(call, deadline_ns);
  // The driver's role may have been left to this thread just as its time ran out.
  if (!driven_) LeaveLocked();
  return call->ended();
}

void CallDriver::Drop(Call* call) {
  Turn turn(&lock_);
  session_->Abandon(call);
  if (!driven_) LeaveLocked();
}

// Queues and posts the request, and waits for cells as long as they can still come.
absl::StatusOr<Call*> CallDriver::StartLocked(const ClientSession::Request& request) {
  int64_t next_check_ns = request.interrupted == nullptr ? kForever : 0;
  while (true) {
    // Every time: another thread may have taken the buffer while this one waited for room.
    if (request.buffer_busy != nullptr && *request.buffer_busy) {
      return WithFate(absl::FailedPreconditionError(
                          "the buffer is in use by a call that has not been answered yet"),
                      CallFate::kNotSent);
    }
    if (!session_->failure().ok()) return WithFate(session_->failure(), CallFate::kNotSent);
    Call* call = session_->Start(request);
    if (call != nullptr) {
      // Others wait for the lock, perhaps to start calls of their own: a driver that polls posts
      // ours along with theirs.
      if (!lock_.Contended() || !driven_ || asleep_) session_->Flush();
      return call;
    }
    if (session_->outstanding() == 0 && PollForRoomLocked()) continue;
    if (request.when_full == WhenFull::kFail) {
      return WithFate(absl::ResourceExhaustedError("the session's windows have no room now"),
                      CallFate::kNotSent);
    }
    if (session_->outstanding() == 0 && !MayBeReleasedLocked(request.when_full)) {
      return WithFate(
          absl::ResourceExhaustedError(
              "the session's windows are full of responses and buffers that the program still "
              "holds, or of calls that timed out and have not been answered; release some, ask for "
              "smaller responses, or start the server with a larger --window"),
          CallFate::kNotSent);
    }
    if (request.deadline_ns != 0 && transport::MonotonicNs() >= request.deadline_ns) {
      return WithFate(absl::DeadlineExceededError(
                          "the deadline passed while the call waited for room in the session's "
                          "windows"),
                      CallFate::kNotSent);
    }
    if (Interrupted(request.interrupted, &next_check_ns)) {
      return WithFate(
          absl::CancelledError("the wait for room in the session's windows was interrupted"),
          CallFate::kNotSent);
    }
    const int64_t limit_ns =
        std::min(next_check_ns, request.deadline_ns == 0 ? kForever : request.deadline_ns);
    if (session_->outstanding() == 0) {
      WaitForRoomLocked(limit_ns);
    } else {
      DriveOrWait(nullptr, limit_ns);
    }
  }
}

// With no call under way nobody drives, so what is late to answer a call that timed out has not
// been noticed. True if something came.
bool CallDriver::PollForRoomLocked() {
  if (driven_ || reactor_->Poll() == 0) return false;
  RunFinishedLocked();
  return true;
}

// Whether cells can become free though no call is under way.
bool CallDriver::MayBeReleasedLocked(WhenFull when_full) const {
  return (when_full == WhenFull::kWaitForResponses && held_responses_ > 0) ||
         (running_ + delivering_ > 0 && !t_delivers);
}

void CallDriver::WaitForRoomLocked(int64_t deadline_ns) {
  CallWaiter waiter;
  session_->AddRoomWaiter(&waiter);
  lock_.Unlock();
  const int64_t left_ns = deadline_ns - transport::MonotonicNs();
  waiter.Wait(absl::Nanoseconds(std::clamp<int64_t>(left_ns, 0, kLongestSleepNs)));
  lock_.Lock();
  session_->RemoveRoomWaiter(&waiter);
}

// Asks, if it is time to, whether the caller is to give up.
bool CallDriver::Interrupted(bool (*interrupted)(), int64_t* next_check_ns) {
  if (interrupted == nullptr || transport::MonotonicNs() < *next_check_ns) return false;
  lock_.Unlock();
  const bool result = interrupted();
  lock_.Lock();
  *next_check_ns = transport::MonotonicNs() + kInterruptCheckNs;
  return result;
}

// Takes `self` only into a response.
absl::StatusOr<Response> CallDriver::Collect(Call* call, std::shared_ptr<CallDriver>& self) {
  if (!call->status.ok()) {
    absl::Status status = std::move(call->status);
    call->status = absl::OkStatus();
    session_->Finish(call, false);
    return status;
  }
  const HeldCells cells = call->response;
  Response response(std::move(self), cells, session_->Payload(*call));
  session_->Finish(call, true);
  ++held_responses_;
  return response;
}

// Returns when the call has ended (with no call: when there may be room), at the deadline, or
// early: the caller checks and comes again.
void CallDriver::DriveOrWait(Call* call, int64_t deadline_ns) {
  if (!driven_) {
    DriveWhile(call, deadline_ns);
    LeaveLocked();
    RunFinishedLocked();
    return;
  }
  CallWaiter waiter;
  if (call != nullptr) {
    call->waiter = &waiter;
  } else {
    session_->AddRoomWaiter(&waiter);
  }
  waiters_.push_back(&waiter);
  lock_.Unlock();
  const int64_t now_ns = transport::MonotonicNs();
  const int64_t limit_ns = std::clamp<int64_t>(deadline_ns - now_ns, 0, kLongestSleepNs);
  waiter.Wait(absl::Nanoseconds(limit_ns));
  lock_.Lock();
  waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &waiter));
  if (call != nullptr) {
    call->waiter = nullptr;
  } else {
    session_->RemoveRoomWaiter(&waiter);
  }
  // The driver may have left the role to this thread just as its call ended.
  if (!driven_ && (call == nullptr || call->ended())) LeaveLocked();
}

// Takes the driver's role until the call has ended (with no call: until a call or a cell comes or
// goes, or there is nothing to drive for), the deadline has passed, or callbacks are due.
void CallDriver::DriveWhile(const Call* call, int64_t deadline_ns) {
  driven_ = true;
  const uint64_t changes = session_->changes();
  int64_t idle_since_ns = 0;  // 0: not known to be idle
  uint32_t turns = 0;
  while (call != nullptr ? !call->ended() : session_->changes() == changes && NeedsDriverLocked()) {
    const int events = reactor_->Poll();
    session_->Flush();
    if (!session_->finished().empty()) break;
    if (lock_.Contended()) lock_.Yield();
    if (events > 0) idle_since_ns = 0;
    if (++turns % kTurnsPerClock != 0) continue;
    const int64_t now_ns = transport::MonotonicNs();
    if (now_ns >= deadline_ns) break;
    if (call == nullptr && !waiters_.empty()) break;
    if (idle_since_ns == 0) idle_since_ns = now_ns;
    if (now_ns - idle_since_ns >= hot_ns_) SleepLocked(deadline_ns);
  }
  // What was left to this driver to post.
  session_->Flush();
  driven_ = false;
}

bool CallDriver::NeedsDriverLocked() const {
  return session_->outstanding() > 0 || session_->sending();
}

void CallDriver::SleepLocked(int64_t deadline_ns) {
  const bool armed = reactor_->Arm();
  if (armed) {
    const int64_t left_ns = deadline_ns - transport::MonotonicNs();
    asleep_ = true;
    lock_.Unlock();
    reactor_->Sleep(absl::Nanoseconds(std::clamp<int64_t>(left_ns, 0, kLongestSleepNs)));
    lock_.Lock();
    asleep_ = false;
  }
  reactor_->Disarm();
}

// Nobody drives: wakes a successor, if there is anything to drive for.
void CallDriver::LeaveLocked() {
  if (!waiters_.empty()) {
    waiters_.front()->Wake();
  } else if (NeedsDriverLocked() && !helper_stop_) {
    if (!helper_.joinable()) helper_ = std::thread([this] { HelperMain(); });
    helper_waiter_.Wake();
  }
}

// Runs the callbacks of calls that have ended, without the lock, so that they may make calls
// themselves. Not for a driver.
void CallDriver::RunFinishedLocked() {
  if (session_->finished().empty()) return;
  std::vector<Call*> finished;
  finished.swap(session_->finished());
  std::vector<std::pair<CallDone, absl::StatusOr<Response>>> results;
  results.reserve(finished.size());
  for (Call* call : finished) {
    CallDone on_done = std::move(call->on_done);
    std::shared_ptr<CallDriver> self = shared_from_this();
    results.emplace_back(std::move(on_done), Collect(call, self));
  }
  ++delivering_;
  lock_.Unlock();
  const bool delivered_before = std::exchange(t_delivers, true);
  for (auto& [on_done, result] : results) on_done(std::move(result));
  results.clear();
  t_delivers = delivered_before;
  lock_.Lock();
  --delivering_;
}

void CallDriver::HelperMain() {
  while (true) {
    helper_waiter_.Wait(absl::InfiniteDuration());
    Turn turn(&lock_);
    while (!helper_stop_ && !driven_ && waiters_.empty() && NeedsDriverLocked()) {
      DriveWhile(nullptr, kForever);
      RunFinishedLocked();
    }
    if (helper_stop_) return;
    if (!driven_ && !waiters_.empty()) LeaveLocked();
  }
}

absl::StatusOr<HeldCells> CallDriver::AllocateBuffer(uint64_t bytes) {
  Turn turn(&lock_);
  const HeldCells cells = session_->AllocateRequestCells(bytes);
  if (cells.cells == 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no ", bytes, " adjacent bytes are free in the session's request window of ",
                     geometry().window_bytes(),
                     " bytes; release buffers, or start the server with a larger --window"));
  }
  return cells;
}

void CallDriver::FreeBuffer(HeldCells cells, const bool* busy) {
  Turn turn(&lock_);
  session_->ReleaseBuffer(cells, busy);
}

void CallDriver::FreeResponse(HeldCells cells) {
  Turn turn(&lock_);
  --held_responses_;
  session_->FreeResponseCells(cells);
}

void CallDriver::FailAfterDelivery(const absl::Status& reason) {
  {
    Turn turn(&lock_);
    const int64_t limit_ns = transport::MonotonicNs() + kDeliveryNs;
    while (session_->outstanding() > 0 && transport::MonotonicNs() < limit_ns) reactor_->Poll();
  }
  Fail(reason);
}

void CallDriver::Fail(const absl::Status& reason) {
  lock_.Lock();
  // Answers to these may be under way.
  if (!session_->answered() || reactor_->operations().outstanding() > 0) quiet_ = false;
  session_->Fail(reason);
  RunFinishedLocked();
  for (CallWaiter* waiter : waiters_) waiter->Wake();
  lock_.Unlock();
  // The driver may sleep.
  reactor_->Submit([] {});
}

absl::Status CallDriver::status() {
  Turn turn(&lock_);
  return session_->failure();
}

void CallDriver::Close() {
  if (session_ == nullptr) return;
  Fail(absl::CancelledError("the client has been closed"));
  {
    Turn turn(&lock_);
    helper_stop_ = true;
  }
  helper_waiter_.Wake();
  if (helper_.joinable()) helper_.join();
}

}  // namespace invoker
