// One worker thread with its own endpoint. It polls for requests and runs functions inline.
//
// Open it, then call anything from any thread: sessions are opened and closed by tasks that the
// thread runs between two turns, so no lock is on the path of a call.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "src/bootstrap/messages.h"
#include "src/invoke/executor_session.h"
#include "src/invoke/function_registry.h"
#include "src/transport/discovery.h"
#include "src/transport/reactor.h"

namespace invoker {

struct ExecutorOptions {
  uint32_t index = 0;
  // How long the executor busy-polls after the last message before it sleeps until the next.
  // Infinite: always hot.
  absl::Duration hot_timeout = absl::InfiniteDuration();
  // Where numbering begins. Numbers wrap; starting near the end makes them wrap soon.
  uint16_t first_session = 0;
  uint32_t first_epoch = 1;
  transport::ReactorOptions reactor;
};

// Sums over all sessions, those that have ended included.
struct ExecutorCounters {
  uint64_t executed = 0;
  uint64_t refused = 0;
  uint64_t dropped = 0;            // bad messages, by sessions
  uint64_t unknown_doorbells = 0;  // of no session, or no doorbell at all
  uint64_t live_sessions = 0;
};

class Executor final : public transport::ReactorHandler {
 public:
  // What a session is called outside: unique for the life of the executor, unlike the 16-bit
  // number.
  struct SessionKey {
    uint16_t number = 0;
    uint32_t epoch = 0;
  };

  // Called on the executor's thread when a session ends by itself; it is fenced already. Must not
  // block on the executor.
  using SessionFailed = std::function<void(SessionKey, const absl::Status&)>;

  // Opens the endpoint and starts the thread. `functions` must not change any more and outlives the
  // executor.
  static absl::StatusOr<std::unique_ptr<Executor>> Start(transport::FabricChoice fabric,
                                                         const FunctionRegistry* functions,
                                                         const ExecutorOptions& options,
                                                         SessionFailed on_session_failed);

  // Stops as Stop() does.
  ~Executor() override;

  const std::string& address() const { return reactor_->address(); }
  const transport::Profile& profile() const { return reactor_->profile(); }
  const fi_info& info() const { return reactor_->info(); }
  uint32_t live_sessions() const { return live_sessions_.load(std::memory_order_relaxed); }
  // Whether it is running functions now. A hint.
  bool busy() const { return busy_.load(std::memory_order_relaxed); }
  // False once the endpoint can no longer be trusted (Reactor::health): it takes no more sessions.
  bool healthy() const { return healthy_.load(std::memory_order_relaxed); }

  // These block until the thread's next turn, which may be after a function that is running.

  // `notification` is what the session is to use, already decided. The reply's handle and executor
  // are left to the caller.
  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      const bootstrap::OpenSessionRequest& request, transport::Notification notification);
  absl::Status SwitchNotification(SessionKey key, transport::Notification notification);
  absl::Status CloseSession(SessionKey key);
  // The same, but does not block, and does not mind if the session has ended.
  void CloseSessionLater(SessionKey key);
  ExecutorCounters Counters();

  // From now on requests are refused as "draining"; the one that runs finishes. Does not block.
  void Drain() { draining_.store(true, std::memory_order_relaxed); }

  // Blocks until the turn under way, and so the function that runs, has ended.
  void FinishTurn() {
    RunOnThread([] {});
  }

  // Drains, waits until every response that is ready has left or `limit` has passed, closes all
  // sessions and joins the thread.
  void Stop(absl::Duration limit);

  void OnToken(uint32_t token) override;
  void OnTick(int64_t now_ns) override;

 private:
  Executor(std::unique_ptr<transport::Reactor> reactor, const FunctionRegistry* functions,
           const ExecutorOptions& options, SessionFailed on_session_failed);

  void ThreadMain();
  void FlushSessions();
  void EndSession(uint16_t number);
  void FailSession(uint16_t number, const absl::Status& status);
  absl::StatusOr<uint16_t> FreeNumber();
  ExecutorSession* Find(SessionKey key);
  absl::StatusOr<bootstrap::OpenSessionReply> OpenOnThread(
      const bootstrap::OpenSessionRequest& request, transport::Notification notification,
      transport::HostBuffer request_window, transport::HostBuffer response_staging);

  // Runs `task` on the thread and waits for it. False if the thread has stopped.
  bool RunOnThread(std::function<void()> task);

  std::unique_ptr<transport::Reactor> reactor_;
  const FunctionRegistry* functions_;
  ExecutorOptions options_;
  SessionFailed on_session_failed_;

  // The thread's.
  std::vector<std::unique_ptr<ExecutorSession>> sessions_;  // by number; empty slots are nullptr
  std::vector<uint16_t> dirty_;    // sessions with responses to post, each once
  std::vector<uint16_t> numbers_;  // of live sessions
  uint32_t next_number_;
  uint32_t next_epoch_;
  uint64_t tokens_ = 0;
  FunctionTimes times_;
  int64_t turn_began_ns_ = 0;  // when the first doorbell of this turn was taken; 0: none yet
  ExecutorCounters ended_;     // what ended sessions add to Counters()
  uint64_t unknown_doorbells_ = 0;
  bool quiet_ = true;  // once stopped: no peer's write can be under way to the endpoint

  std::atomic<uint32_t> live_sessions_{0};
  std::atomic<bool> healthy_{true};
  std::atomic<bool> busy_{false};
  std::atomic<bool> draining_{false};
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> stop_deadline_ns_{0};
  absl::Mutex stopped_mutex_;
  bool stopped_ ABSL_GUARDED_BY(stopped_mutex_) = false;
  std::thread thread_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_H_
