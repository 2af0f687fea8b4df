// One endpoint of one executor, and the sessions on it by number.
//
// The endpoint is opened at the first session. From then on it is polled while it has sessions;
// after the last one, until nothing that they left is under way any more (settled()). Then it is
// left as it is, idle but open, for the next session: closing it would gain nothing and could cost
// a late peer its connection. One that takes no more sessions is replaced (EndpointSet).
//
// The executor's thread, for everything but Open and the accessors that say so.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_ENDPOINT_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_ENDPOINT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/executor/executor_watch.h"
#include "src/invoke/executor/session/executor_session.h"
#include "src/invoke/executor/session/turn_ring.h"
#include "src/invoke/executor/usage_meter.h"
#include "src/invoke/function/function_registry.h"
#include "src/invoke/wire/drop_counters.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

// Sums over all sessions, those that have ended included.
struct ExecutorCounters {
  uint64_t executed = 0;
  uint64_t refused = 0;
  DropCounters dropped;  // bad messages
  uint64_t live_sessions = 0;
  // What the endpoints hold for peers, those included that have gone and are not forgotten yet.
  uint64_t peers = 0;       // in the address vectors
  uint64_t regions = 0;     // that peers may write to
  uint64_t peers_kept = 0;  // of `peers`: gone, but the provider completes no operations to them
  // Addresses that peers of ended sessions may still write to, in bytes, and in how many places.
  uint64_t quarantined_bytes = 0;
  uint64_t quarantined_ranges = 0;
  // As UsageCounters.
  uint64_t function_ns = 0;
  uint64_t polling_ns = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;

  void Add(const ExecutorCounters& other);
};

// What a session is called outside: unique for the life of the executor, unlike the 16-bit number.
struct SessionKey {
  uint16_t number = 0;
  uint32_t epoch = 0;
  uint16_t fabric = 0;  // which of the executor's
};

// What the ports of one executor have in common. The executor's thread writes all of it but
// `draining`; the atomics may be read by any.
struct ExecutorShared {
  const FunctionRegistry* functions = nullptr;
  ExecutorWatch* watch = nullptr;  // the thread's to write; what has been dropped is there, too
  // A session has ended by itself; it is fenced already. Must not block on the executor.
  std::function<void(SessionKey, const absl::Status&)> on_session_failed;
  // A session has ended whose client never got a probe here. Must not block; nullptr: nobody asks.
  std::function<void()> on_unheard;
  FunctionTimes times{0};
  uint32_t index = 0;                       // the executor's
  uint32_t next_epoch = 1;                  // of all ports' sessions, so that no two have the same
  bool rearrange = false;                   // a port has got its first session, or lost its last
  std::shared_ptr<BulkBudget> bulk_budget;  // of all the worker's executors
  std::shared_ptr<transport::QuarantineTotal> quarantine_total;  // the same; nullptr: no limit
  TickScale scale;
  UsageCounters usage;  // of all ports' sessions, those that have ended included
  std::atomic<uint32_t> live_sessions{0};
  std::atomic<bool> busy{false};
  std::atomic<bool> draining{false};
};

class ExecutorEndpoint final : public transport::ReactorHandler {
 public:
  // `shared` outlives the port. `fabric` is the port's place in the executor, `first_number` where
  // the numbering of sessions begins.
  ExecutorEndpoint(uint16_t fabric, transport::FabricChoice choice, ExecutorShared* shared,
                   uint16_t first_number, const transport::ReactorOptions& options);
  // Closes the endpoint or sets it aside (Reactor::Dispose). Any thread, once the executor's has
  // ended.
  ~ExecutorEndpoint() override;

  // Any thread, and several at once: opens the endpoint if it is not open yet. Blocks for some
  // milliseconds then, which is why the executor's thread does not do it: calls on other fabrics
  // would wait.
  absl::Status Open() ABSL_LOCKS_EXCLUDED(open_mutex_);

  // Any thread.
  const transport::Profile& profile() const { return choice_.profile; }
  const transport::FabricChoice& choice() const { return choice_; }
  transport::ReactorUse use() const { return options_.use; }
  // False once the endpoint can no longer be trusted (Reactor::health), or has no room for more
  // sessions: it takes none any more. As of the last tick.
  bool healthy() const { return healthy_.load(std::memory_order_relaxed); }
  bool open() const { return open_.load(std::memory_order_acquire); }
  uint32_t live_sessions() const { return live_sessions_.load(std::memory_order_relaxed); }

  // The rest needs an open endpoint.

  transport::Reactor* reactor() const { return reactor_.get(); }

