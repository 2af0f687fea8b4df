#include "src/invoke/message_batch.h"

namespace invoker {
namespace {

// Above this, one write more costs nothing that can be seen, and a receiver could have begun with
// the first message.
constexpr uint64_t kMaxBatchBytes = 64 * 1024;

constexpr size_t kFlagsOffset = 1;  // of the flags byte in a header (docs/wire_format.md)

}  // namespace

MessageBatch::MessageBatch(transport::Reactor* reactor, const transport::MemoryRegion* staging,
                           const transport::RemoteWindow& window, const WindowGeometry& geometry,
                           uint16_t session, const transport::Notifier* notifier,
                           transport::OperationOwner* owner)
    : reactor_(reactor),
      staging_(staging),
      window_(window),
      geometry_(geometry),
      session_(session),
      notifier_(notifier),
      owner_(owner) {}

void MessageBatch::Add(MessageKind kind, uint32_t cell, uint32_t message_bytes) {
  ++messages_;
  const uint32_t cells = geometry_.CellsFor(message_bytes);
  const bool extends = run_.cells != 0 && kind == run_.kind && cell == run_.first + run_.cells &&
                       geometry_.OffsetOf(run_.cells + cells) <= kMaxBatchBytes;
  if (extends) {
    staging_->data()[geometry_.OffsetOf(run_.last) + kFlagsOffset] |=
        static_cast<std::byte>(kMoreFollows);
    run_.cells += cells;
    run_.last = cell;
    run_.end_bytes = message_bytes;
    return;
  }
  if (run_.cells != 0 && !Flush()) {
    if (run_.cells != 0) {
      // Without this a backlog that never empties would grow for ever.
      if (backlog_next_ > backlog_.size() / 2) {
        backlog_.erase(backlog_.begin(), backlog_.begin() + backlog_next_);
        backlog_next_ = 0;
      }
      backlog_.push_back(run_);
    }
  }
  run_ = {kind, cell, cells, cell, message_bytes};
}

bool MessageBatch::Flush() {
  if (backlog_next_ < backlog_.size() && !FlushBacklog()) return false;
  if (run_.cells == 0) return true;
  if (!Post(run_)) return false;
  run_.cells = 0;
  return true;
}

bool MessageBatch::FlushBacklog() {
  while (backlog_next_ < backlog_.size()) {
    if (!Post(backlog_[backlog_next_])) return false;
    ++backlog_next_;
  }
  backlog_.clear();
  backlog_next_ = 0;
  return true;
}

bool MessageBatch::Post(const Run& run) {
  const uint64_t offset = geometry_.OffsetOf(run.first);
  const uint64_t length = geometry_.OffsetOf(run.last) - offset + run.end_bytes;
  const Immediate immediate = {run.kind, session_, static_cast<uint16_t>(run.first)};
  const bool taken = reactor_->PostWrite(notifier_, window_, offset, staging_->data() + offset,
                                         staging_->descriptor(), length, immediate.Encode(), owner_,
                                         CellRun{run.first, run.cells}.ToTag());
  if (taken) ++writes_;
  return taken;
}

}  // namespace invoker
