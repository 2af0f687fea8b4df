// The data path's wire format, version 6: the immediate, the 32-byte header, the descriptor
// of a bulk request, the geometry of a window. docs/reference/wire_format.md is the specification;
// this is the only code that knows the layout.
//
// Everything here is a value: nothing is owned, nothing allocates unless it returns a non-OK
// Status, any thread may call it. What arrives from a peer is decoded from a HeaderSnapshot only,
// never in place, because the peer may write to the window while it is being validated.

#ifndef INVOKER_SRC_INVOKE_WIRE_WIRE_H_
#define INVOKER_SRC_INVOKE_WIRE_WIRE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace invoker {

inline constexpr uint32_t kHeaderBytes = 32;
inline constexpr uint32_t kTagBytes = 8;  // behind the payload, in sessions that have tags
inline constexpr uint32_t kCellBits =
    14;  // bits of the immediate; a window has no more cells than that names
inline constexpr uint32_t kMaxCells = 1u << kCellBits;
inline constexpr uint32_t kMinCellBytes = 64;            // a cache line
inline constexpr uint64_t kMinWindowBytes = 4096;        // a page
inline constexpr uint64_t kMaxWindowBytes = 1ull << 30;  // cells of 64 KiB
inline constexpr uint32_t kFlagsOffset = 1;              // the flags byte in a header

// Header flags. A bit without a name here must be 0.
inline constexpr uint8_t kMoreFollows =
    0x01;                               // another message begins at the next cell, same write
inline constexpr uint8_t kBulk = 0x02;  // a request's: the payload begins with a BulkDescriptor
// A request's: it is for the executor's data store (store_request.h), and runs no function.
inline constexpr uint8_t kStore = 0x08;
// A request's: nobody waits for its answer any more, so it is not to be run. The client may write
// this byte again, with the flag, after the request.
inline constexpr uint8_t kCancelled = 0x04;
// A response's: it lies behind another one, in the run of that one's call (Relocation).
inline constexpr uint8_t kRelocated = 0x10;
// What is set after a message has been tagged, and so is not under the tag: kMoreFollows, when
// another message joins it, and kCancelled.
inline constexpr uint8_t kUnauthenticatedFlags = kMoreFollows | kCancelled;
inline constexpr uint8_t kKnownRequestFlags = kMoreFollows | kBulk | kCancelled | kStore;
inline constexpr uint8_t kKnownResponseFlags = kMoreFollows;

// The values are the immediate's. A header carries the value plus one, so that zeroed memory is no
// header.
enum class MessageKind : uint8_t { kRequest = 0, kResponse = 1, kProbe = 2 };

// How a response says what became of its request. Numbers are part of the format: append, never
// renumber.
enum class StatusCode : uint16_t {
  kOk = 0,
  kFunctionFailed = 1,    // ran and reported failure; detail is the function's own code
  kUnknownFunction = 2,   // not run: no such function id
  kResponseTooLarge = 3,  // ran, but its output does not fit; detail is the bytes it needs
  kDeadlineExpired = 4,   // not run: the deadline passed before its turn came
  kDraining = 5,          // not run: the worker is going away
  kInvalidRequest = 6,    // not run: the message says why
  kNoMemory = 7,          // not run: a bulk request wants more memory than an executor gives
  kTransferFailed = 8,  // bulk: the message says what; detail is 1 if the function has run, else 0
  kCancelled = 9,       // not run: its client has cancelled it
};
inline constexpr uint16_t kStatusCodes = 10;

// Why a snapshot is not a header.
enum class WireError : uint8_t {
  kNone = 0,
  kBadKind,          // not a kind that is sent in this direction; zeroed memory ends here
  kUnknownFlags,     // a flag of some other version
  kNonzeroReserved,  // a field of some other version
  kUnknownStatus,    // a response with a status that is not in StatusCode
};

// The spelling used in docs, messages and counters: "response_too_large", "bad_kind". Never null.
absl::string_view StatusCodeName(StatusCode code);
absl::string_view WireErrorName(WireError error);

// What a caller is told about a response. `message` is the response's payload as it came: it is the
// function's text, from the peer, and is passed on unchecked. OK for kOk, whatever the other two
// say.
absl::Status ToStatus(StatusCode code, uint32_t detail, absl::string_view message);

// The doorbell that travels with, or right after, a write. It says where to look and proves
// nothing. Bits 31..30 kind, 29..14 session, 13..0 cell.
struct Immediate {
  MessageKind kind = MessageKind::kRequest;
  uint16_t session = 0;  // the receiver's number for the session
  uint16_t cell = 0;     // first cell of the first message of the write; below kMaxCells

  constexpr uint32_t Encode() const {
    // A cell out of range is cut, so that it cannot turn into another session's number.
    return static_cast<uint32_t>(kind) << 30 | static_cast<uint32_t>(session) << kCellBits |
           (cell & (kMaxCells - 1));
  }

