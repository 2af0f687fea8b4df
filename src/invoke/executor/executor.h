// One worker thread and its endpoints, on each fabric that is offered. The thread polls for
// requests and runs functions inside itself, one at a time, on whatever fabric they came.
//
// An endpoint is opened at the first session on its fabric, and polled while it has sessions. So a
// fabric without sessions costs a call on another fabric nothing. A session on a slow fabric adds
// its poll time to every call on the executor's fast fabric. After its last session an endpoint is
// polled now and then, until nothing is left of the session.
//
// Start an executor, then call anything from any thread. Sessions are opened and closed by tasks
// that the thread runs between two turns, so no lock is on the path of a call.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/executor/deferred/concurrent_function.h"
#include "src/invoke/executor/endpoint_set.h"
#include "src/invoke/executor/executor_counters.h"
#include "src/invoke/executor/executor_endpoint.h"
#include "src/invoke/executor/executor_shared.h"
#include "src/invoke/executor/executor_thread.h"
#include "src/invoke/executor/executor_watch.h"
#include "src/invoke/executor/fabric_endpoints.h"
#include "src/invoke/executor/function_meters.h"
#include "src/invoke/executor/hot_timeout.h"
#include "src/invoke/executor/lent_windows.h"
#include "src/invoke/executor/polled_endpoints.h"
#include "src/invoke/executor/polling_time.h"
#include "src/invoke/executor/request_search.h"
#include "src/invoke/executor/usage_meter.h"
#include "src/invoke/function/function_registry.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/fabric/memory_region.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

struct ExecutorOptions {
  uint32_t index = 0;
  // Memory for the input and output of bulk calls. Several executors may share it. nullptr: one of
  // the executor's own, with the default limit.
  std::shared_ptr<BulkBudget> bulk_budget;
  // Whether clients can leave data here for later calls. It takes part of the memory for bulk
  // calls.
  bool stores_data = false;
  // Limits the quarantine of all endpoints of the process together; nullptr: no limit.
  std::shared_ptr<transport::QuarantineTotal> quarantine_total;
  // How long the executor busy-polls after the last message before it sleeps until the next.
  // Infinite: it never sleeps while it has a session.
  absl::Duration hot_timeout = absl::InfiniteDuration();
  // Where the executor shows its state, or nullptr; outlives it.
  ExecutorWatch* watch = nullptr;
  // The same, for what it has done of each function; zeros at first.
  FunctionMeters* function_meters = nullptr;
  // Runs on the thread before all else, if set.
  std::function<void()> on_thread_start;
  // Gets a note for a log when an endpoint takes no more sessions, if set. Runs on the thread that
  // opens a session; clients can cause it.
  std::function<void(absl::string_view note)> on_endpoint;
  // Called when a session has ended although no probe of its client ever got through, if set. Runs
  // on the executor's thread; must not block. Clients can cause it.
  std::function<void()> on_unheard;
  // Where numbering begins. Without them at random, so that a message to a session of another
  // executor, such as one of this server before a restart, names no session here. Numbers wrap.
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

  // One fabric's use, now.
  struct FabricUse {
    bool open = false;  // an endpoint
    uint32_t live_sessions = 0;
    uint64_t turns = 0;  // how often its endpoints have been polled
  };

  // Starts the thread; no endpoint is opened yet. `functions` is copied. At most 65536 fabrics;
  // from now on they are named by their place in `fabrics`. RESOURCE_EXHAUSTED without a thread
  // or without memory.
  static absl::StatusOr<std::unique_ptr<Executor>> Start(
      std::vector<transport::FabricChoice> fabrics, const FunctionRegistry* functions,
      const ExecutorOptions& options, SessionFailed on_session_failed);

  // Stops as Stop() does.
  ~Executor();

  // Opens the endpoint that the fabric's next session will use. Otherwise that session does. Blocks
  // for some milliseconds.
  absl::Status OpenFabric(size_t fabric) { return ForNewSession(fabric).current()->Open(); }

  // On all fabrics.
  uint32_t live_sessions() const { return shared_.live_sessions.load(std::memory_order_relaxed); }
  // ExecutorWatch::waiting.
  uint64_t requests_waiting() const { return shared_.watch->waiting(); }
  uint64_t endpoints_given_up() const {
    return shared_.endpoints_given_up.load(std::memory_order_relaxed);
  }
  // Whether it is running functions now. A hint.
  bool busy() const { return shared_.busy.load(std::memory_order_relaxed); }
  // False once the fabric takes no more sessions: its endpoint has failed (Reactor::health), or has
  // no room for more, and cannot be replaced.
  bool healthy(size_t fabric) const { return ForNewSession(fabric).healthy(); }

  // These block until the thread's next turn, which may be after a function that is running, unless
  // they say otherwise.

