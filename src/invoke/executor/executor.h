// One worker thread and its endpoints, one on each fabric that is offered (EndpointSet has what may
// be beside it). It polls for requests
// and runs functions inline, one at a time whatever fabric they came over.
//
// An endpoint is opened at the first session on its fabric, and polled only while it has sessions,
// so that a fabric that nobody uses costs a call nothing: with sessions on one fabric, a turn polls
// that one. After its last session an endpoint is looked at now and then, until nothing is left of
// the session, and then no more.
//
// Start it, then call anything from any thread: sessions are opened and closed by tasks that the
// thread runs between two turns, so no lock is on the path of a call.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/executor/endpoint_set.h"
#include "src/invoke/executor/executor_endpoint.h"
#include "src/invoke/executor/executor_inbox.h"
#include "src/invoke/executor/executor_watch.h"
#include "src/invoke/executor/lent_windows.h"
#include "src/invoke/executor/request_search.h"
#include "src/invoke/executor/usage_meter.h"
#include "src/invoke/function/function_registry.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

struct ExecutorOptions {
  uint32_t index = 0;
  // Memory for the input and output of bulk calls, which several executors may share; nullptr: one
  // of its own, with the default limit.
  std::shared_ptr<BulkBudget> bulk_budget;
  // What all endpoints of the process may have in quarantine; nullptr: no limit.
  std::shared_ptr<transport::QuarantineTotal> quarantine_total;
  // How long the executor busy-polls after the last message before it sleeps until the next.
  // Infinite: always hot, while it has a session.
  absl::Duration hot_timeout = absl::InfiniteDuration();
  // Where the executor shows what it does, or nullptr; outlives it.
  ExecutorWatch* watch = nullptr;
  // The first that the thread runs, if set.
  std::function<void()> on_thread_start;
  // Told, in words for a log, of endpoints that take no more sessions, if set. On the thread of
  // who opens a session; clients can cause it.
  std::function<void(absl::string_view note)> on_endpoint;
  // Told that a session has ended whose client never got a probe through, if set. On the
  // executor's thread; must not block. Clients can cause it.
  std::function<void()> on_unheard;
  // Where numbering begins; nothing: at random, so that what was meant for a session of another
  // executor, such as that of this server before it was restarted, is of no session of this one.
  // Numbers wrap; starting near the end makes them wrap soon.
  std::optional<uint16_t> first_session;
  std::optional<uint32_t> first_epoch;
  transport::ReactorOptions reactor;
};

class Executor {
 public:
  using SessionKey = invoker::SessionKey;

  // Called on the executor's thread when a session ends by itself; it is fenced already. Must not
  // block on the executor.
  using SessionFailed = std::function<void(SessionKey, const absl::Status&)>;

  // What became of one fabric.
  struct FabricUse {
    bool open = false;  // the endpoint
    uint32_t live_sessions = 0;
    uint64_t turns = 0;  // how often it has been polled
  };

  // Starts the thread; no endpoint is opened yet. `functions` is copied. At most 65536 fabrics;
  // from now on they are named by their place in `fabrics`. RESOURCE_EXHAUSTED without a thread.
  static absl::StatusOr<std::unique_ptr<Executor>> Start(
      std::vector<transport::FabricChoice> fabrics, const FunctionRegistry* functions,
      const ExecutorOptions& options, SessionFailed on_session_failed);

  // Stops as Stop() does.
  ~Executor();

  // Opens the endpoint that the fabric's next session will use, which else that session does.
  // Blocks for some milliseconds.
  absl::Status OpenFabric(size_t fabric) { return LineFor(fabric).current()->Open(); }

  // On all fabrics.
  uint32_t live_sessions() const { return shared_.live_sessions.load(std::memory_order_relaxed); }
  // Whether it is running functions now. A hint.
  bool busy() const { return shared_.busy.load(std::memory_order_relaxed); }
  // False once the fabric's endpoint can no longer be trusted (Reactor::health), or has no room for
  // more sessions, and cannot be replaced: it takes no more sessions.
  bool healthy(size_t fabric) const { return LineFor(fabric).healthy(); }