  // The fields as they are: the kind may be the reserved 3. Session and cell are still to be
  // checked against what exists.
  static constexpr Immediate Split(uint32_t token) {
    return {static_cast<MessageKind>(token >> 30), static_cast<uint16_t>(token >> kCellBits),
            static_cast<uint16_t>(token & (kMaxCells - 1))};
  }

  // The same, and nothing for the reserved kind.
  static constexpr std::optional<Immediate> Decode(uint32_t token) {
    if (token >> 30 > static_cast<uint32_t>(MessageKind::kProbe)) return std::nullopt;
    return Split(token);
  }
};

// The upper half of a 64-bit immediate whose write leaves the header out: the header that the
// window has at the message's cell is this message's, too, but for the sequence. Bits 31..30 are
// 10, 29..14 the low bits of the sequence, 13..0 those of the session's epoch. 0 is the upper half
// of a whole message. It proves no more than the lower half does.
struct HeaderRepeat {
  static constexpr uint32_t kEpochBits = 14;

  uint16_t sequence = 0;
  uint16_t epoch = 0;  // below 1 << kEpochBits

  static constexpr HeaderRepeat Of(uint64_t sequence, uint32_t epoch) {
    return {static_cast<uint16_t>(sequence),
            static_cast<uint16_t>(epoch & ((1u << kEpochBits) - 1))};
  }

  constexpr uint32_t Encode() const {
    return 2u << 30 | static_cast<uint32_t>(sequence) << kEpochBits | epoch;
  }

  // Nothing for what Encode does not make.
  static constexpr std::optional<HeaderRepeat> Decode(uint32_t upper) {
    if (upper >> 30 != 2) return std::nullopt;
    return HeaderRepeat{static_cast<uint16_t>(upper >> kEpochBits),
                        static_cast<uint16_t>(upper & ((1u << kEpochBits) - 1))};
  }

  bool IsOfEpoch(uint32_t session_epoch) const { return Of(0, session_epoch).epoch == epoch; }
};

// Header of a request or a probe.
struct RequestHeader {
  MessageKind kind = MessageKind::kRequest;  // or kProbe
  uint8_t flags = 0;
  uint16_t function_id = 0;  // a probe's: AnswersInPieces; with kStore: a StoreOperation
  uint32_t payload_bytes = 0;
  uint64_t sequence = 0;
  uint32_t epoch = 0;
  uint16_t response_cell = 0;      // first cell of the response's run, in the response window
  uint32_t response_capacity = 0;  // payload bytes that run can take
  uint32_t deadline_us = 0;        // microseconds left when it was posted; 0: none
};

// A probe's function id says how its sender wants messages from now on, this answer included: 0 as
// before, n in pieces up to n - 1 times so many bytes of payload. A receiver may do with less.
inline constexpr uint64_t kPiecesUnit = 1024;
constexpr uint16_t AnswersInPieces(uint64_t payload_bytes) {
  return static_cast<uint16_t>((payload_bytes + kPiecesUnit - 1) / kPiecesUnit + 1);
}

// What a bulk request says of the memory that it is about: registered windows of the session, by
// number. 0 is no window: then the input is the rest of the payload, and the output goes into the
// response, and the other two fields are 0. With an output window, a response of status ok has a
// payload of kBulkResultBytes: the output's length, 64 bits.
struct BulkDescriptor {
  uint16_t input_window = 0;
  uint16_t output_window = 0;
  uint64_t input_offset = 0;
  uint64_t input_length = 0;
  uint64_t output_offset = 0;
  uint64_t output_capacity = 0;
};
inline constexpr uint32_t kBulkDescriptorBytes = 40;
inline constexpr uint32_t kBulkResultBytes = 8;

// Writes exactly kBulkDescriptorBytes at `to`.
void EncodeBulkDescriptor(const BulkDescriptor& descriptor, std::byte* to);
// Reads kBulkDescriptorBytes at `from`, which a peer may be changing, once. False if a reserved
// field is in use, or the fields of a window that is none.
[[nodiscard]] bool DecodeBulkDescriptor(const std::byte* from, BulkDescriptor* descriptor);

struct ResponseHeader {
  uint8_t flags = 0;
  StatusCode status = StatusCode::kOk;
  uint32_t payload_bytes = 0;
  uint64_t sequence = 0;  // its request's
  uint32_t epoch = 0;
  uint32_t detail = 0;  // see StatusCode
};

namespace wire_internal {

// A field as it lies in memory is a field on the wire.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a big-endian host must swap here");

// Reads a T at any alignment.
template <typename T>
inline void Store(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof(T));
}

template <typename T>
inline T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

inline constexpr uint8_t KindByte(MessageKind kind) { return static_cast<uint8_t>(kind) + 1; }

}  // namespace wire_internal

