// Reads the response window: finds the messages that a doorbell announces, validates each, and
// finds its call. A message that is not valid is dropped and counted by reason.
//
// Everything read here comes from the network. Not thread-safe.

#ifndef INVOKER_SRC_INVOKE_SESSION_RESPONSE_READER_H_
#define INVOKER_SRC_INVOKE_SESSION_RESPONSE_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/types/span.h"
#include "invoker/response.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/session/call.h"
#include "src/invoke/session/call_table.h"
#include "src/invoke/wire/drop_counters.h"
#include "src/invoke/wire/message_authenticator.h"
#include "src/invoke/wire/wire.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class ResponseReader {
 public:
  // The worker writes to `window`. `session` is the session's number in the immediates of its
  // responses. `reactor` outlives this.
  ResponseReader(transport::Reactor* reactor, transport::MemoryRegion window,
                 const WindowGeometry& geometry, uint16_t session);
  // Retires the window: the worker may still write to it.
  ~ResponseReader();
  ResponseReader(const ResponseReader&) = delete;
  ResponseReader& operator=(const ResponseReader&) = delete;

  // What the worker must know to write here.
  bootstrap::WindowDescriptor descriptor() const {
    return {window_.remote_base(), window_.size(), window_.key()};
  }

  // `authenticators` is nullptr in sessions without tags; else `geometry` has room for tags.
  void Attach(const WindowGeometry& geometry, uint32_t epoch,
              const SessionAuthenticators* authenticators);
  bool authenticated() const { return authenticators_ != nullptr; }

  // Whether the token announces whole responses of this session.
  bool IsDoorbell(uint64_t token) const { return token >> kCellBits == doorbell_; }
  // Takes a token that is not IsDoorbell. If it announces a response without its header, completes
  // the header in the window and returns a doorbell for it; the response is then validated like any
  // other. Else nothing. `repeats_headers`: MessageBatch's.
  std::optional<uint32_t> CompleteHeader(uint64_t token, const CallTable& calls,
                                         bool repeats_headers);

  // Reads the messages of one write, the first at `cell`. Calls take(call, header, payload) for
  // every valid response; its call is kOutstanding or kTimedOut. The code without tags contains
  // none of theirs.
  template <bool kAuthenticated, typename Take>
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Read(uint32_t cell, CallTable* calls, Take take) {
    const uint32_t next = ReadAt<kAuthenticated>(cell, cell, calls, take);
    if (ABSL_PREDICT_FALSE(next != kMaxCells)) ReadBehind<kAuthenticated>(next, calls, take);
  }

  // Where callers read the payload of a valid response: in the window, or in a private copy.
  const std::byte* Payload(HeldCells cells) const {
    return payloads_ + geometry_.OffsetOf(cells.first) + kHeaderBytes;
  }
  // The detail of a response with an OK status, from the window: the worker may change it.
  uint32_t Detail(const Call& call) const;

  const ResponseDropCounters& dropped() const { return dropped_; }
  // Valid responses so far. A forged doorbell is not among them.
  uint64_t answers() const { return answers_; }

 private:
  // Reads the message whose own place is `place`, and which lay at `cell`. Returns where the next
  // one of the write is; kMaxCells if there is none.
  template <bool kAuthenticated, typename Take>
  ABSL_ATTRIBUTE_ALWAYS_INLINE uint32_t ReadAt(uint32_t place, uint32_t cell, CallTable* calls,
                                               Take take) {
    if (!geometry_.Fits(place, kHeaderBytes)) {
      ++dropped_.outside_window;
      return kMaxCells;
    }
    const std::byte* message = window_.data() + geometry_.OffsetOf(place);
    ResponseHeader header;
    const HeaderSnapshot snapshot = HeaderSnapshot::Take(message);
    if (DecodeResponse(snapshot, &header) != WireError::kNone) {
      ++dropped_.not_a_header;
      return kMaxCells;
    }
    const uint64_t bytes =
        uint64_t{kHeaderBytes} + header.payload_bytes + (kAuthenticated ? kTagBytes : 0);
    // A message behind one that is dropped may be valid, if the length of the dropped one can be
    // true.
    const bool valid =
        ReadOne<kAuthenticated>(snapshot, header, place, message + kHeaderBytes, calls, take);
    if (ABSL_PREDICT_FALSE(!valid) && !geometry_.Fits(cell, bytes)) return kMaxCells;
    if (ABSL_PREDICT_TRUE((header.flags & kMoreFollows) == 0)) return kMaxCells;
    return cell + geometry_.CellsFor(bytes);
  }
  // The messages of a write from the second one on.
  template <bool kAuthenticated, typename Take>
  ABSL_ATTRIBUTE_NOINLINE void ReadBehind(uint32_t cell, CallTable* calls, Take take) {
    while (cell != kMaxCells) {
      const uint32_t place = PutInPlace(cell, *calls);
      if (place == kMaxCells) return;
      cell = ReadAt<kAuthenticated>(place, cell, calls, take);
    }
  }
  template <bool kAuthenticated, typename Take>
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool ReadOne(const HeaderSnapshot& snapshot,
                                            const ResponseHeader& header, uint32_t cell,
                                            const std::byte* payload, CallTable* calls, Take take) {
    Call* const call = Match(header, cell, *calls);
    if (ABSL_PREDICT_FALSE(call == nullptr)) return false;
    if constexpr (kAuthenticated) {
      payload = Authenticate(snapshot, header.payload_bytes, cell, payload);
      if (payload == nullptr) return Drop(&ResponseDropCounters::bad_tag);
    } else {
      static_cast<void>(snapshot);
    }
    calls->ResponseHasCome(cell);
    ++answers_;
    take(call, header, payload);
    return true;
  }
  // The call that waits at `cell` for a response with this header. nullptr, and the response has
  // been dropped, if there is none.
  ABSL_ATTRIBUTE_ALWAYS_INLINE Call* Match(const ResponseHeader& header, uint32_t cell,
                                           const CallTable& calls) {
    Call* const call = calls.AtResponseCell(cell);
    uint64_t ResponseDropCounters::*reason;
    if (ABSL_PREDICT_FALSE(call == nullptr)) {
      reason = &ResponseDropCounters::no_such_call;
    } else if (ABSL_PREDICT_FALSE(header.epoch != epoch_)) {
      reason = &ResponseDropCounters::wrong_epoch;
    } else if (ABSL_PREDICT_FALSE(header.sequence != call->sequence)) {
      reason = &ResponseDropCounters::wrong_sequence;
    } else if (ABSL_PREDICT_FALSE(header.payload_bytes > call->response_capacity)) {
      reason = &ResponseDropCounters::too_long;
    } else {
      return call;
    }
    Drop(reason);
    return nullptr;
  }
  bool Drop(uint64_t ResponseDropCounters::*reason) {
    ++(dropped_.*reason);
    return false;
  }
  // Returns the payload to use; nullptr if the tag is wrong. The header is passed by value, because
  // the compiler keeps a variable in memory for every message once its address is taken.
  ABSL_ATTRIBUTE_NOINLINE const std::byte* Authenticate(HeaderSnapshot snapshot,
                                                        uint32_t payload_bytes, uint32_t cell,
                                                        const std::byte* payload) const;
  // The place of the message at `cell`: a relocated one is copied to its own first. kMaxCells if
  // that is none of a call that waits; then it has been dropped.
  uint32_t PutInPlace(uint32_t cell, const CallTable& calls);
  bool CompleteHeaderAt(uint32_t cell, uint32_t upper, const CallTable& calls,
                        bool repeats_headers);

  transport::Reactor* reactor_;
  transport::MemoryRegion window_;
  WindowGeometry geometry_;
  const std::byte* payloads_;
  const SessionAuthenticators* authenticators_ = nullptr;
  uint32_t epoch_ = 0;
  const uint64_t doorbell_;  // a response's immediate, without the cell
  ResponseDropCounters dropped_;
  uint64_t answers_ = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_RESPONSE_READER_H_
