// Messages that lie side by side in a staging region, or can be moved there, and leave in one
// write. One per session and direction. Driver thread only.
//
// Coalescing costs no latency: a caller that adds a message flushes as soon as it knows of no other
// that comes in the same turn.

#ifndef INVOKER_SRC_INVOKE_WIRE_MESSAGE_BATCH_H_
#define INVOKER_SRC_INVOKE_WIRE_MESSAGE_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "src/invoke/wire/wire.h"
#include "src/transport/reactor/reactor.h"
#include "src/transport/reactor/sleep_flag.h"

namespace invoker {

// Which cells a failed operation carried, from its tag.
struct CellRun {
  uint32_t first = 0;
  uint32_t cells = 0;

  uint64_t ToTag() const { return uint64_t{first} << 32 | cells; }
  static CellRun FromTag(uint64_t tag) {
    return {static_cast<uint32_t>(tag >> 32), static_cast<uint32_t>(tag)};
  }
  bool Contains(uint32_t cell) const { return cell - first < cells; }
};

class MessageBatch {
 public:
  // `staging` has the layout of `window` and outlives the batch, as do `reactor` and `owner`.
  // `session` is the receiver's number.
  MessageBatch(transport::Reactor* reactor, transport::MemoryRegion* staging,
               const transport::RemoteWindow& window, const WindowGeometry& geometry,
               uint16_t session, const transport::Notifier* notifier,
               transport::OperationOwner* owner);