// A header as its four 64-bit words: of our own, or a private copy of 32 bytes that a peer can
// write to. Fields are taken from words in registers, and words go to memory and come from there
// one by one: a processor hands what it has just stored to a load that lies within the store, and
// to no wider one.
struct HeaderSnapshot {
  std::array<uint64_t, kHeaderBytes / sizeof(uint64_t)> words;

  // Copies the header at `from`, which must have kHeaderBytes readable bytes
  // (WindowGeometry::Fits).
  static HeaderSnapshot Take(const std::byte* from) {
    HeaderSnapshot snapshot;
    for (size_t i = 0; i < snapshot.words.size(); ++i) {
      snapshot.words[i] = wire_internal::Load<uint64_t>(from + i * sizeof(uint64_t));
    }
    // Without this the compiler may drop the copy and read the peer's bytes twice.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return snapshot;
  }

  // Writes exactly kHeaderBytes at `to`.
  void CopyTo(std::byte* to) const {
    for (size_t i = 0; i < words.size(); ++i) {
      wire_internal::Store(words[i], to + i * sizeof(uint64_t));
    }
  }

  uint64_t sequence() const { return words[1]; }
  uint32_t epoch() const { return static_cast<uint32_t>(words[2]); }

  std::byte* data() { return reinterpret_cast<std::byte*>(words.data()); }
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(words.data()); }
};

// The sender answers for the values: nothing is checked.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline HeaderSnapshot Pack(const RequestHeader& header) {
  return {{wire_internal::KindByte(header.kind) | uint64_t{header.flags} << 8 |
               uint64_t{header.function_id} << 16 | uint64_t{header.payload_bytes} << 32,
           header.sequence, header.epoch | uint64_t{header.response_cell} << 32,
           header.response_capacity | uint64_t{header.deadline_us} << 32}};
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline HeaderSnapshot Pack(const ResponseHeader& header) {
  return {{wire_internal::KindByte(MessageKind::kResponse) | uint64_t{header.flags} << 8 |
               uint64_t{static_cast<uint16_t>(header.status)} << 16 |
               uint64_t{header.payload_bytes} << 32,
           header.sequence, header.epoch, header.detail}};
}

// Decodes a request or a probe. `header` changes only if the result is kNone. Lengths, cells, epoch
// and sequence are the receiver's to check: they need the session.
[[nodiscard]] ABSL_ATTRIBUTE_ALWAYS_INLINE inline WireError DecodeRequest(
    const HeaderSnapshot& snapshot, RequestHeader* header) {
  const auto& words = snapshot.words;
  const auto kind = static_cast<uint8_t>(words[0]);
  if (kind != wire_internal::KindByte(MessageKind::kRequest) &&
      kind != wire_internal::KindByte(MessageKind::kProbe)) {
    return WireError::kBadKind;
  }
  const auto flags = static_cast<uint8_t>(words[0] >> 8);
  if ((flags & ~kKnownRequestFlags) != 0) return WireError::kUnknownFlags;
  if (words[2] >> 48 != 0) return WireError::kNonzeroReserved;
  header->kind = static_cast<MessageKind>(kind - 1);
  header->flags = flags;
  header->function_id = static_cast<uint16_t>(words[0] >> 16);
  header->payload_bytes = static_cast<uint32_t>(words[0] >> 32);
  header->sequence = snapshot.sequence();
  header->epoch = snapshot.epoch();
  header->response_cell = static_cast<uint16_t>(words[2] >> 32);
  header->response_capacity = static_cast<uint32_t>(words[3]);
  header->deadline_us = static_cast<uint32_t>(words[3] >> 32);
  return WireError::kNone;
}

// Decodes a response. `header` changes only if the result is kNone.
[[nodiscard]] ABSL_ATTRIBUTE_ALWAYS_INLINE inline WireError DecodeResponse(
    const HeaderSnapshot& snapshot, ResponseHeader* header) {
  const auto& words = snapshot.words;
  if (static_cast<uint8_t>(words[0]) != wire_internal::KindByte(MessageKind::kResponse)) {
    return WireError::kBadKind;
  }
  const auto flags = static_cast<uint8_t>(words[0] >> 8);
  if ((flags & ~kKnownResponseFlags) != 0) return WireError::kUnknownFlags;
  if ((words[2] | words[3]) >> 32 != 0) return WireError::kNonzeroReserved;
  const auto status = static_cast<uint16_t>(words[0] >> 16);
  if (status >= kStatusCodes) return WireError::kUnknownStatus;
  header->flags = flags;
  header->status = static_cast<StatusCode>(status);
  header->payload_bytes = static_cast<uint32_t>(words[0] >> 32);
  header->sequence = snapshot.sequence();
  header->epoch = snapshot.epoch();
  header->detail = static_cast<uint32_t>(words[3]);
  return WireError::kNone;
}

