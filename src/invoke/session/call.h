// One call of a client's session, and the request that starts it.

#ifndef INVOKER_SRC_INVOKE_SESSION_CALL_H_
#define INVOKER_SRC_INVOKE_SESSION_CALL_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "invoker/client_options.h"
#include "invoker/response.h"
#include "src/bootstrap/messages/worker_status.h"
#include "src/invoke/session/call_waiter.h"
#include "src/invoke/wire/wire.h"

namespace invoker {

// A request about to be started.
struct CallRequest {
  MessageKind kind = MessageKind::kRequest;
  uint16_t function_id = 0;
  // Copied, unless `cells` says that it stands in staging already. With a `writer`: its size alone.
  absl::Span<const std::byte> input;
  HeldCells cells;              // a Buffer's, whose payload is `input`; or none
  bool* buffer_busy = nullptr;  // set until the request has been answered
  uint32_t response_capacity = 0;
  int64_t deadline_ns = 0;
  bool (*interrupted)() = nullptr;  // see CallOptions
  WhenFull when_full = WhenFull::kWaitForCalls;
  uint8_t flags = 0;  // the header's
  // Takes the highest cells, where a late answer is in no call's way (SessionCells).
  bool highest_cells = false;
  const InputWriter* writer = nullptr;  // used until the call has been started
};

// One call, from the allocation of its cells until its response has been handed over. Its caller
// owns it until ClientSession::Finish or Retire.
struct Call {
  enum class State : uint8_t {
    kFree,
    kOutstanding,  // posted or about to be
    kTimedOut,     // ended for its caller, by its deadline or because it was cancelled, but the
                   // cells wait for the response or the fence
    kDone,         // `status` and the payload are there
  };

  bool ended() const { return state >= State::kTimedOut; }

  State state = State::kFree;
  bool owns_request_cells = false;  // else a Buffer does
  bool detached = false;  // kTimedOut: the caller has let go, the slot waits for the response
  // The flags byte of its request is being written again. Its cells must not be reused meanwhile.
  bool marking = false;
  uint8_t flags = 0;      // its request's
  bool answered = false;  // kTimedOut and marking: the response has come
  uint8_t marks = 0;      // times that the flags byte has been written again
  uint64_t sequence = 0;
  HeldCells request;
  HeldCells response;
  uint16_t index = 0;  // this slot's
  uint32_t response_capacity = 0;
  uint32_t payload_bytes = 0;    // the response's
  int64_t deadline_ns = 0;       // MonotonicNs; 0: none
  uint64_t memory_capacity = 0;  // a bulk call's: of its output's window; 0: it has none
  bootstrap::FunctionCounts* counts = nullptr;  // its function's (CallMeters)
  absl::Status status;                          // OK until it has failed
  bool* buffer_busy = nullptr;                  // the Buffer's that the request lies in
  CallWaiter* waiter = nullptr;                 // a thread that sleeps until this call is done
  CallDone on_done;                             // an asynchronous call's callback
};

// Names a call, also once it has ended and its slot is another's. A value.
struct CallTicket {
  Call* call = nullptr;  // nullptr: it has not been started
  uint64_t sequence = 0;

  // Whether the call, and not another in its slot, is in this state.
  bool Is(Call::State state) const {
    return call != nullptr && call->state == state && call->sequence == sequence;
  }
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_CALL_H_
