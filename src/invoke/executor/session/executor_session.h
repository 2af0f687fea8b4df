// One client's session at its executor.
//
//   doorbell -> RequestReader (validates) -> FunctionRunner -> ResponseWriter
//
// SessionTurn says when other sessions go first, SessionUsage counts, and BulkSession has the calls
// whose payloads lie in registered memory of the client. Executor thread only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_EXECUTOR_SESSION_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_EXECUTOR_SESSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/executor/bulk/bulk_session.h"
#include "src/invoke/executor/executor_watch.h"
#include "src/invoke/executor/session/doorbell_queue.h"
#include "src/invoke/executor/session/function_runner.h"
#include "src/invoke/executor/session/function_times.h"
#include "src/invoke/executor/session/request_reader.h"
#include "src/invoke/executor/session/response_writer.h"
#include "src/invoke/executor/session/session_deferrals.h"
#include "src/invoke/executor/session/session_turn.h"
#include "src/invoke/executor/session/session_usage.h"
#include "src/invoke/executor/session/turn_ring.h"
#include "src/invoke/function/function_registry.h"
#include "src/invoke/wire/message_authenticator.h"
#include "src/invoke/wire/message_batch.h"
#include "src/invoke/wire/wire.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class ExecutorSession final : public transport::OperationOwner,
                              public TurnRing<ExecutorSession>::Member {
 public:
  // Everything that a session needs besides the client's request. All pointers outlive the session.
  struct Parts {
    transport::Reactor* reactor = nullptr;
    const FunctionRegistry* functions = nullptr;
    std::shared_ptr<const bootstrap::FunctionFilter> filter;  // nullptr: all functions
    std::string tenant;                                       // for functions that ask
    ExecutorWatch* watch = nullptr;                           // the executor's
    const std::atomic<bool>* draining = nullptr;              // the executor's
    FunctionTimes* times = nullptr;                           // the executor's
    DropCounters* dropped = nullptr;          // the executor's, shared; nullptr: none
    std::shared_ptr<UsageMeter> meter;        // this session's; nullptr: none
    FunctionMeters::Row function_meters;      // the executor's on this fabric
    const TickScale* scale = nullptr;         // the executor's; nullptr: without function_meters
    std::shared_ptr<BulkBudget> bulk_budget;  // the worker's; nullptr: no bulk calls
    DeferredCallSet* deferred = nullptr;      // the executor's; nullptr: none can be deferred
    std::shared_ptr<DataStore> store;         // the executor's; nullptr: it stores no data
    // Gets the session's number when Continue is to be called in every turn, unless the number is
    // there already. May be nullptr.
    std::vector<uint16_t>* unfinished = nullptr;
    // Where the session waits for its turn while it has doorbells that wait.
    TurnRing<ExecutorSession>* ring = nullptr;
    // Gets the session's number if the session fails. May be nullptr.
    std::vector<uint16_t>* failed = nullptr;
    uint16_t number = 0;  // in request immediates
    uint32_t epoch = 0;
    uint64_t first_sequence = 1;
    Notification notification = Notification::kWriteImm;
    DataAuth data_auth = DataAuth::kOff;
    DataKeys data_keys;  // unless data_auth is kOff
    // Both as large as the client's window.
    transport::HostBuffer request_window;
    transport::HostBuffer response_staging;
  };

  // Inserts the client's endpoint and registers the windows.
  static absl::StatusOr<std::unique_ptr<ExecutorSession>> Open(
      Parts parts, const bootstrap::OpenSessionRequest& request);

  // The fence: posts nothing any more, lets go of outstanding operations, and retires the windows
  // (Reactor::Retire).
  ~ExecutorSession() override;

  // The session's turn begins.
  void BeginQuantum() { turn_.Begin(); }
  int32_t quantum_left() const { return turn_.calls_left(); }

  // The peer rang for `cell`. Runs the messages of that write until the turn is over; the rest
  // waits. `turn_began_ns` is when the executor began with all that had arrived by then, this write
  // included: time since then counts against deadlines. 0: nothing else had arrived.
  void OnDoorbell(MessageKind kind, uint32_t cell, int64_t turn_began_ns);

  // The peer rang for `cell` with this upper half of an immediate: the message repeats the header
  // that the window has there. Completes that header; then the doorbell is like any other. False:
  // the message is dropped.
  bool RestoreSequence(uint32_t cell, uint32_t upper);

  // The peer rang at `arrived_ns`, and other sessions go first.
  void Wait(MessageKind kind, uint32_t cell, int64_t arrived_ns);
  // Serves doorbells that wait, for one quantum. If some are left the session waits for another
  // turn. Returns how much of the quantum is used up, in calls.
  int32_t Serve();

  // Posts pending responses. False if some had to stay for want of a slot.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Flush() { return responses_.Flush(); }

  // The rest of work that takes more than a turn.
  enum class Progress : uint8_t {
    kDone,     // nothing
    kWaiting,  // transfers: a completion will come
    kMoving,   // work that can go on at once
  };
  // Moves bulk calls on, answers calls that were deferred, and flushes.
  Progress Continue();
  // See BulkSession.
  void GiveBackIdleMemory(int64_t now_ns) { bulk_.GiveBackIdleMemory(now_ns); }
  // See SessionDeferrals.
  void LookForCancelled() { deferrals_.LookForCancelled(); }

  // The client's registered memory; nullptr: this executor takes no large payloads.
  const std::shared_ptr<SessionWindows>& windows() const { return bulk_.windows(); }
  // The state of the request with that sequence.
  bootstrap::RequestState FindRequest(uint64_t sequence);
  const MessageBatch& responses() const { return responses_.batch(); }

  void SetNotification(Notification notification) { responses_.SetNotification(notification); }

  SessionUsage& usage() { return usage_; }
  const ExecutorSessionCounters& counters() const { return usage_.counters(); }

  // OK, or why the session can no longer answer its client.
  const absl::Status& failure() const { return failure_; }

  bootstrap::WindowDescriptor request_window() const { return requests_.descriptor(); }
  // Whether a probe of the client has come.
  bool heard() const { return heard_; }
  uint16_t number() const { return number_; }
  uint32_t epoch() const { return requests_.epoch(); }

  void OnOperationFailed(const transport::Operation& operation,
                         const absl::Status& status) override;
  void OnPostedLater() override { responses_.WakeClient(); }

 private:
  ExecutorSession(Parts parts, const transport::Peer* peer, transport::MemoryRegion requests,
                  transport::MemoryRegion staging, const bootstrap::OpenSessionRequest& request,
                  const WindowGeometry& geometry,
                  std::unique_ptr<SessionAuthenticators> authenticators, DoorbellQueue waiting);

  // Headers go by value to functions that are rarely called: a header whose address is taken would
  // stay in memory, for every message.

  void Run(const RequestHeader& header, const std::byte* payload, const std::byte* flags);
  ABSL_ATTRIBUTE_NOINLINE void RunProbe(RequestHeader header, const std::byte* payload);
  // A bulk request, one to the data store, or one that is cancelled already.
  ABSL_ATTRIBUTE_NOINLINE void RunOther(RequestHeader header, const std::byte* payload,
                                        const std::byte* flags, uint32_t cell);
  bool CanStore(const RequestHeader& header);
  void Store(const RequestHeader& header, const std::byte* payload);
  ABSL_ATTRIBUTE_NOINLINE void Refuse(RequestHeader header, StatusCode status,
                                      absl::string_view message);
  ABSL_ATTRIBUTE_NOINLINE void RefuseUnknown(RequestHeader header);
  // Or keeps the call, if its answer comes later.
  ABSL_ATTRIBUTE_NOINLINE void RespondFailure(RequestHeader header, const std::byte* flags);
  void AnswerDeferred(DeferredCall* call);
  void CallContinue();
  ABSL_ATTRIBUTE_NOINLINE bool WasCancelledMeanwhile(const std::byte* flags);
  ABSL_ATTRIBUTE_NOINLINE void LeaveRest(MessageKind kind, uint32_t cell);
  bool draining() const { return draining_->load(std::memory_order_relaxed); }
  // The first reason stays.
  void Fail(const absl::Status& reason);

  transport::Reactor* const reactor_;
  const transport::Peer* const peer_;
  const std::atomic<bool>* const draining_;
  FunctionTimes* const times_;
  std::vector<uint16_t>* const unfinished_;
  TurnRing<ExecutorSession>* const ring_;
  std::vector<uint16_t>* const failed_;
  const uint16_t number_;
  bool heard_ = false;
  const std::unique_ptr<SessionAuthenticators> authenticators_;  // nullptr: messages have no tags
  SessionUsage usage_;
  SessionTurn turn_;
  DoorbellQueue waiting_;
  RequestReader requests_;
  FunctionRunner functions_;
  ResponseWriter responses_;
  SessionDeferrals deferrals_;
  BulkSession bulk_;
  const std::shared_ptr<DataStore> store_;
  absl::Status failure_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_EXECUTOR_SESSION_H_