// Small responses that are ready together leave in one write even if their calls wait for them far
// apart: all but the first lie in the first one's run, and say in the header where they belong. The
// receiver puts each there before it decodes it. Not in sessions with tags: a tag that is read
// before its payload proves the payload's place, and a copy would read them in any order.
struct Relocation {
  // The cells' bytes, which all travel. Longer ones are written by themselves: a copy at each end
  // would cost as much.
  static constexpr uint32_t kMostBytes = 2048;

  // The header of a response that belongs at `cell`, for one that lies elsewhere.
  static HeaderSnapshot Mark(HeaderSnapshot header, uint32_t cell) {
    header.words[0] |= uint64_t{kRelocated} << 8;
    header.words[2] |= uint64_t{cell} << 32;
    return header;
  }
  // Undoes that, and returns the cell, which a peer may have made up. Nothing, and nothing has been
  // done, if the header is of no relocated message.
  static std::optional<uint16_t> Undo(HeaderSnapshot* header) {
    if ((header->words[0] >> 8 & kRelocated) == 0 || header->words[2] >> 48 != 0) {
      return std::nullopt;
    }
    const auto cell = static_cast<uint16_t>(header->words[2] >> 32);
    header->words[0] &= ~(uint64_t{kRelocated} << 8);
    header->words[2] &= UINT32_MAX;
    return cell;
  }
};

inline constexpr uint32_t kSequenceOffset = 8;  // in a header

// Whether a message may repeat the header at `from`: there is one, and it does not say that another
// message follows.
inline bool MayBeRepeated(const std::byte* from) {
  return from[0] != std::byte{0} && (from[kFlagsOffset] & std::byte{kMoreFollows}) == std::byte{0};
}

// Whether two headers differ in nothing but their sequences.
inline bool IsRepeated(const HeaderSnapshot& a, const HeaderSnapshot& b) {
  const auto& x = a.words;
  const auto& y = b.words;
  return ((x[0] ^ y[0]) | (x[2] ^ y[2]) | (x[3] ^ y[3])) == 0;
}

// How a window is divided into cells. Follows from its size alone, so both sides agree without a
// word.
class WindowGeometry {
 public:
  // INVALID_ARGUMENT unless `window_bytes` is a power of two in [kMinWindowBytes, kMaxWindowBytes].
  static absl::StatusOr<WindowGeometry> Make(uint64_t window_bytes);

  uint64_t window_bytes() const { return window_bytes_; }
  uint32_t cell_bytes() const { return 1u << cell_shift_; }
  uint32_t cells() const { return cells_; }

  // The same window, of a session whose messages have tags.
  WindowGeometry WithTags() const {
    WindowGeometry tagged = *this;
    tagged.overhead_ = kHeaderBytes + kTagBytes;
    return tagged;
  }
  bool tagged() const { return overhead_ != kHeaderBytes; }

  // Bytes of a message that are not its payload's: the header, and the tag if there is one.
  uint32_t overhead() const { return overhead_; }
  // The bytes of a whole message with so much payload.
  uint64_t MessageBytes(uint32_t payload_bytes) const {
    return uint64_t{overhead_} + payload_bytes;
  }

  // Largest payload that one message can have: it then fills the window alone.
  uint32_t MaxPayload() const { return static_cast<uint32_t>(window_bytes_) - overhead_; }

  // Cells that `bytes`, header and tag included, occupy. More than a window holds gives cells() +
  // 1, which no allocator grants, so that a size cannot be cut into a small one on its way there.
  uint32_t CellsFor(uint64_t bytes) const {
    if (bytes > window_bytes_) return cells_ + 1;
    return static_cast<uint32_t>((bytes + cell_bytes() - 1) >> cell_shift_);
  }

  // Byte offset of a cell from the window's start. Exact for any cell, in the window or not.
  uint64_t OffsetOf(uint32_t cell) const { return static_cast<uint64_t>(cell) << cell_shift_; }

  // Whether a message of `message_bytes`, all of it, that begins at `cell` lies in the window. Both
  // may come from a peer. If the bytes fit then so do their cells, since a window is whole cells.
  bool Fits(uint32_t cell, uint64_t message_bytes) const {
    return message_bytes <= window_bytes_ && OffsetOf(cell) <= window_bytes_ - message_bytes;
  }

 private:
  WindowGeometry(uint64_t window_bytes, uint32_t cell_shift)
      : window_bytes_(window_bytes),
        cell_shift_(cell_shift),
        cells_(static_cast<uint32_t>(window_bytes >> cell_shift)) {}

  uint64_t window_bytes_;
  uint32_t cell_shift_;  // log2 of the cell's bytes
  uint32_t cells_;
  uint32_t overhead_ = kHeaderBytes;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_WIRE_WIRE_H_
