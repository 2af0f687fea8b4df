// Lets any number of threads share one client session.
//
// A thread that waits for a call drives the session itself, so that a blocking call has no
// hand-over between threads. There is one driver at a time. Others sleep until their call has ended
// or the driver leaves. A helper thread drives only while asynchronous calls are under way and no
// thread waits.
//
// How a result comes back: the driver calls ClientSession::Turn, which polls the reactor. The
// reactor calls up into the session (OnToken, OnTick), which ends calls. After the turn, the driver
// looks whether its own call has ended, and takes its result in Collect. A waiter is woken when its
// call ends, and collects as well. Callbacks are in ClientSession::finished, and run after the
// turn.

#ifndef INVOKER_SRC_INVOKE_SESSION_DRIVER_CALL_DRIVER_H_
#define INVOKER_SRC_INVOKE_SESSION_DRIVER_CALL_DRIVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/invoke/session/client_session.h"
#include "src/invoke/session/driver/callback_delivery.h"
#include "src/invoke/session/driver/driver_role.h"
#include "src/invoke/session/driver/flush_policy.h"
#include "src/invoke/session/driver/helper_thread.h"
#include "src/invoke/session/driver/keep_alive.h"
#include "src/invoke/session/driver/lent_memory.h"
#include "src/invoke/session/driver/method_trials.h"
#include "src/invoke/session/driver/turn_lock.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

// What a session has done.
struct SessionCounts {
  std::vector<std::pair<uint16_t, bootstrap::FunctionCounts>> functions;  // by id
  ResponseDropCounters dropped;
};

// Every method may be called from any thread, and blocks only where it says so.
class CallDriver : public std::enable_shared_from_this<CallDriver> {
 public:
  using CallbacksElsewhere = CallbackDelivery::Elsewhere;

  // `hot_timeout` is how long a waiting thread busy-polls before it sleeps.
  CallDriver(std::unique_ptr<transport::Reactor> reactor, absl::Duration hot_timeout);
  ~CallDriver();

  // Before the first call, by one thread: registers the windows, and takes the worker's half.
  absl::Status Prepare(const ClientSession::Options& options);
  absl::Status Attach(const bootstrap::OpenSessionReply& reply);
  bootstrap::OpenSessionRequest MakeRequest(Notification notification);
  void SetNotification(Notification notification);
  // FailedPosts::Hold, once the session is open.
  void HoldFailures(absl::Duration hold);

  // MethodTrials::Choose. Blocks for some milliseconds at most.
  void ChooseMethod(std::optional<uint64_t> pieces_up_to);
  uint64_t pieces_up_to();
  uint64_t method_trials();

