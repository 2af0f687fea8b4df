#include "src/invoke/executor/session_scheduler.h"

#include <algorithm>

namespace invoker {
namespace {

// About a millisecond. Usage of a turn that took so long is published at once, so that readers of
// meters need not wait for later turns.
constexpr uint64_t kLongTicks = 1u << 21;

// The queue is read at most this often before waiting sessions are served: peers that ring without
// end must not keep them waiting.
constexpr int kMostReads = 32;

// After a long turn the provider works this often before the next one. It may take several rounds
// to bring in all that has arrived.
constexpr int kProviderRounds = 16;

}  // namespace

// Whether a doorbell that did not arrive alone waits. A session without others delays none of them,
// as long as the queue is read again after its quantum.
bool SessionScheduler::MustWait(const ExecutorSession& session) const {
  if (!ring_.empty()) return true;
  if (sessions_->live().size() > 1) return reactor_->entries_left() > 0;
  return gathering_ == &session && session.quantum_left() <= 0;
}

bool SessionScheduler::KeepForLater(ExecutorSession* session, MessageKind kind, uint32_t cell) {
  shared_->watch->ShowBatch(static_cast<uint64_t>(reactor_->entries_left()));
  if (!MustWait(*session)) return false;
  session->Wait(kind, cell, turn_began_ns_ != 0 ? turn_began_ns_ : transport::MonotonicNs());
  return true;
}

// Serves waiting sessions, each for one quantum at most, until a quantum's worth has run. Then the
// queue is read again: a newcomer waits for the sessions before it and no longer. `events` came in
// this turn's first read. Returns the turn's events.
int SessionScheduler::ServeRing(int events) {
  for (int reads = 1; events == transport::Reactor::kMostEvents && reads < kMostReads; ++reads) {
    turn_began_ = false;
    events = reactor_->Poll();
  }
  turn_began_ = true;
  shared_->busy.store(true, std::memory_order_relaxed);
  shared_->watch->ShowBatch(0);
  int32_t used = 0;
  while (!ring_.empty() && used < kQuantumCalls) {
    ExecutorSession* session = ring_.TakeFirst();
    Gather(session);
    used += session->Serve();
  }
  return 1;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline uint64_t SessionScheduler::EndGathering() {
  const uint64_t ticks = ReadTicks() - gathering_began_ticks_;
  gathering_->usage().AddBusy(ticks);
  if (ABSL_PREDICT_FALSE(!gathering_->usage().unpublished() || ticks >= kLongTicks)) {
    PublishLater(gathering_, ticks);
  }
  return ticks;
}

void SessionScheduler::PublishLater(ExecutorSession* session, uint64_t ticks) {
  if (!session->usage().unpublished()) {
    session->usage().set_unpublished();
    unpublished_.push_back(session->number());
  }
  if (ticks < kLongTicks) return;
  Publish();
  // Brings in marks that have arrived meanwhile, before the next request is read: it may have been
  // cancelled.
  for (int i = 0; i < kProviderRounds; ++i) reactor_->LetProviderWork();
}

void SessionScheduler::Publish() {
  if (unpublished_.empty()) return;
  shared_->scale.Refine(ReadTicks());
  for (const uint16_t number : unpublished_) {
    // The session may have ended, and another may have its number: that does no harm.
    ExecutorSession* session = sessions_->Find(number);
    if (session != nullptr) session->usage().Publish(shared_->scale, &shared_->usage);
  }
  unpublished_.clear();
  shared_->watch->usage().Set(shared_->usage);
}

// Posts the responses of the session that was served last. Without a slot a later turn does.
void SessionScheduler::FlushGathering() {
  const uint64_t ticks = EndGathering();
  ExecutorSession* const session = gathering_;
  gathering_ = nullptr;
  const bool flushed = session->Flush();
  // After the responses have left, which it would hold up.
  session->usage().CountBusy(ticks);
  if (ABSL_PREDICT_TRUE(flushed)) return;
  const uint16_t number = session->number();
  if (std::find(unfinished_.begin(), unfinished_.end(), number) == unfinished_.end()) {
    unfinished_.push_back(number);
  }
}

// Moves every unfinished session on. Returns whether one of them can go on at once.
bool SessionScheduler::Continue() {
  size_t kept = 0;
  bool moving = false;
  for (const uint16_t number : unfinished_) {
    ExecutorSession* session = sessions_->Find(number);
    if (session == nullptr) continue;
    const uint64_t executed = session->counters().executed;
    const uint64_t began_ticks = ReadTicks();
    const ExecutorSession::Progress progress = session->Continue();
    if (session->counters().executed != executed) {
      const uint64_t ticks = ReadTicks() - began_ticks;
      session->usage().AddBusy(ticks);
      session->usage().CountBusy(ticks);
      PublishLater(session, ticks);
    }
    moving |= progress == ExecutorSession::Progress::kMoving;
    if (progress != ExecutorSession::Progress::kDone) unfinished_[kept++] = number;
  }
  unfinished_.resize(kept);
  return moving;
}

void SessionScheduler::Remove(ExecutorSession* session) {
  assert(shared_->thread.IsSame());
  if (gathering_ == session) {
    EndGathering();
    gathering_ = nullptr;
  }
  shared_->scale.Refine(ReadTicks());
  session->usage().Publish(shared_->scale, &shared_->usage);
  unfinished_.erase(std::remove(unfinished_.begin(), unfinished_.end(), session->number()),
                    unfinished_.end());
}

}  // namespace invoker