  // `notification` and the request's data_auth are those that the session uses, already decided.
  // The reply's handle is left to the caller. Opens the fabric's endpoint if need be, on the
  // calling thread. `meter` shows the session's usage, and is let go of when the session has ended;
  // nullptr: it is not shown.
  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      size_t fabric, const bootstrap::OpenSessionRequest& request, Notification notification,
      std::shared_ptr<UsageMeter> meter = nullptr);
  absl::Status SwitchNotification(SessionKey key, Notification notification);
  // Does not wait for a function that runs: see RequestSearch.
  absl::StatusOr<bootstrap::RequestState> FindRequest(SessionKey key, uint64_t sequence);
  absl::Status CloseSession(SessionKey key);
  // See bootstrap::SessionHost. Neither waits for a function that runs.
  absl::StatusOr<uint16_t> RegisterWindow(SessionKey key, const bootstrap::WindowDescriptor& window,
                                          bool readable, bool writable);
  // OK once no transfer of the window is under way, nor will be. DEADLINE_EXCEEDED if some are that
  // do not end: they may need the client to take part.
  absl::Status ForgetWindow(SessionKey key, uint16_t number);
  // Does the same as CloseSession but does not block, and accepts that the session has ended.
  // `closed` is called when it has, with all that it has used shown in its meter: on the thread,
  // or, if that has stopped, on this one.
  void CloseSessionLater(SessionKey key, std::function<void()> closed);
  ExecutorCounters Counters();
  std::vector<FabricUse> Uses();

  // The usage of all sessions so far, those that have ended included. Does not block: the last 64
  // turns, and a function that runs now, may be missing.
  UsageCounters Usage() const { return shared_.watch->usage().Read(); }

  // What it has done of each function so far. Its memory lives as long as the executor.
  const FunctionMeters& function_meters() const { return *shared_.function_meters; }

  // Adds the messages from peers that were dropped so far. Does not block: messages that are no
  // doorbells may be missing if they came within the last millisecond.
  void AddDropped(DropCounters* sum) const { LoadShared(shared_.watch->dropped(), sum); }

  // For checks of endpoints (EndpointWatch). None of these waits for a function that runs for
  // longer than `limit`; nullopt: the thread has not got round to it, or has stopped.

  // The open endpoints that take new sessions. Does not block.
  std::vector<std::shared_ptr<ExecutorEndpoint>> OpenEndpoints() const;
  // An endpoint's work so far.
  struct Activity {
    uint64_t turns = 0;     // how often it has been polled
    uint64_t requests = 0;  // that have come from peers, refused ones included
  };
  // Polls the endpoint from now on, whether or not it has sessions, until the check with this nonce
  // has come or another is expected; 0: none.
  std::optional<Activity> ExpectCheck(const std::shared_ptr<ExecutorEndpoint>& endpoint,
                                      uint64_t nonce, absl::Duration limit);
  std::optional<Activity> ActivityOf(const std::shared_ptr<ExecutorEndpoint>& endpoint,
                                     absl::Duration limit);
  // The endpoint no longer answers new peers, for this reason. New sessions get another endpoint,
  // if there may be one more. With `end_sessions` its own sessions end, else they stay. Returns a
  // note for a log; "" if the endpoint takes no sessions any more in any case, or stays in use.
  std::optional<std::string> ReplaceSilent(const std::shared_ptr<ExecutorEndpoint>& endpoint,
                                           const absl::Status& reason, bool end_sessions,
                                           absl::Duration limit);
  // Closes endpoints that have been replaced, have settled, and can be closed. Returns whether some
  // have not settled yet.
  std::optional<bool> ReleaseSettled(absl::Duration limit);

  // Offers further functions from now on, in every session: all of them, under the next ids, or, if
  // one is refused, none. Their code and contexts must outlive the executor. UNAVAILABLE if the
  // executor has stopped.
  absl::Status AddFunctions(std::vector<FunctionEntry> entries);

  // From the thread's next turn on. Sessions stay on their endpoints. Where a wait object slows
  // polling, endpoints that were opened while the executor was always hot have none: they wake the
  // thread up to a millisecond late. Does not block.
  void SetHotTimeout(absl::Duration hot_timeout) { hot_timeout_.Set(hot_timeout); }

  // From now on requests are refused as "draining", except those that ask for more of an earlier
  // call's answer (FunctionEntry); the function that runs finishes. Does not block.
  void Drain() { shared_.draining.store(true, std::memory_order_relaxed); }

  // Blocks until the turn under way, and so the function that runs, has ended.
  void FinishTurn() {
    thread_.Run([] {});
  }

  // Drains, and waits for functions that run, and for at most `limit` for calls that are answered
  // later. The executor goes on refusing calls.
  void Finish(absl::Duration limit);
  // Finishes, waits for at most `limit` for responses to leave, closes all sessions and joins the
  // thread.
  void Stop(absl::Duration limit);

 private:
  Executor(std::vector<transport::FabricChoice> fabrics, const FunctionRegistry* functions,
           const ExecutorOptions& options, SessionFailed on_session_failed);

  // Any thread.
  EndpointSet& ForNewSession(size_t fabric) const {
    return endpoints_.ForNewSession(fabric, hot_timeout_.infinite());
  }
  // Runs `task` on the thread, or here if the thread has finished and changes nothing any more.
  void RunAnyway(absl::FunctionRef<void()> task);
  // The entry, or what defers its calls in its place.
  FunctionEntry Wrap(FunctionEntry entry);

  // Executor thread only.
  void ThreadMain();
  int LookForRequests();
  void Search();
  void Rest();
  void PublishUsage();
  void EndPolling();
  void FinishEndpoints();

  const ExecutorOptions options_;
  FunctionRegistry functions_;                                   // the thread's, once it runs
  std::vector<std::unique_ptr<ConcurrentFunction>> concurrent_;  // the thread's; in functions_
  ExecutorWatch own_watch_;                                      // unless the options name another
  transport::HostBuffer own_meters_;                             // the same
  ExecutorShared shared_;
  HotTimeout hot_timeout_;
  const FabricEndpoints endpoints_;
  LentWindows lent_;
  RequestSearch search_;
  std::atomic<bool> woken_{false};  // a task waits that wakes the thread for search_
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> stop_deadline_ns_{0};

  // The thread's.
  PolledEndpoints polled_;
  PollingTime polling_time_;
  uint64_t turns_at_look_ = 0;  // PolledEndpoints::turns when search_ looked last
  // Nothing has come since the last session was opened. On a machine whose cores are all in use,
  // the thread that tells the client of the session may wait for this thread's core.
  bool awaits_first_ = false;

  ExecutorThread thread_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_H_
