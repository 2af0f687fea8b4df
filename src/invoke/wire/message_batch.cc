#include "src/invoke/wire/message_batch.h"

#include <algorithm>
#include <cstring>

#include "src/invoke/wire/sequence_window.h"

namespace invoker {
namespace {

// Above this, one write more costs nothing that can be seen, and a receiver could have begun with
// the first message.
constexpr uint64_t kMaxBatchBytes = 64 * 1024;

// A message each at least, of a call each: no client of this library has more calls under way.
constexpr size_t kMostRuns = SequenceWindow::kWidth;

}  // namespace

MessageBatch::MessageBatch(transport::Reactor* reactor, transport::MemoryRegion* staging,
                           const transport::RemoteWindow& window, const WindowGeometry& geometry,
                           uint16_t session, const transport::Notifier* notifier,
                           transport::OperationOwner* owner)
    : reactor_(reactor),
      staging_(staging),
      window_(window),
      geometry_(geometry),
      session_(session),
      owner_(owner) {
  set_notifier(notifier);
}

// A header may stay here where the immediate has room for the sequence, the bytes of a write that
// is injected, or goes in pieces, are placed in order, and nothing behind the payload depends on
// the header.
void MessageBatch::set_notifier(const transport::Notifier* notifier) {
  notifier_ = notifier;
  const transport::Profile& profile = reactor_->profile();
  repeats_headers_ = may_send_pieces() && profile.injected_is_placed && !geometry_.tagged();
  FindSpecialLengths();
}

void MessageBatch::set_pieces_up_to(uint64_t message_bytes) {
  window_.pieces_up_to = message_bytes;
  FindSpecialLengths();
}

// It helps to leave a header out if the message does not fit what the provider injects at once, and
// its payload does, or goes in pieces.
void MessageBatch::FindSpecialLengths() {
  special_from_ = geometry_.tagged() ? 0 : UINT32_MAX;
  special_to_ = UINT32_MAX;
  if (!repeats_headers_) return;
  const uint64_t inject_bytes = reactor_->profile().inject_bytes;
  special_from_ = static_cast<uint32_t>(inject_bytes + 1);
  special_to_ =
      static_cast<uint32_t>(std::max<uint64_t>(inject_bytes + kHeaderBytes, window_.pieces_up_to));
}

// Whether the message has joined the run that is there. If not, that run has left, or waits in the
// backlog.
bool MessageBatch::Join(MessageKind kind, uint32_t cell, uint32_t cells, uint32_t message_bytes) {
  const bool adjoins = cell == run_.first + run_.cells;
  if (kind == run_.kind && geometry_.OffsetOf(run_.cells + cells) <= kMaxBatchBytes &&
      (adjoins || HasRoomFor(kind, cells))) {
    if (!adjoins) Relocate(cell, message_bytes);
    staging_->data()[geometry_.OffsetOf(run_.last) + kFlagsOffset] |=
        static_cast<std::byte>(kMoreFollows);
    run_.Extend(cells, message_bytes);
    return true;
  }
  if (Flush() || run_.cells == 0) return false;
  if (backlog_.size() - backlog_next_ >= kMostRuns) {
    overflowed_ = true;
    return false;
  }
  // Without this a backlog that never empties would grow for ever.
  if (backlog_next_ > backlog_.size() / 2) {
    backlog_.erase(backlog_.begin(), backlog_.begin() + backlog_next_);
    backlog_next_ = 0;
  }
  backlog_.push_back(run_);
  has_backlog_ = true;
  return false;
}

// Whether a response of so many cells may lie behind the run.
bool MessageBatch::HasRoomFor(MessageKind kind, uint32_t cells) const {
  return kind == MessageKind::kResponse && !geometry_.tagged() &&
         geometry_.OffsetOf(cells) <= Relocation::kMostBytes &&
         run_.cells + cells <= geometry_.CellsFor(geometry_.MessageBytes(run_.room));
}

// Copies a message from its cell to the end of the run.
void MessageBatch::Relocate(uint32_t cell, uint32_t message_bytes) {
  std::byte* const from = staging_->data() + geometry_.OffsetOf(cell);
  std::byte* const to = staging_->data() + geometry_.OffsetOf(run_.first + run_.cells);
  const HeaderSnapshot header = HeaderSnapshot::Take(from);
  // A peer's runs may overlap.
  memmove(to, from, message_bytes);
  Relocation::Mark(header, cell).CopyTo(to);
  // What the receiver makes of it at this cell is not known here: no later message repeats it.
  from[kFlagsOffset] |= static_cast<std::byte>(kMoreFollows);
}

bool MessageBatch::InjectRepeat(MessageKind kind, uint32_t cell, const std::byte* payload,
                                uint32_t payload_bytes, uint32_t repeat) {
  if (pending()) return false;
  Run run;
  run.Begin(kind, cell, /*message_cells=*/1, payload_bytes + kHeaderBytes);
  run.repeat = repeat;
  transport::NotifiedWrite write = WriteOf(run);
  write.source = payload;
  if (!reactor_->TryInject(notifier_, window_, write)) return false;
  ++messages_;
  NoteWritten(run);
  return true;
}

void MessageBatch::TakeHeaderAlong(uint32_t cell) {
  if (run_.first == cell) run_.repeat = 0;
  for (size_t i = backlog_next_; i < backlog_.size(); ++i) {
    if (backlog_[i].first == cell) backlog_[i].repeat = 0;
  }
}

void MessageBatch::ForEachPending(absl::FunctionRef<void(CellRun)> visit) const {
  if (run_.cells != 0) visit({run_.first, run_.cells});
  for (size_t i = backlog_next_; i < backlog_.size(); ++i) {
    visit({backlog_[i].first, backlog_[i].cells});
  }
}

bool MessageBatch::IsPending(uint32_t cell) const {
  bool pending = false;
  ForEachPending([&](CellRun run) { pending = pending || run.Contains(cell); });
  return pending;
}

bool MessageBatch::FlushBacklog() {
  if (overflowed_) return false;
  while (backlog_next_ < backlog_.size()) {
    if (!Post(backlog_next_)) return false;
    ++backlog_next_;
  }
  backlog_.clear();
  backlog_next_ = 0;
  if (run_.cells != 0 && !Post(kCurrent)) return false;
  run_.cells = 0;
  has_backlog_ = false;
  return true;
}

}  // namespace invoker
