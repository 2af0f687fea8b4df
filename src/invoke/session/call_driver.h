// Lets any number of threads share one client session.
//
// Whoever waits for a call drives the reactor itself, so that a blocking call has no hand-over
// between threads. There is one driver at a time; others sleep until their call has ended or the
// driver leaves. A helper thread drives only while asynchronous calls are under way and no thread
// waits.

#ifndef INVOKER_SRC_INVOKE_SESSION_CALL_DRIVER_H_
#define INVOKER_SRC_INVOKE_SESSION_CALL_DRIVER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/invoke/session/call_waiter.h"
#include "src/invoke/session/client_session.h"
#include "src/invoke/session/placement_watch.h"
#include "src/invoke/session/turn_lock.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

namespace transport {
class MethodTrial;
}

// Every method may be called from any thread, and blocks only where it says so.
class CallDriver : public std::enable_shared_from_this<CallDriver> {
 public:
  // While there is one, what this thread starts runs no callbacks of other calls: they may wait for
  // what the thread has yet to do.
  class CallbacksElsewhere {
   public:
    CallbacksElsewhere() : before_(std::exchange(t_leaves_callbacks_, true)) {}
    ~CallbacksElsewhere() { t_leaves_callbacks_ = before_; }
    CallbacksElsewhere(const CallbacksElsewhere&) = delete;
    CallbacksElsewhere& operator=(const CallbacksElsewhere&) = delete;

   private:
    const bool before_;
  };

  // `hot_timeout` is how long a waiting thread busy-polls before it sleeps.
  CallDriver(std::unique_ptr<transport::Reactor> reactor, absl::Duration hot_timeout);
  ~CallDriver();

  // Before the first call, by one thread: registers the windows, and takes the worker's half.
  absl::Status Prepare(const ClientSession::Options& options);
  absl::Status Attach(const bootstrap::OpenSessionReply& reply);
  bootstrap::OpenSessionRequest MakeRequest(transport::Notification notification);
  void SetNotification(transport::Notification notification);
  // ClientSession::HoldFailures, once the session is open.
  void HoldFailures(absl::Duration hold);

  // Once the data path has been proven: which payloads that the fabric does not inject whole go in
  // pieces, both ways. Those of up to so many bytes; or nothing: as a trial finds, now, and again
  // when an end has moved to another processor. Where the fabric has no such choice, does nothing.
  // Blocks for some milliseconds at most.
  void ChooseMethod(std::optional<uint64_t> pieces_up_to);
  uint64_t pieces_up_to();
  uint64_t method_trials();

  // What every call needs to know of the session; constant once it is open.
  const WindowGeometry& geometry() const { return session_->geometry(); }
  const transport::Reactor& reactor() const { return *reactor_; }
  transport::Notification notification() const { return session_->notification(); }
  DataAuth data_auth() const { return session_->data_auth(); }
  ResponseDropCounters dropped_responses();

  // Starts the request, waits for its end and returns its response. Waits for free cells too, if
  // need be. Blocks.
  absl::StatusOr<Response> Run(const ClientSession::Request& request);

  // Starts the request and returns the call, which the caller gives back by Await or Drop. Blocks
  // only while no cells are free.
  absl::StatusOr<Call*> Start(const ClientSession::Request& request);

  // Starts the request; `on_done` gets its result on whichever thread drives, which holds no lock
  // then. Blocks only while no cells are free. If this returns an error, `on_done` has not been
  // taken and is not called.
  // `ticket`, if any, is for Cancel, and set before the callback can come.
  absl::Status StartWithCallback(const ClientSession::Request& request, CallDone& on_done,
                                 CallTicket* ticket = nullptr);

  // Ends a call that is under way as CANCELLED; false if it has ended. A callback of it, or of
  // others that have ended, may run inside. A call that has been given back, as Await and Drop do,
  // needs a ticket.
  bool Cancel(Call* call);
  bool Cancel(const CallTicket& ticket);

  // Waits until the call has ended and gives it back. Blocks.
  absl::StatusOr<Response> Await(Call* call);

  // Waits as Await does, but no longer than until `deadline_ns`, and leaves the call as it is. True
  // if it has ended. Blocks.
  bool AwaitEnd(Call* call, int64_t deadline_ns);

  // Gives back a call whose result nobody wants.
  void Drop(Call* call);

  absl::StatusOr<HeldCells> AllocateBuffer(uint64_t bytes);
  // `busy` is the buffer's; if a call is under way, the cells are freed when it ends.
  void FreeBuffer(HeldCells cells, const bool* busy);
  void FreeResponse(HeldCells cells);
  std::byte* BufferData(HeldCells cells) const { return session_->RequestPayload(cells); }

