// One endpoint of one executor, and the sessions on it.
//
// The endpoint is opened at the first session. It is polled while it has sessions, and after the
// last one until nothing of them is under way any more (settled()). Then it stays open without
// being polled, for the next session: closing it would gain nothing and could cost a late peer its
// connection. EndpointSet replaces an endpoint that takes no more sessions.
//
// Executor thread only, except for Open and the accessors that say so.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_ENDPOINT_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_ENDPOINT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/executor/executor_counters.h"
#include "src/invoke/executor/executor_shared.h"
#include "src/invoke/executor/session/executor_session.h"
#include "src/invoke/executor/session/session_key.h"
#include "src/invoke/executor/session/session_numbers.h"
#include "src/invoke/executor/session_scheduler.h"
#include "src/invoke/executor/usage_meter.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class ExecutorEndpoint final : public transport::ReactorHandler {
 public:
  // `shared` outlives the endpoint. `fabric` is the endpoint's place in the executor. The numbering
  // of sessions begins at `first_number`.
  ExecutorEndpoint(uint16_t fabric, transport::FabricChoice choice, ExecutorShared* shared,
                   uint16_t first_number, const transport::ReactorOptions& options);
  // Closes the endpoint or quarantines it (Reactor::Close). Any thread, once the executor's has
  // ended.
  ~ExecutorEndpoint() override;

  // Any thread, and several at once: opens the endpoint if it is not open yet. Blocks for some
  // milliseconds then, so the executor's thread does not call it: calls on other fabrics would
  // wait.
  absl::Status Open() ABSL_LOCKS_EXCLUDED(open_mutex_);

  // Any thread.
  const transport::Profile& profile() const { return choice_.profile; }
  const transport::FabricChoice& choice() const { return choice_; }
  transport::ReactorUse use() const { return options_.use; }
  // False once the endpoint takes no more sessions: it has failed (Reactor::health), or has no room
  // for more. From the last tick.
  bool healthy() const { return healthy_.load(std::memory_order_relaxed); }
  bool open() const { return open_.load(std::memory_order_acquire); }
  uint32_t live_sessions() const { return live_sessions_.load(std::memory_order_relaxed); }

  // The rest needs an open endpoint.

  transport::Reactor* reactor() const { return reactor_.get(); }

  // One turn: runs requests that have arrived and posts responses. True if anything happened.
  bool Turn() { return scheduler_.Turn(); }

  // OK, or why it takes no more sessions now.
  absl::Status TakesSessions();
  // The endpoint no longer answers, for this reason: its sessions end soon, and it takes no more.
  void GiveUp(const absl::Status& reason);
  // Whether a further endpoint in its place would have room for sessions.
  bool worth_replacing() const;
  // Where the next session's number is looked for.
  uint16_t next_number() const { return sessions_.next(); }

  // The endpoint is not polled any more. A peer may be sending to it still, so closing it waits for
  // that (Reactor::Close).
  void EndPolling();

  bool live() const { return !sessions_.empty(); }
  // No session, and nothing of former ones is under way: there is nothing to poll for.
  bool settled() const;

  // See Executor::OpenSession.
  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      const bootstrap::OpenSessionRequest& request, Notification notification,
      transport::HostBuffer request_window, transport::HostBuffer response_staging,
      const DataKeys& data_keys, std::shared_ptr<UsageMeter> meter);
  ExecutorSession* Find(SessionKey key) const { return sessions_.Find(key); }
  // The session must live.
  void EndSession(uint16_t number);

  // Whether responses that are ready have still to leave, and can.
  bool finishing() const;
  // Counts messages that the endpoint has dropped since the last time.
  void CountStrayMessages();
  // See SessionScheduler::Publish.
  void Publish() { scheduler_.Publish(); }
  // Ends all sessions. Only the destructor and Counters may be called after this.
  void EndAll();

  ExecutorCounters Counters() const;

  void OnToken(uint64_t token) override;
  void OnTick(int64_t now_ns) override;

 private:
  ABSL_ATTRIBUTE_NOINLINE void TakeRareToken(uint64_t token);
  void FailSession(uint16_t number, const absl::Status& status);

  const uint16_t fabric_;
  const transport::FabricChoice choice_;
  ExecutorShared* const shared_;
  const transport::ReactorOptions options_;

  absl::Mutex open_mutex_;         // one thread opens
  std::atomic<bool> open_{false};  // reactor_ is there, and stays
  std::atomic<bool> healthy_{true};
  std::atomic<uint32_t> live_sessions_{0};
  std::unique_ptr<transport::Reactor> reactor_;

  SessionScheduler scheduler_;
  SessionNumbers sessions_;  // their destructors use the scheduler's ring, and the reactor
  int64_t next_memory_look_ns_ = 0;
  std::vector<uint16_t> failed_;  // sessions that can no longer answer, until the next tick
  ExecutorCounters ended_;        // Counters() of sessions that have ended
  uint64_t stray_messages_ = 0;   // that are counted in shared_
  bool quiet_ = true;             // no peer's write can be under way to the endpoint
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_ENDPOINT_H_
