// One client's session, as its executor sees it: the request window, the response staging, and the
// checks between a doorbell and a function. Driver thread of the executor's reactor only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_EXECUTOR_SESSION_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_EXECUTOR_SESSION_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/executor/bulk/bulk_session.h"
#include "src/invoke/executor/session/call_control.h"
#include "src/invoke/executor/session/doorbell_queue.h"
#include "src/invoke/executor/executor_watch.h"
#include "src/invoke/executor/session/turn_ring.h"
#include "src/invoke/executor/usage_meter.h"
#include "src/invoke/function/function_registry.h"
#include "src/invoke/wire/drop_counters.h"
#include "src/invoke/wire/message_authenticator.h"
#include "src/invoke/wire/message_batch.h"
#include "src/invoke/wire/sequence_window.h"
#include "src/invoke/wire/wire.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

// A response that is ready waits for others of its turn no longer than this.
inline constexpr int64_t kCoalesceNs = 5'000;

// A session's turn while others wait: so many messages, or as many as begin in so long.
inline constexpr int32_t kQuantumCalls = 32;
inline constexpr int64_t kQuantumNs = 50'000;

// What each function has lately taken, in nanoseconds, by id. An executor's; a function that has
// not been timed counts as slow.
class FunctionTimes {
 public:
  explicit FunctionTimes(size_t functions) : ns_(functions, INT64_MAX) {}

  bool IsSlow(uint16_t id) const { return ns_[id] > kCoalesceNs; }

  // Makes room for further functions, not timed yet.
  void Grow(size_t functions) { ns_.resize(functions, INT64_MAX); }

  // So fast that looking at the clock would cost as much.
  bool IsTiny(uint16_t id) const { return ns_[id] <= kTinyNs; }

  // Slow is believed at once, fast only by and by.
  void Add(uint16_t id, int64_t ns) {
    ns_[id] = ns_[id] == INT64_MAX ? ns : std::max(ns, ns_[id] - ns_[id] / 8);
  }

 private:
  static constexpr int64_t kTinyNs = 200;

  std::vector<int64_t> ns_;
};

struct ExecutorSessionCounters {
  uint64_t executed = 0;  // functions run
  uint64_t refused = 0;   // answered without running
  uint64_t bytes_in = 0;  // as UsageCounters
  uint64_t bytes_out = 0;
  uint64_t busy_ticks = 0;  // function time
  DropCounters dropped;
};