  // Of the program's own, for whoever holds a share of this driver. Closing ends every access of
  // the peer's: a session that failed while it had such access is not polled any more.
  absl::StatusOr<transport::MemoryRegion> RegisterMemory(transport::HostBuffer buffer,
                                                         transport::RegionUse use);
  void CloseMemory(transport::MemoryRegion region);
  // Under the turn lock.
  void RunLocked(absl::FunctionRef<void()> task);
  // The flag of a Request, which goes away while its call may still be under way.
  void ForgetBusyLocked(const bool* busy) { session_->ForgetBusy(busy); }
  // Once the worker has ended the session, and this side has: lets transfers of the worker's end
  // that it had begun. On some fabrics it would wait for them for ever, and others behind them.
  void LetTransfersEnd();
  // Drives, even for calls whose callers wait no longer, until `done`, which is asked under the
  // turn lock, the session's end or the deadline. Returns what `done` says then. Blocks.
  bool DriveUntil(absl::FunctionRef<bool()> done, int64_t deadline_ns);

  // Ends all calls with this reason, and refuses new ones. Runs no callback: they run on the helper
  // thread, so that this thread may go on to end other sessions, which callbacks may wait for.
  void Fail(const absl::Status& reason);

  // As Fail, but what the worker sent before it ended the session is delivered first: that news
  // comes another way, and may be faster. Blocks until `deadline_ns` while calls are under way, and
  // for a millisecond at least. Runs no callback either.
  void FailAfterDelivery(const absl::Status& reason, int64_t deadline_ns);

  // OK, or why no call can be made any more.
  absl::Status status();

  // ClientSession::ViewPath.
  PathView ViewPath(uint64_t known_answers);
  // As ViewPath, but what is on its way out or in on this host is moved on first, for some hundred
  // turns, while no answer beyond the first `known_answers` has come: whoever drives may have
  // been given little time. Runs no callback: as Fail.
  PathView ViewPathAfterTurns(uint64_t known_answers);

  // Ends the helper thread. Calls that are under way end as CANCELLED, and callbacks that are due
  // run here at the latest; waits for those that other threads run. Nothing may be started
  // afterwards.
  void Close();

 private:
  class Visit;

  static constexpr int64_t kForever = INT64_MAX;

  // A sleeper looks up at least this often, in case a call with an earlier deadline has been
  // started meanwhile.
  static constexpr int64_t kLongestSleepNs = 5'000'000;

  // The last thing that a method does, since it may end the driver.
  void UnlockAndMayEnd() {
    if (ABSL_PREDICT_FALSE(closed_)) return UnlockClosed();
    lock_.Unlock();
  }
  void UnlockClosed();
  void SettleTransfersLocked();
  void PollLocked();
  // nullptr if it cannot, and `why_not` says why.
  Call* StartLocked(const ClientSession::Request& request, bool may_wait_for_others,
                    absl::Status* why_not);
  absl::Status WaitToStartLocked(const ClientSession::Request& request, int64_t* next_check_ns);
  bool LeavesNowLocked(bool may_wait_for_others);
  // When to ask next whether the caller is to give up.
  static int64_t NextCheck(bool (*interrupted)()) {
    return ABSL_PREDICT_TRUE(interrupted == nullptr) ? kForever : NextCheckAfterNow();
  }
  static int64_t NextCheckAfterNow();
  // A probe's answer.
  struct Answer {
    int64_t ns = 0;         // how long it took
    uint32_t executor = 0;  // Placement's
  };
  std::optional<Answer> ProbeLocked(const ClientSession::Request& request);
  std::optional<Placement> TellMethodLocked();
  bool TryLengthLocked(uint64_t bytes, transport::MethodTrial* trial);
  // Bytes of payload. Two requests, and as many responses, have room beside a program's calls.
  uint64_t LongestTried() const { return geometry().window_bytes() / 4; }
  void TryMethodsLocked();
  void ChooseMethodLocked(std::optional<uint64_t> pieces_up_to);
  void AskForLookLocked();
  static bool HasTimeForLook(const ClientSession::Request& request);
  ABSL_ATTRIBUTE_NOINLINE void LookAtPlacementLocked(bool now);
  absl::StatusOr<Response> Collect(Call* call);
  bool CancelLocked(Call* call);
  bool PollForRoomLocked();
  // Whether a probe that was given up has cells until its answer comes.
  bool ProbeHoldsRoomLocked() const { return late_probe_.Is(Call::State::kTimedOut); }
  bool MayBeReleasedLocked(WhenFull when_full) const;
  bool OthersMayReleaseLocked() const;
  void WaitForRoomLocked(int64_t deadline_ns);
  bool Interrupted(bool (*interrupted)(), int64_t* next_check_ns);
  // Returns when the call has ended (with no call: when there may be room), at the deadline, or
  // early: the caller checks and comes again.
  void DriveOrWait(Call* call, int64_t deadline_ns) {
    if (ABSL_PREDICT_TRUE(!driven_)) return DriveHere(call, deadline_ns);
    WaitLocked(call, deadline_ns);
  }
  void DriveHere(Call* call, int64_t deadline_ns);
  // Whether a driver that waits for this call, or for room, runs callbacks that have become due.
  bool RunsCallbacksFor(const Call* call) const { return call == nullptr || !DeliversHere(); }
  void WaitLocked(Call* call, int64_t deadline_ns);
  bool GoesOnLocked(uint64_t changes) const;
  void DriveWhile(const Call* call, int64_t deadline_ns, uint32_t turns_if_others_wait);
  void SleepLocked(int64_t deadline_ns);
  bool NeedsDriverLocked() const { return session_->outstanding() > 0 || session_->sending(); }
  // Nobody drives: wakes a successor, if there is anything to drive for.
  void LeaveLocked() {
    if (!waiters_.empty() || NeedsDriverLocked()) WakeSuccessorLocked();
  }
  bool StartHelperLocked();
  void WakeSuccessorLocked();
  void LeaveCallbacksToHelperLocked();
  void RunFinishedLocked(bool waits_for_call = false);
  void DeliverSomeLocked(bool waits_for_call);
  bool DeliverNextLocked();
  std::optional<uint32_t> CountedHere() const;
  void HelperMain();