  // One turn: what has arrived runs, and responses leave. True if anything happened.
  bool Turn() {
    turn_began_ = false;
    int events = reactor_->Poll();
    if (ABSL_PREDICT_FALSE(!ring_.empty())) events = ServeRing(events);
    if (gathering_ != nullptr) FlushGathering();
    if (ABSL_PREDICT_FALSE(!dirty_.empty())) moving_ = FlushDirty();
    if (turn_began_) shared_->busy.store(false, std::memory_order_relaxed);
    return events != 0 || (!dirty_.empty() && moving_);
  }

  // OK, or why it takes no more sessions now.
  absl::Status TakesSessions();
  // It no longer answers, for this reason: its sessions end soon, and it takes no more.
  void GiveUp(const absl::Status& reason);
  // Whether it helps then to have another one in its place.
  bool worth_replacing() const;
  // Where the next session's number is looked for.
  uint16_t next_number() const { return static_cast<uint16_t>(next_number_); }

  // It is not polled any more, and must not be closed in the middle of what a peer may be sending.
  void PutAway();

  bool live() const { return !numbers_.empty(); }
  // No session, and nothing of former ones is under way: there is nothing to poll for.
  bool settled() const;

  // As Executor's.
  absl::StatusOr<bootstrap::OpenSessionReply> OpenSession(
      const bootstrap::OpenSessionRequest& request, transport::Notification notification,
      transport::HostBuffer request_window, transport::HostBuffer response_staging,
      const DataKeys& data_keys, std::shared_ptr<UsageMeter> meter);
  ExecutorSession* Find(SessionKey key);
  // The session must live.
  void EndSession(uint16_t number);

  // Whether responses that are ready have still to leave, and can.
  bool finishing() const;
  // Counts what the endpoint has dropped since the last time.
  void CountStrayMessages();
  // Adds what sessions have used since the last time to the executor's usage, and shows it in their
  // meters.
  void Publish();
  // Ends what is left. Nothing may be called after it but the destructor and Counters.
  void EndAll();

  ExecutorCounters Counters() const;

  void OnToken(uint64_t token) override;
  void OnTick(int64_t now_ns) override;

 private:
  bool MustWait(const ExecutorSession& session) const;
  ABSL_ATTRIBUTE_NOINLINE bool KeepForLater(ExecutorSession* session, MessageKind kind,
                                            uint32_t cell);
  int ServeRing(int events);
  ABSL_ATTRIBUTE_NOINLINE void TakeRareToken(uint64_t token);
  void Gather(ExecutorSession* session, uint16_t number);
  void EndGathering();
  // The session, which has just been busy for so long, is to be published: soon, or at once if that
  // was long.
  ABSL_ATTRIBUTE_NOINLINE void PublishLater(ExecutorSession* session, uint16_t number,
                                            uint64_t ticks);
  void FlushGathering();
  bool FlushDirty();
  void FailSession(uint16_t number, const absl::Status& status);
  absl::StatusOr<uint16_t> FreeNumber();

  const uint16_t fabric_;
  const transport::FabricChoice choice_;
  ExecutorShared* const shared_;
  const transport::ReactorOptions options_;

  absl::Mutex open_mutex_;         // one thread opens
  std::atomic<bool> open_{false};  // reactor_ is there, and stays
  std::atomic<bool> healthy_{true};
  std::atomic<uint32_t> live_sessions_{0};
  std::unique_ptr<transport::Reactor> reactor_;

  // Sessions whose doorbells wait for their turns.
  TurnRing<ExecutorSession> ring_;
  std::vector<std::unique_ptr<ExecutorSession>> sessions_;  // by number; empty slots are nullptr
  // The session that was served last in this turn, whose responses gather until the turn ends or
  // another session has its turn.
  ExecutorSession* gathering_ = nullptr;
  uint16_t gathering_number_ = 0;
  uint64_t gathering_began_ticks_ = 0;
  std::vector<uint16_t> unpublished_;  // sessions that have been busy since Publish
  std::vector<uint16_t> dirty_;        // sessions with unfinished work, each once
  bool moving_ = false;                // of these, one can go on at once
  std::vector<uint16_t> failed_;       // sessions that can no longer answer, until the next tick
  std::vector<uint16_t> numbers_;      // of live sessions
  uint32_t next_number_;
  bool turn_began_ = false;      // a doorbell of this turn has been taken
  int64_t turn_began_ns_ = 0;    // when the first one was; 0: it came alone
  ExecutorCounters ended_;       // what ended sessions add to Counters()
  uint64_t stray_messages_ = 0;  // that are counted in shared_
  bool quiet_ = true;            // once ended: no peer's write can be under way to the endpoint
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_EXECUTOR_ENDPOINT_H_
