// The bulk calls of one session at its executor. Driver thread of the executor's reactor only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_BULK_BULK_SESSION_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_BULK_BULK_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/invoke/executor/bulk/bulk_call.h"
#include "src/invoke/executor/session_windows.h"
#include "src/invoke/wire/drop_counters.h"
#include "src/invoke/wire/wire.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

// What a call is told that an executor does not run any more. Which of the two it is, only a
// lease's server knows, and tells with the lease's end.
inline constexpr absl::string_view kTakesNoMoreCalls =
    "it takes no more calls: the worker is shutting down, or the lease is over";

class BulkSession {
 public:
  // `reactor` outlives the session; `windows` are the client's.
  BulkSession(transport::Reactor* reactor, std::shared_ptr<BulkBudget> budget,
              std::shared_ptr<const SessionWindows> windows)
      : reactor_(reactor), budget_(std::move(budget)), windows_(std::move(windows)) {}

  struct Refusal {
    StatusCode status;
    std::string reason;
    uint64_t DropCounters::*counted;  // nullptr: a client that keeps to the protocol may ask for it
  };
  // Starts the call of a request whose header has been admitted, or refuses to: too many at a time,
  // too. `output` is the response's place.
  // The payload stays as it is until the response, as every request's.
  // `flags` is the header's byte where the client may still change it.
  std::optional<Refusal> Start(const RequestHeader& request, const std::byte* payload,
                               const std::byte* flags, absl::Span<std::byte> output,
                               int64_t now_ns);

  bool active() const { return !calls_.empty(); }
  bool Has(uint64_t sequence) const;

  // Moves every call on, in the order of their requests. True if anything moved. A worker that is
  // draining stops those that have not run.
  bool Advance(int64_t now_ns, bool draining);

  // Whether the transfers of a call do not end any more.
  bool stalled() const;

  // A call whose function is to run now; nullptr if there is none. It stays the session's.
  BulkCall* FindReady();
  // The calls that have ended, in the order of their requests, which are the caller's now.
  std::vector<std::unique_ptr<BulkCall>> TakeEnded();

 private:
  absl::StatusOr<std::shared_ptr<ClientWindow>> FindWindow(uint16_t number, uint64_t offset,
                                                           uint64_t length, bool writes) const;

  transport::Reactor* const reactor_;
  const std::shared_ptr<BulkBudget> budget_;
  const std::shared_ptr<const SessionWindows> windows_;
  std::deque<std::unique_ptr<BulkCall>> calls_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_BULK_BULK_SESSION_H_