  struct Result {
    CallDone on_done;
    absl::StatusOr<Response> response;
  };
  // Of a thread that runs callbacks.
  struct Delivery {
    void RunNext();

    const CallDriver* driver;
    Delivery* outer;          // whose callback it is in meanwhile
    bool waits_for_call;      // it is in Run, Await or AwaitEnd
    absl::Span<Result> rest;  // has been taken from the session, and is still to be delivered
  };
  // What a thread still has to take or deliver itself it cannot wait for.
  static thread_local Delivery* t_delivery_;
  bool DeliversHere() const;
  // CallbacksElsewhere's.
  static thread_local bool t_leaves_callbacks_;

  std::unique_ptr<transport::Reactor> reactor_;
  std::unique_ptr<ClientSession> session_;
  int64_t hot_ns_;

  TurnLock lock_;
  // Under lock_.
  bool driven_ = false;               // somebody has the driver's role
  bool asleep_ = false;               // and sleeps, without the lock
  std::vector<CallWaiter*> waiters_;  // threads that sleep in DriveOrWait
  // Threads in Run, Await or AwaitEnd that have a call, which holds cells until they take its
  // result.
  uint32_t running_ = 0;
  uint32_t held_responses_ = 0;  // that have been handed out and not been released
  uint32_t delivering_ = 0;  // threads that run callbacks, whose responses hold cells until then
  uint32_t stuck_ = 0;       // what threads that wait for room count for in the two
  CallWaiter* closer_ = nullptr;  // waits until none does
  uint32_t inside_ = 0;           // threads inside a method
  uint32_t held_calls_ = 0;       // that futures have not given back
  uint32_t started_since_turn_ = 0;
  uint64_t asynchronous_ = 0;  // calls started so far that their threads did not wait for at once
  // The driver itself: set from Attach until Close has been called and nobody is inside or holds
  // anything of it. So a call counts no references.
  std::shared_ptr<CallDriver> self_;
  bool closed_ = false;
  bool helper_stop_ = false;
  bool helper_awake_ = false;     // runs, or sleeps for a while only
  bool helper_watches_ = false;   // sleeps
  bool helper_leads_ = false;     // drives at once: nobody else has lately
  PlacementWatch placement_;      // where methods have been tried
  uint64_t method_trials_ = 0;    // that had a result
  bool method_is_given_ = false;  // by the program
  CallTicket late_probe_;         // one that was given up: its cells come free with its answer
  bool quiet_ = true;             // nothing of the worker's can be under way to us
  bool settled_ = false;          // it has been seen that nothing is, since the session failed
  // Times that threads other than the helper have driven. Written under lock_.
  std::atomic<uint64_t> visits_{0};
  std::thread helper_;
  CallWaiter helper_waiter_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_CALL_DRIVER_H_