class ExecutorSession final : public transport::OperationOwner,
                              public TurnRing<ExecutorSession>::Member {
 public:
  // What a session needs besides the client's request. The buffers are as large as the window.
  struct Parts {
    transport::Reactor* reactor = nullptr;
    const FunctionRegistry* functions = nullptr;
    std::shared_ptr<const bootstrap::FunctionFilter> filter;  // nullptr: all of them
    ExecutorWatch* watch = nullptr;                           // the executor's
    const std::atomic<bool>* draining = nullptr;              // the executor's
    FunctionTimes* times = nullptr;                           // the executor's
    DropCounters* dropped = nullptr;                          // the executor's, shared; or nullptr
    std::shared_ptr<UsageMeter> meter;        // of this session; nullptr: nobody reads it
    std::shared_ptr<BulkBudget> bulk_budget;  // the worker's; nullptr: no bulk calls
    // Told the number when the session needs Continue in every turn, unless it is there; or
    // nullptr.
    std::vector<uint16_t>* unfinished = nullptr;
    // Where the session waits for its turn while doorbells of its own wait.
    TurnRing<ExecutorSession>* ring = nullptr;
    std::vector<uint16_t>* failed = nullptr;  // told the number if the session fails; or nullptr
    uint16_t number = 0;                      // in request immediates
    uint32_t epoch = 0;
    uint64_t first_sequence = 1;
    transport::Notification notification = transport::Notification::kWriteImm;
    DataAuth data_auth = DataAuth::kOff;
    DataKeys data_keys;  // unless that is kOff
    transport::HostBuffer request_window;
    transport::HostBuffer response_staging;
  };

  // Inserts the client's endpoint and registers the windows.
  static absl::StatusOr<std::unique_ptr<ExecutorSession>> Open(
      Parts parts, const bootstrap::OpenSessionRequest& request);

  // The fence: nothing is posted any more, outstanding operations complete for nobody, the windows
  // are retired (Reactor::Retire).
  ~ExecutorSession() override;

  // The session's turn begins: a whole quantum is left.
  void BeginQuantum() {
    quantum_left_ = kQuantumCalls;
    clock_is_now_ = false;
  }
  int32_t quantum_left() const { return quantum_left_; }

  // The peer rang for `cell`. Runs the messages of that write, as far as the quantum goes; the rest
  // waits, and the session with it. `turn_began_ns` is when the executor began with what had
  // arrived by then, this write included: what ran before it since is held against deadlines. 0:
  // nothing else had arrived.
  void OnDoorbell(MessageKind kind, uint32_t cell, int64_t turn_began_ns);

  // The peer rang for `cell` with this upper half of an immediate: a message that repeats the
  // header which the window has there. Makes that header whole, so that the doorbell is as any
  // other. False if it cannot be the message's: dropped.
  bool RestoreSequence(uint32_t cell, uint32_t upper);

  // The peer rang at `arrived_ns`, and others are to go first: the doorbell waits, and the session
  // with it.
  void Wait(MessageKind kind, uint32_t cell, int64_t arrived_ns);
  // Takes one quantum of what waits. Waits again if that was not all. Returns how much of the
  // quantum is used up, in calls.
  int32_t Serve();

  // Posts pending responses. False if some had to stay for want of a slot.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Flush() { return responses_.FlushInline(); }
  bool pending() const { return responses_.pending(); }

  // What has become of work that takes more than a turn.
  enum class Progress : uint8_t {
    kDone,     // nothing is left
    kWaiting,  // for transfers: a completion will come
    kMoving,   // there is more to do at once
  };
  // Moves bulk calls on, runs the function of one that is ready, and flushes.
  Progress Continue();

  // What the client has registered; nullptr: this executor takes no large payloads.
  const std::shared_ptr<SessionWindows>& windows() const { return windows_; }
  // What has become of the request with that sequence.
  bootstrap::RequestState FindRequest(uint64_t sequence);
  const MessageBatch& responses() const { return responses_; }

  void SetNotification(transport::Notification notification);

  // The executor has spent so long on this session's requests.
  void AddBusy(uint64_t ticks) { counters_.busy_ticks += ticks; }
  // Whether somebody has said that the session is to be published. Publish takes it back.
  bool unpublished() const { return unpublished_; }
  void set_unpublished() { unpublished_ = true; }
  // Writes what has been counted to the session's meter, and adds what is new since the last time
  // to `sum`.
  void Publish(const TickScale& scale, UsageCounters* sum);

  // OK, or why the session can no longer answer its client.
  const absl::Status& failure() const { return failure_; }

  bootstrap::WindowDescriptor request_window() const;
  // Whether a probe of the client has come.
  bool heard() const { return heard_; }
  uint16_t number() const { return parts_.number; }
  uint32_t epoch() const { return parts_.epoch; }
  const ExecutorSessionCounters& counters() const { return counters_; }

  void OnOperationFailed(const transport::Operation& operation,
                         const absl::Status& status) override;

 private:
  ExecutorSession(Parts parts, const transport::Peer* peer, transport::MemoryRegion requests,
                  transport::MemoryRegion staging, const bootstrap::OpenSessionRequest& request,
                  const WindowGeometry& geometry,
                  std::unique_ptr<SessionAuthenticators> authenticators, DoorbellQueue waiting);

  bool Admit(const HeaderSnapshot& snapshot, const RequestHeader& header,
             const std::byte** payload);
  // Headers go to what is rarely called by value: whose address is taken stays in memory, for every
  // message. nullptr: dropped.
  ABSL_ATTRIBUTE_NOINLINE const std::byte* OpenAuthenticated(HeaderSnapshot snapshot,
                                                             uint64_t sequence,
                                                             uint32_t payload_bytes,
                                                             const std::byte* payload);
  const std::byte* KeepInput(const RequestHeader& header, const std::byte* payload, uint32_t cell);
  bool CountVerdict(SequenceWindow::Verdict verdict);
  ABSL_ATTRIBUTE_NOINLINE bool QuantumIsOver();
  ABSL_ATTRIBUTE_NOINLINE void LeaveRest(MessageKind kind, uint32_t cell);
  ABSL_ATTRIBUTE_NOINLINE void Drop(uint64_t DropCounters::*reason);
  // Nullptr if there is none with this id, or none for this client.
  const FunctionEntry* FindFunction(uint16_t id) const;
  // FunctionEntry's.
  ABSL_ATTRIBUTE_NOINLINE bool AsksForMore(RequestHeader request, const std::byte* payload) const;
  bool Unclocked(uint16_t function_id, uint32_t deadline_us);
  // `flags` is the header's byte in the window, where the client may still write.
  void Run(const RequestHeader& header, const std::byte* payload, const std::byte* flags);
  ABSL_ATTRIBUTE_NOINLINE bool WasCancelledMeanwhile(const std::byte* flags);
  ABSL_ATTRIBUTE_NOINLINE int64_t DeadlineOf(uint32_t deadline_us, bool clocked) const;
  // Respond, for other source files.
  ABSL_ATTRIBUTE_NOINLINE void RespondTo(const RequestHeader& request, StatusCode status,
                                         uint32_t payload_bytes, uint32_t detail);
  // The first reason stays.
  void Fail(const absl::Status& reason);
  // What is no plain request: cancelled, or bulk.
  ABSL_ATTRIBUTE_NOINLINE void RunOther(RequestHeader header, const std::byte* payload,
                                        uint32_t cell);
  ABSL_ATTRIBUTE_NOINLINE void StartBulk(const RequestHeader& header, const std::byte* payload,
                                         uint32_t cell);
  bool Held(uint64_t sequence);
  bool ContinueBulk();
  void RunBulk(BulkCall* call);
  void RespondBulk(const BulkCall& call);
  void Respond(const RequestHeader& request, StatusCode status, uint32_t payload_bytes,
               uint32_t detail);
  // Queues a response that is no plain one: MessageBatch::IsPlain.
  ABSL_ATTRIBUTE_NOINLINE void AddSpecial(ResponseHeader header, uint32_t cell);
  ABSL_ATTRIBUTE_NOINLINE void AnswerProbe(RequestHeader request, const std::byte* payload);
  ABSL_ATTRIBUTE_NOINLINE void Refuse(RequestHeader request, StatusCode status,
                                      absl::string_view message);
  ABSL_ATTRIBUTE_NOINLINE void RefuseUnknown(RequestHeader request);
  // As failed_ says.
  ABSL_ATTRIBUTE_NOINLINE void RespondFailure(RequestHeader request);

  Parts parts_;
  const uint64_t watched_as_;  // ExecutorWatch::SessionOf
  const transport::Peer* peer_;
  WindowGeometry geometry_;
  transport::MemoryRegion requests_;
  transport::MemoryRegion staging_;
  MessageBatch responses_;
  CallControl control_;
  std::unique_ptr<SessionAuthenticators> authenticators_;  // nullptr: messages have no tags
  const std::shared_ptr<SessionWindows> windows_;
  std::unique_ptr<BulkSession> bulk_;  // nullptr: there has been no bulk call
  SequenceWindow sequences_;
  DoorbellQueue waiting_;
  int32_t quantum_left_ = 0;
  int64_t quantum_began_ns_ = 0;  // of the last one that Serve began
  int64_t turn_began_ns_ = 0;     // 0: nothing has run before the message at hand
  int64_t clock_ns_ = 0;          // when the clock was last read
  bool clock_is_now_ = false;     // nothing has run since it was
  uint32_t unclocked_ = 0;        // tiny functions that have
  int64_t pending_since_ns_ = 0;  // when the first of the pending responses was begun, or before
  ExecutorSessionCounters counters_;
  bool unpublished_ = false;  // has been busy since Publish
  bool heard_ = false;
  uint64_t scaled_ticks_ = 0;  // of counters_.busy_ticks, what is in published_
  UsageCounters published_;
  absl::Status failure_;
  CallOutcome failed_;  // of the function that has failed last
  std::array<char, INVOKER_MIN_ERROR_CAPACITY> error_text_ = {};  // zeros between calls
  // Of the request that was asked for and has been answered, where that is not delivered.
  uint64_t undelivered_ = 0;  // its sequence
  int64_t undelivered_since_ns_ = 0;
};

inline const FunctionEntry* ExecutorSession::FindFunction(uint16_t id) const {
  const FunctionEntry* function = parts_.functions->Find(id);
  if (ABSL_PREDICT_TRUE(parts_.filter == nullptr)) return function;
  return parts_.filter->Allows(id) ? function : nullptr;
}

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_EXECUTOR_SESSION_H_