  // A message of `message_bytes`, header included, stands ready in staging at `cell`.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Add(MessageKind kind, uint32_t cell, uint32_t message_bytes) {
    ++messages_;
    const uint32_t cells = geometry_.CellsFor(message_bytes);
    if (run_.cells != 0 && Join(kind, cell, cells, message_bytes)) return;
    run_.Begin(kind, cell, cells, message_bytes);
  }
  // The same of a response. `room` is the payload bytes that there is room for: what the response
  // leaves of it, others may use. Returns whether no message was pending.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool AddResponse(uint32_t cell, uint32_t message_bytes,
                                                uint32_t room) {
    const bool first = run_.cells == 0;
    Add(MessageKind::kResponse, cell, message_bytes);
    if (run_.first == cell) run_.room = room;  // else it has joined others
    return first;
  }

  // Writes the header of a message that is not plain into staging. Nothing else of this cell is
  // under way, so the receiver's window has what staging had there. Returns HeaderRepeat's if that
  // was this header but for the sequence, and headers are repeated; else 0.
  uint32_t PutHeader(uint32_t cell, const HeaderSnapshot& header) {
    std::byte* const message = staging_->data() + geometry_.OffsetOf(cell);
    const bool repeats = repeats_headers_ && IsRepeated(header, HeaderSnapshot::Take(message));
    header.CopyTo(message);
    return repeats ? HeaderRepeat::Of(header.sequence(), header.epoch()).Encode() : 0;
  }

  // For the message that has just been added, and is not plain. Unless `repeat`, which PutHeader
  // returned, is 0, its header stays here if it leaves alone.
  void SetRepeat(uint32_t cell, uint32_t repeat) {
    if (run_.first == cell) run_.repeat = repeat;  // else it has joined others
  }
  // Add for a message that leaves at once, by itself, with its payload from wherever that is.
  // False, and nothing has been done, if others wait, or the fabric does not inject it now.
  bool InjectRepeat(MessageKind kind, uint32_t cell, const std::byte* payload,
                    uint32_t payload_bytes, uint32_t repeat);
  // Whether messages may leave their headers out, those to us as well.
  bool repeats_headers() const { return repeats_headers_; }
  // Whether a message of so many bytes is ready once its header is encoded. Else it wants a tag,
  // where messages have those, or it may leave its header out.
  bool IsPlain(uint32_t message_bytes) const {
    return message_bytes < special_from_ || message_bytes > special_to_;
  }

  // A message pending at this cell takes its header along: that has been changed.
  void TakeHeaderAlong(uint32_t cell);

  // Posts what is pending. Returns false while something is left because the reactor has no free
  // slot: call again after a turn; and for ever, once it has overflowed.
  bool Flush() { return FlushInline(); }
  // The same, for the one place where most messages leave.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool FlushInline() {
    if (ABSL_PREDICT_FALSE(has_backlog_)) return FlushBacklog();
    if (run_.cells == 0) return true;
    if (!Post(kCurrent)) return false;
    run_.cells = 0;
    return true;
  }

  // Whether the message at this cell is still to be posted.
  bool IsPending(uint32_t cell) const;
  // The cells of messages that are still to be posted.
  void ForEachPending(absl::FunctionRef<void(CellRun)> visit) const;

  // Whether more messages have been added than there can be of calls under way, and some are lost:
  // the session must end.
  bool overflowed() const { return overflowed_; }

  bool pending() const { return run_.cells != 0 || has_backlog_; }

  // Where the receiver has the messages.
  const transport::RemoteWindow& window() const { return window_; }

  void set_notifier(const transport::Notifier* notifier);
  // Wakes the receiver behind each write, if it sleeps; nullptr: nothing has to.
  void set_peer_waker(std::unique_ptr<transport::PeerWaker> waker) {
    peer_waker_ = std::move(waker);
  }
  // For what has been posted otherwise, or tried again.
  void WakeReceiver() {
    if (peer_waker_ != nullptr) peer_waker_->WakeIfAsleep();
  }
  // Whether messages may go in pieces.
  bool may_send_pieces() const { return notifier_->may_send_pieces(reactor_->profile()); }
  // Whether a message may come to lie over a transfer to its place that was posted after it.
  bool may_place_late() const { return notifier_->may_place_late(window_); }

  // Messages of up to so many bytes, header included, go in pieces unless they are injected whole;
  // 0: none.
  void set_pieces_up_to(uint64_t message_bytes);

  uint64_t writes() const { return writes_; }
  // How many of them left a header out.
  uint64_t repeats() const { return repeats_; }
  uint64_t messages() const { return messages_; }

 private:
  // A run of adjacent messages of one kind.
  struct Run {
    MessageKind kind = MessageKind::kRequest;
    uint32_t first = 0;
    uint32_t cells = 0;      // 0: no run
    uint32_t last = 0;       // first cell of the last message
    uint32_t end_bytes = 0;  // the last message's, from its first cell
    uint32_t room = 0;       // a first response's: AddResponse
    // HeaderRepeat's, for a single message that leaves its header out. Else 0.
    uint32_t repeat = 0;

    // A run of one message, which takes its header along.
    void Begin(MessageKind message_kind, uint32_t cell, uint32_t message_cells,
               uint32_t message_bytes) {
      kind = message_kind;
      first = last = cell;
      cells = message_cells;
      end_bytes = message_bytes;
      repeat = 0;
    }
    // Another message, which lies behind the others.
    void Extend(uint32_t message_cells, uint32_t message_bytes) {
      last = first + cells;
      cells += message_cells;
      end_bytes = message_bytes;
      repeat = 0;
    }
  };

  void FindSpecialLengths();
  bool Join(MessageKind kind, uint32_t cell, uint32_t cells, uint32_t message_bytes);
  bool HasRoomFor(MessageKind kind, uint32_t cells) const;
  void Relocate(uint32_t cell, uint32_t message_bytes);
  bool FlushBacklog();
  // The write of a run, but for its source, descriptor, owner and tag.
  ABSL_ATTRIBUTE_ALWAYS_INLINE transport::NotifiedWrite WriteOf(const Run& run) const {
    const uint64_t first = geometry_.OffsetOf(run.first);
    const Immediate immediate = {run.kind, session_, static_cast<uint16_t>(run.first)};
    transport::NotifiedWrite write;
    write.offset = first;
    write.length = geometry_.OffsetOf(run.last) - first + run.end_bytes;
    write.token = immediate.Encode();
    if (ABSL_PREDICT_FALSE(run.repeat != 0)) {
      write.offset += kHeaderBytes;
      write.length -= kHeaderBytes;
      write.token |= uint64_t{run.repeat} << 32;
    }
    return write;
  }

  // Where run_ is, for Post.
  static constexpr size_t kCurrent = SIZE_MAX;
  // Makes the write of a run out of staging (Reactor::PostWrite).
  struct StagedRun {
    const MessageBatch* batch;
    size_t place;  // in the backlog, or kCurrent

    const Run& run() const { return place == kCurrent ? batch->run_ : batch->backlog_[place]; }
    const transport::Notifier* notifier() const { return batch->notifier_; }
    const transport::RemoteWindow& window() const { return batch->window_; }
    ABSL_ATTRIBUTE_ALWAYS_INLINE transport::NotifiedWrite Make() const {
      transport::NotifiedWrite write = batch->WriteOf(run());
      batch->staging_->NoteWrite(write.offset, write.length);
      write.source = batch->staging_->data() + write.offset;
      return write;
    }
    ABSL_ATTRIBUTE_ALWAYS_INLINE void Describe(transport::NotifiedWrite* write) const {
      write->descriptor = batch->staging_->descriptor();
      write->owner = batch->owner_;
      write->tag = CellRun{run().first, run().cells}.ToTag();
    }
  };

  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Post(size_t place) {
    const StagedRun staged = {this, place};
    const bool taken = reactor_->PostWrite(staged);
    if (taken) NoteWritten(staged.run());
    return taken;
  }

  void NoteWritten(const Run& run) {
    ++writes_;
    if (ABSL_PREDICT_FALSE(run.repeat != 0)) ++repeats_;
    WakeReceiver();
  }

  transport::Reactor* reactor_;
  transport::MemoryRegion* staging_;
  transport::RemoteWindow window_;
  WindowGeometry geometry_;
  uint16_t session_;
  const transport::Notifier* notifier_;
  transport::OperationOwner* owner_;
  std::unique_ptr<transport::PeerWaker> peer_waker_;
  Run run_;
  bool repeats_headers_ = false;
  // The lengths that are not plain. No message has UINT32_MAX bytes.
  uint32_t special_from_ = UINT32_MAX;
  uint32_t special_to_ = 0;
  bool has_backlog_ = false;
  bool overflowed_ = false;
  // Runs that found no slot. Grows only then, and not beyond the calls that a session can have: a
  // peer may ask again for a response in cells where the one before still waits.
  std::vector<Run> backlog_;
  size_t backlog_next_ = 0;
  uint64_t writes_ = 0;
  uint64_t repeats_ = 0;
  uint64_t messages_ = 0;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_WIRE_MESSAGE_BATCH_H_