  // What every call needs to know of the session. Constant once it is open, so no lock.
  const WindowGeometry& geometry() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return session_->geometry();
  }
  Notification notification() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return session_->notification();
  }
  DataAuth data_auth() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return session_->data_auth(); }
  std::byte* BufferData(HeldCells cells) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return session_->RequestPayload(cells);
  }
  const transport::Reactor& reactor() const { return *reactor_; }
  // Response::session.
  uint64_t session() const { return number_; }
  SessionCounts Counts();
  // Calls whose callers still wait.
  uint32_t outstanding();

  // Starts the request, waits for its end and returns its response. Waits for free cells too, if
  // need be. Blocks.
  absl::StatusOr<Response> Run(const ClientSession::Request& request);

  // Starts the request and returns the call, which the caller gives back by Await or Drop. Blocks
  // only while no cells are free.
  absl::StatusOr<Call*> Start(const ClientSession::Request& request);

  // Starts the request. The thread that drives calls `on_done` with the result, and holds no lock
  // then. Blocks only while no cells are free. If this returns an error, `on_done` has not been
  // taken and is not called. `ticket`, if any, is for Cancel, and set before the callback can come.
  // `comes_back`: the caller is going to drive soon (DriveForCallbacks), so that the helper thread
  // need not at once.
  absl::Status StartWithCallback(const ClientSession::Request& request, CallDone& on_done,
                                 CallTicket* ticket = nullptr, bool comes_back = false);
  // After all nobody comes back: the helper thread drives.
  void LeaveToHelper();
  // Drives, and runs callbacks, until `done`, which is asked under the turn lock, the deadline, or
  // for as long as there is anything to drive for: another thread may be about to run the callback
  // that is waited for. Blocks.
  void DriveForCallbacks(absl::FunctionRef<bool()> done, int64_t deadline_ns);

  // Ends a call that is under way as CANCELLED; false if it has ended. Its callback, or those of
  // other calls that have ended, may run inside. A call that has been given back, as Await and Drop
  // do, needs a ticket.
  bool Cancel(Call* call);
  bool Cancel(const CallTicket& ticket);

  // Waits until the call has ended and gives it back. Blocks.
  absl::StatusOr<Response> Await(Call* call);

  // Waits as Await does, but no longer than until `deadline_ns`, and leaves the call as it is. True
  // if it has ended. Blocks.
  bool AwaitEnd(Call* call, int64_t deadline_ns);

  // Gives back a call whose result nobody wants.
  void Drop(Call* call);

  // For a second at most, waits for the cells of a probe (MethodTrials), of which the program knows
  // nothing.
  absl::StatusOr<HeldCells> AllocateBuffer(uint64_t bytes);
  // `busy` is the buffer's; if a call is under way, the cells are freed when it ends.
  void FreeBuffer(HeldCells cells, const bool* busy);
  void FreeResponse(HeldCells cells);

  // Memory of the program's own, for callers that hold a share of this driver. Closing ends every
  // access of the peer's: a session that failed while it had such access is not polled any more.
  absl::StatusOr<transport::MemoryRegion> RegisterMemory(transport::HostBuffer buffer,
                                                         transport::RegionUse use);
  void CloseMemory(transport::MemoryRegion region);
  // Runs `task` under the turn lock.
  void RunLocked(absl::FunctionRef<void()> task);
  // The flag of a Request, which goes away while its call may still be under way. For a task.
  void ForgetBusyLocked(const bool* busy) {
    lock_.AssertHeld();
    session_->ForgetBusy(busy);
  }
  // After the worker and this side have ended the session: lets transfers of the worker's end that
  // it had begun. On some fabrics it would wait for them for ever, and others behind them.
  void LetTransfersEnd();
  // Drives, even for calls whose callers wait no longer, until `done`, which is asked under the
  // turn lock, the session's end or the deadline. Returns what `done` says then. Blocks.
  bool DriveUntil(absl::FunctionRef<bool()> done, int64_t deadline_ns);

  // Ends all calls with this reason, and refuses new ones. Runs no callback: they run on the helper
  // thread, so that this thread may go on to end other sessions, which callbacks may wait for.
  void Fail(const absl::Status& reason);

  // Refuses new calls with this reason. Those under way go on.
  void TakeNoMore(const absl::Status& reason);

  // Fail, once everything has been delivered that the worker sent before it ended the session: news
  // of the end comes another way, and may be faster. Refuses new calls at once. Blocks until
  // `deadline_ns` while calls are under way, and for a millisecond at least. Runs no callback
  // either.
  void FailAfterDelivery(const absl::Status& reason, int64_t deadline_ns);

  // OK, or why no call can be made any more.
  absl::Status status();

  // ClientSession::ViewPath.
  PathView ViewPath(uint64_t known_answers);
  // ViewPath, but first polls for some hundred turns while no answer beyond the first
  // `known_answers` has come: the driver may have been given little time. Runs no callback: as
  // Fail.
  PathView ViewPathAfterTurns(uint64_t known_answers);

  // Ends the helper thread. Calls that are under way end as CANCELLED, and callbacks that are due
  // run here at the latest; waits for those that other threads run. Nothing may be started
  // afterwards.
  void Close();

 private:
  class Visit;

  static constexpr int64_t kForever = INT64_MAX;
  static constexpr uint32_t kTurnsPerClock = 64;
  // A thread that has less time than this to drive reads the clock after each turn: so many may
  // take as long as a call.
  static constexpr int64_t kHasteNs = 20'000;

  // The last thing that a method does, since it may end the driver.
  void UnlockAndMayEnd() ABSL_UNLOCK_FUNCTION(lock_) {
    if (ABSL_PREDICT_FALSE(life_.closed())) return UnlockClosed();
    lock_.Unlock();
  }
  void UnlockClosed() ABSL_UNLOCK_FUNCTION(lock_);

  // Starting a call. nullptr if it cannot, and `why_not` says why.
  Call* StartLocked(const ClientSession::Request& request, bool may_wait_for_others,
                    absl::Status* why_not) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  bool LeavesNowLocked(bool may_wait_for_others) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  absl::Status WaitToStartLocked(const ClientSession::Request& request, int64_t* next_check_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  bool PollForRoomLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  bool MayBeReleasedLocked(WhenFull when_full) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void WaitForRoomLocked(int64_t deadline_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  // Asks, if it is time to, whether the caller is to give up.
  bool InterruptedLocked(bool (*interrupted)(), int64_t* next_check_ns)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  static int64_t NextCheck(bool (*interrupted)()) {
    return ABSL_PREDICT_TRUE(interrupted == nullptr) ? kForever : NextCheckAfterNow();
  }
  static int64_t NextCheckAfterNow();

  // Ending a call.
  absl::StatusOr<Response> CollectLocked(Call* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  bool CancelLocked(Call* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  bool callbacks_due_locked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    return !session_->finished().empty();
  }
  ABSL_ATTRIBUTE_NOINLINE void RunCallbacksLocked(bool waits_for_call = false)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void LeaveCallbacksToHelperLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  // Whether a driver that waits for this call, or for room, runs callbacks that have become due.
  bool RunsCallbacksFor(const Call* call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    return call == nullptr || !delivery_.RunsHere();
  }

  // Driving. Returns when the call has ended (with no call: when there may be room), at the
  // deadline, or early: the caller checks and comes again.
  // `kTurns`: idle turns between two readings of the clock.
  template <uint32_t kTurns = kTurnsPerClock>
  void DriveOrWaitLocked(Call* call, int64_t deadline_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    if (ABSL_PREDICT_TRUE(role_.TryTake())) return DriveHereLocked<kTurns>(call, deadline_ns);
    WaitLocked(call, deadline_ns);
  }
  template <uint32_t kTurns>
  void DriveHereLocked(Call* call, int64_t deadline_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  // One turn, if no other thread drives: for a thread that looks and then does something else.
  void LookLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  template <uint32_t kTurns>
  void DriveLocked(const Call* call, int64_t deadline_ns, uint32_t turns_if_others_wait)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void SleepLocked(int64_t deadline_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void WaitLocked(Call* call, int64_t deadline_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  // If nobody drives: wakes a successor, if there is anything to drive for.
  void HandOnLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    if (!role_.taken()) HandOnFreeRoleLocked();
  }
  void HandOnFreeRoleLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_) {
    if (role_.others_wait() || session_->needs_turns()) WakeSuccessorLocked();
  }
  void WakeSuccessorLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(lock_);
  void HelperMain();

  TurnLock lock_;
  // Any thread may submit tasks to the reactor or ask for constants. The holder of the lock may
  // poll it, except while a driver sleeps on it.
  std::unique_ptr<transport::Reactor> reactor_;
  std::unique_ptr<ClientSession> session_ ABSL_PT_GUARDED_BY(lock_);
  const int64_t hot_ns_;
  const uint64_t number_;
  DriverRole role_ ABSL_GUARDED_BY(lock_);
  // Threads in Run, Await or AwaitEnd: their calls hold cells until they take their results.
  uint32_t running_ ABSL_GUARDED_BY(lock_) = 0;
  FlushPolicy flush_ ABSL_GUARDED_BY(lock_);
  CallbackDelivery delivery_ ABSL_GUARDED_BY(lock_);
  KeepAlive life_ ABSL_GUARDED_BY(lock_);
  LentMemory lent_ ABSL_GUARDED_BY(lock_);
  MethodTrials trials_ ABSL_GUARDED_BY(lock_);
  // Its Join takes no lock.
  HelperThread helper_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_DRIVER_CALL_DRIVER_H_