  // These block until the thread's next turn, which may be after a function that is running, unless
  // they say otherwise.

  // `notification` and the request's data_auth are what the session is to use, already decided. The
  // reply's handle is left to the caller. Opens the fabric's endpoint if need be, on the calling
  // thread. `meter` shows what the session uses, and is let go of when the session has ended;
  // nullptr: nobody reads it.
  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      size_t fabric, const bootstrap::OpenSessionRequest& request,
      transport::Notification notification, std::shared_ptr<UsageMeter> meter = nullptr);
  absl::Status SwitchNotification(SessionKey key, transport::Notification notification);
  // Does not wait for a function that runs: see RequestSearch.
  absl::StatusOr<bootstrap::RequestState> FindRequest(SessionKey key, uint64_t sequence);
  absl::Status CloseSession(SessionKey key);
  // As bootstrap::SessionHost's. Neither waits for a function that runs.
  absl::StatusOr<uint16_t> RegisterWindow(SessionKey key, const bootstrap::WindowDescriptor& window,
                                          bool readable, bool writable);
  // OK once nothing of the window is under way, nor will be. DEADLINE_EXCEEDED if transfers are
  // that do not end: they may need the client to take part.
  absl::Status ForgetWindow(SessionKey key, uint16_t number);
  // As CloseSession, but does not block, and does not mind if the session has ended. `closed` is
  // called when it has, with all that it has used shown in its meter: on the thread, or, if that
  // has stopped, on this one.
  void CloseSessionLater(SessionKey key, std::function<void()> closed);
  ExecutorCounters Counters();
  std::vector<FabricUse> Uses();

  // What all sessions have used so far, those that have ended included. Does not block: what has
  // run in the last 64 turns, or runs now, may be missing.
  UsageCounters Usage() const { return shared_.watch->usage().Read(); }

  // Adds what peers have sent so far that was dropped. Does not block: of what is no doorbell, the
  // last millisecond's may be missing.
  void AddDropped(DropCounters* sum) const { LoadShared(shared_.watch->dropped(), sum); }

  // For checks of endpoints (EndpointWatch). None of these waits for a function that runs for
  // longer than `limit`; nullopt: the thread has not got round to it, or has stopped.

  // The open endpoints that take new sessions. Does not block.
  std::vector<std::shared_ptr<ExecutorEndpoint>> OpenPorts() const;
  // What a port has done so far.
  struct Activity {
    uint64_t turns = 0;     // how often it has been polled
    uint64_t requests = 0;  // that have come from peers, refused ones included
  };
  // Polls the port from now on, whether or not it has sessions, until the check with this nonce has
  // come or another is expected; 0: none.
  std::optional<Activity> ExpectCheck(const std::shared_ptr<ExecutorEndpoint>& port, uint64_t nonce,
                                      absl::Duration limit);
  std::optional<Activity> ActivityOf(const std::shared_ptr<ExecutorEndpoint>& port,
                                     absl::Duration limit);
  // The port no longer answers new peers, for this reason: new sessions get another endpoint, if
  // there may be one more. With `end_sessions` its own sessions end, else they stay. Returns what
  // to log; "" if the port takes no sessions any more in any case, or stays in use.
  std::optional<std::string> ReplaceSilent(const std::shared_ptr<ExecutorEndpoint>& port,
                                           const absl::Status& reason, bool end_sessions,
                                           absl::Duration limit);
  // Closes endpoints that have been replaced, have settled, and can be closed. Returns whether some
  // have not settled yet.
  std::optional<bool> CloseSettled(absl::Duration limit);

  // Offers further functions from now on, in every session: all of them, under the next ids, or, if
  // one is refused, none. What they point into must outlive the executor. UNAVAILABLE if the
  // executor has stopped.
  absl::Status AddFunctions(std::vector<FunctionEntry> entries);

  // From the thread's next turn on. Sessions stay on the endpoints that they have, which differ
  // only where a wait object slows polling: opened while the executor was always hot, they have
  // one without, and wake the thread up to a millisecond late. Does not block.
  void SetHotTimeout(absl::Duration hot_timeout);

  // From now on requests are refused as "draining", but those for more of an earlier call's answer
  // (FunctionEntry); the one that runs finishes. Does not block.
  void Drain() { shared_.draining.store(true, std::memory_order_relaxed); }

  // Blocks until the turn under way, and so the function that runs, has ended.
  void FinishTurn() {
    RunOnThread([] {});
  }

  // Drains, waits until every response that is ready has left or `limit` has passed, closes all
  // sessions and joins the thread.
  void Stop(absl::Duration limit);

 private:
  Executor(std::vector<transport::FabricChoice> fabrics, const FunctionRegistry* functions,
           const ExecutorOptions& options, SessionFailed on_session_failed);

  static Activity ActivityOf(const ExecutorEndpoint& port);

  void ThreadMain();
  void Arrange();
  int LookForRequests();
  void Search();
  void Sleep();
  void PollLeaving();
  // Shows what has been used, up to now.
  void Publish();
  // The thread will not poll for a while.
  void EndPolling();
  void FinishPorts();
  // The line that the fabric's next session goes to. Any thread.
  EndpointSet& LineFor(size_t fabric) const;
  // nullptr if no open port of the fabric has such a session.
  ExecutorEndpoint* PortOf(SessionKey key);

  // Runs `task` on the thread and waits for it. False if the thread has stopped.
  bool RunOnThread(std::function<void()> task);
  // Does the same as RunOnThread, and waits for `limit` at most, after which `ask` may still run.
  // It must own what it uses.
  template <typename Answer>
  std::optional<Answer> AskThread(absl::Duration limit, std::function<Answer()> ask);
  // As RunOnThread, and does not wait.
  bool RunLater(std::function<void()> task);

  ExecutorOptions options_;
  FunctionRegistry functions_;  // the thread's, once it runs
  ExecutorShared shared_;
  // One for each fabric, and then the second ones.
  std::vector<std::unique_ptr<EndpointSet>> lines_;
  // By fabric: where an endpoint that is polled hot does without a wait object, a line of the other
  // kind than its first one; else nullptr. The one without serves the first few sessions while the
  // executor is always hot: polling it takes longer with every peer.
  std::vector<EndpointSet*> second_lines_;
  ExecutorInbox inbox_;
  LentWindows lent_;
  RequestSearch search_;
  std::atomic<bool> woken_{false};  // a task waits that wakes the thread for search_

  ExecutorWatch own_watch_;  // where nobody has given another

  // The thread's.
  uint64_t polling_since_ticks_ = 0;     // up to which awake_ns_ goes; 0: the thread does not poll
  uint64_t awake_ns_ = 0;                // that the thread has polled, functions included
  std::vector<ExecutorEndpoint*> live_;  // with sessions: polled on every turn
  std::vector<ExecutorEndpoint*> leaving_;     // without, but not settled: polled now and then
  std::vector<transport::Reactor*> reactors_;  // of both: what a sleep is ended by
  uint64_t turns_at_look_ = 0;                 // of the first of live_: when search_ looked last
  // Nothing has come since the last session was opened. On a machine whose cores are all in use,
  // whoever has to tell the client of the session may wait for this thread's core.
  bool awaits_first_ = false;
  bool checking_ = false;  // a port of live_ or leaving_ awaits a check

  std::atomic<bool> always_hot_;
  std::atomic<int64_t> hot_ns_;

  std::atomic<bool> stop_{false};
  std::atomic<int64_t> stop_deadline_ns_{0};
  absl::Mutex stopped_mutex_;
  bool stopped_ ABSL_GUARDED_BY(stopped_mutex_) = false;
  std::thread thread_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_H_
