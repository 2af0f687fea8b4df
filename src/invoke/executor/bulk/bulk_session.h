// The bulk calls of one session at its executor: those whose input or output lies in registered
// windows of the client. Executor thread only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_BULK_BULK_SESSION_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_BULK_BULK_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/invoke/executor/bulk/bulk_call.h"
#include "src/invoke/executor/session/function_runner.h"
#include "src/invoke/executor/session/response_writer.h"
#include "src/invoke/executor/session/session_deferrals.h"
#include "src/invoke/executor/session/session_usage.h"
#include "src/invoke/executor/session_windows.h"
#include "src/invoke/executor/store/data_store.h"
#include "src/invoke/wire/drop_counters.h"
#include "src/invoke/wire/wire.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

// Why an executor runs no more calls, as callers are told. Only the lease's server knows which of
// the two it is, and says so with the lease's end.
inline constexpr absl::string_view kTakesNoMoreCalls =
    "it takes no more calls: the worker is shutting down, or the lease is over";

class BulkSession {
 public:
  // All pointers outlive the session. `budget` is the worker's; nullptr: every bulk call is
  // refused. `peer` is the client's address. Without `store` there are no calls with kStore.
  BulkSession(transport::Reactor* reactor, std::shared_ptr<BulkBudget> budget, fi_addr_t peer,
              FunctionRunner* functions, ResponseWriter* responses, SessionUsage* usage,
              SessionDeferrals* deferrals, DataStore* store);

  // nullptr without a budget.
  const std::shared_ptr<SessionWindows>& windows() const { return windows_; }

  // Starts the call of a valid request for a function that exists, or refuses it: false. The
  // payload stays as it is until the response. `flags` is the header's byte in the window, where
  // the client may still change it.
  bool Start(const RequestHeader& request, const std::byte* payload, const std::byte* flags,
             int64_t now_ns);

  bool active() const { return !calls_.empty(); }
  bool Has(uint64_t sequence) const;

  // Moves every call on, in the order of their requests, runs the function of one call that is
  // ready, and answers calls that have ended. True if anything moved. A worker that is draining
  // stops calls whose functions have not run.
  bool Continue(int64_t now_ns, bool draining);

  // A call that was deferred is answered now. It may have been stopped meanwhile.
  void FinishDeferred(DeferredCall* deferred, int64_t now_ns);

  // Whether the transfers of a call do not end any more.
  bool stalled() const;

  // Now and then: SpareMemory::ClearIfIdle.
  void GiveBackIdleMemory(int64_t now_ns) { spare_.ClearIfIdle(now_ns); }

  // Ends all calls. Transfers that are under way complete for nobody.
  void Clear() { calls_.clear(); }

 private:
  struct Refusal {
    StatusCode status;
    std::string reason;
    uint64_t DropCounters::*counted;  // nullptr: a client that keeps to the protocol may ask for it
  };

  static Refusal Invalid(absl::string_view why);
  std::optional<Refusal> Add(const RequestHeader& request, const std::byte* payload,
                             const std::byte* flags, int64_t now_ns);
  absl::StatusOr<std::shared_ptr<ClientWindow>> FindWindow(uint16_t number, uint64_t offset,
                                                           uint64_t length, bool writes) const;
  bool Advance(int64_t now_ns, bool draining);
  // Whether transfers are under way, in which the client may have to take part.
  bool moves_data() const;
  void Run(BulkCall* call, int64_t now_ns);
  void Store(BulkCall* call, int64_t now_ns);
  void Respond(const BulkCall& call, int64_t now_ns);

  transport::Reactor* const reactor_;
  const std::shared_ptr<BulkBudget> budget_;
  const std::shared_ptr<SessionWindows> windows_;
  FunctionRunner* const functions_;
  ResponseWriter* const responses_;
  SessionUsage* const usage_;
  SessionDeferrals* const deferrals_;
  DataStore* const store_;
  SpareMemory spare_;
  std::vector<std::unique_ptr<BulkCall>> calls_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_BULK_BULK_SESSION_H_
