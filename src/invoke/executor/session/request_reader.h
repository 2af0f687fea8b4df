// Reads the requests of one session out of its window.
//
// Every message is validated here and nowhere else, before any part of it is used. The bytes come
// from the network, and the peer may change them at any time.
//
// Executor thread only.

#ifndef INVOKER_SRC_INVOKE_EXECUTOR_SESSION_REQUEST_READER_H_
#define INVOKER_SRC_INVOKE_EXECUTOR_SESSION_REQUEST_READER_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/wire/drop_counters.h"
#include "src/invoke/wire/message_authenticator.h"
#include "src/invoke/wire/sequence_window.h"
#include "src/invoke/wire/wire.h"
#include "src/transport/fabric/memory_region.h"

namespace invoker {

class RequestReader {
 public:
  // Why a message is dropped: the counter for it. nullptr: it is valid.
  using Drop = uint64_t DropCounters::*;

  // Read sets `more` always, the header and the rest as far as it gets. No member has an initial
  // value, so that a call writes none.
  struct Request {
    RequestHeader header;
    // Inside the window, where the client may still write to it, or in a private copy of it
    // (DataAuth::kFull).
    const std::byte* payload;
    // The header's flags byte in the window: the client sets kCancelled there.
    const std::byte* flags;
    // Another message of the same write follows, at CellAfter. Also true of a message that is
    // dropped although its header and its place are sound.
    bool more;
  };

  // `authenticators` outlives the reader; nullptr: messages have no tags.
  RequestReader(transport::MemoryRegion window, const WindowGeometry& geometry, uint32_t epoch,
                uint64_t first_sequence, const SessionAuthenticators* authenticators)
      : window_(std::move(window)),
        geometry_(geometry),
        epoch_(epoch),
        authenticators_(authenticators),
        sequences_(first_sequence) {}

  // Reads the message at `cell` for which a doorbell of this kind rang. Validates, in this order:
  // the place, the header, the kind, the length, the epoch, the room for the response, the tag, and
  // that the sequence was never accepted before. From then on the sequence counts as seen.
  ABSL_ATTRIBUTE_ALWAYS_INLINE Drop Read(MessageKind kind, uint32_t cell, Request* request) {
    RequestHeader& header = request->header;
    request->more = false;
    if (!HasCell(cell)) return &DropCounters::outside_window;
    const std::byte* const message = At(cell);
    const HeaderSnapshot snapshot = HeaderSnapshot::Take(message);
    if (DecodeRequest(snapshot, &header) != WireError::kNone) return &DropCounters::not_a_header;
    if (header.kind != kind) return &DropCounters::kind_mismatch;
    if (!geometry_.Fits(cell, geometry_.MessageBytes(header.payload_bytes))) {
      return &DropCounters::outside_window;
    }
    request->more = (header.flags & kMoreFollows) != 0;
    request->payload = message + kHeaderBytes;
    request->flags = message + kFlagsOffset;
    if (header.epoch != epoch_) return &DropCounters::wrong_epoch;
    if (!geometry_.Fits(header.response_cell, geometry_.MessageBytes(header.response_capacity))) {
      return &DropCounters::bad_response_run;
    }
    if (ABSL_PREDICT_FALSE(authenticators_ != nullptr)) {
      const Opened opened = Open(snapshot, header.sequence, header.payload_bytes, request->payload);
      if (opened.payload == nullptr) return opened.drop;
      request->payload = opened.payload;
    }
    return DropOf(sequences_.Accept(header.sequence));
  }
  // The cell of the write's next message.
  uint32_t CellAfter(uint32_t cell, const RequestHeader& header) const {
    return cell + geometry_.CellsFor(geometry_.MessageBytes(header.payload_bytes));
  }

  // A doorbell rang for `cell` with this upper half of an immediate: its message repeats the header
  // that the window has there. Makes that header whole, so that Read can read the message.
  Drop RestoreSequence(uint32_t cell, uint32_t upper);

  // Returns the payload at a place that stays as it is while other messages are read. In
  // DataAuth::kFull that is a second private copy; else it is `payload` itself.
  const std::byte* Keep(const RequestHeader& header, const std::byte* payload, uint32_t cell) const;

  // Whether a header at this cell lies in the window.
  bool HasCell(uint32_t cell) const { return geometry_.Fits(cell, kHeaderBytes); }
  // Whether the sequence was accepted, or cannot be accepted any more.
  bool Seen(uint64_t sequence) const { return sequences_.Seen(sequence); }

  uint32_t epoch() const { return epoch_; }
  bootstrap::WindowDescriptor descriptor() const {
    return {window_.remote_base(), window_.size(), window_.key()};
  }
  // For the session's end: nothing is read after this.
  transport::MemoryRegion TakeWindow() { return std::move(window_); }

 private:
  struct Opened {
    const std::byte* payload;  // nullptr: dropped
    Drop drop;
  };

  const std::byte* At(uint32_t cell) const { return window_.data() + geometry_.OffsetOf(cell); }

  // Checks the tag. The header is passed in pieces so that it stays in registers where there are no
  // tags.
  ABSL_ATTRIBUTE_NOINLINE Opened Open(HeaderSnapshot snapshot, uint64_t sequence,
                                      uint32_t payload_bytes, const std::byte* payload) const;

  static Drop DropOf(SequenceWindow::Verdict verdict) {
    if (ABSL_PREDICT_TRUE(verdict == SequenceWindow::Verdict::kNew)) return nullptr;
    return verdict == SequenceWindow::Verdict::kReplayed ? &DropCounters::replayed
                                                         : &DropCounters::stale_sequence;
  }

  transport::MemoryRegion window_;
  const WindowGeometry geometry_;
  const uint32_t epoch_;
  const SessionAuthenticators* const authenticators_;
  SequenceWindow sequences_;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_EXECUTOR_SESSION_REQUEST_READER_H_
