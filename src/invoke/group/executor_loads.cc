#include "src/invoke/group/executor_loads.h"

#include <algorithm>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "invoker/call_fate.h"

namespace invoker {

ExecutorLoads::ExecutorLoads(const std::vector<Client*>& clients, size_t most)
    : most_(std::max(most, clients.size())),
      size_(clients.size()),
      now_(std::make_unique<std::atomic<Seat*>[]>(most_)) {
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < clients.size(); ++i) {
    seats_.push_back(std::make_unique<Seat>(i, clients[i]));
    now_[i].store(seats_.back().get(), std::memory_order_release);
  }
}

absl::StatusOr<ExecutorLoads::Session> ExecutorLoads::Begin() {
  while (true) {
    Seat* const best = Choose();
    if (ABSL_PREDICT_FALSE(best == nullptr)) {
      absl::Status none = status();
      if (!none.ok()) return none;
      // One has come meanwhile, or each in turn while it was not looked at.
      continue;
    }
    best->calls.fetch_add(1, std::memory_order_seq_cst);
    // In this order: either a thread that wants the seat sees this call, or this sees that the
    // session is lost, or a later one that the seat has been taken for.
    if (ABSL_PREDICT_TRUE(!best->lost.load(std::memory_order_seq_cst))) {
      return Session(best, best->number.load(std::memory_order_relaxed));
    }
    best->calls.fetch_sub(1, std::memory_order_seq_cst);
  }
}

ExecutorLoads::Seat* ExecutorLoads::Choose() {
  Seat* best = nullptr;
  uint32_t fewest = UINT32_MAX;
  const size_t size = size_.load(std::memory_order_acquire);
  const size_t first = next_.fetch_add(1, std::memory_order_relaxed);
  for (size_t i = 0; i < size; ++i) {
    Seat* const seat = Now((first + i) % size);
    if (seat->lost.load(std::memory_order_relaxed)) continue;
    const uint32_t calls = seat->calls.load(std::memory_order_relaxed);
    if (calls >= fewest) continue;
    best = seat;
    fewest = calls;
  }
  return best;
}

ExecutorLoads::Session ExecutorLoads::session(size_t executor) const {
  absl::MutexLock lock(&mutex_);
  Seat* const seat = Now(executor);
  return Session(seat, seat->number.load(std::memory_order_relaxed));
}

bool ExecutorLoads::InUse(Session session) const {
  absl::MutexLock lock(&mutex_);
  return session.seat_->number.load(std::memory_order_relaxed) == session.number_ &&
         session.seat_->calls.load(std::memory_order_seq_cst) > 0;
}

void ExecutorLoads::Lose(Session session, const absl::Status& reason) {
  absl::MutexLock lock(&mutex_);
  Seat* const seat = session.seat_;
  if (seat->number.load(std::memory_order_relaxed) != session.number_) return;
  const bool first = !seat->lost.exchange(true, std::memory_order_seq_cst);
  if (first) lost_.fetch_add(1, std::memory_order_relaxed);
  // A call may be refused before the end of its lease is heard, or end after that. The lease's end
  // says more, and has no call's fate.
  if (first || (left() == 0 && GetCallFate(reason) == CallFate::kUnknown)) {
    reason_ = reason.ok() ? absl::UnavailableError("no reason was given") : reason;
  }
  if (!first) return;
  if (on_lost_) on_lost_(seat->executor);
}

ExecutorLoads::Session ExecutorLoads::Follow(size_t executor, Client* client) {
  absl::MutexLock lock(&mutex_);
  Seat* const seat = EmptySeatLocked(executor);
  const uint64_t number = seat->number.load(std::memory_order_relaxed) + 1;
  seat->client.store(client, std::memory_order_release);
  seat->number.store(number, std::memory_order_relaxed);
  seat->lost.store(false, std::memory_order_seq_cst);
  now_[executor].store(seat, std::memory_order_release);
  lost_.fetch_sub(1, std::memory_order_release);
  return Session(seat, number);
}

absl::StatusOr<ExecutorLoads::Session> ExecutorLoads::Add(Client* client) {
  absl::MutexLock lock(&mutex_);
  const size_t executor = size_.load(std::memory_order_relaxed);
  if (executor == most_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a group has ", most_, " executors at most, and so many there are"));
  }
  seats_.push_back(std::make_unique<Seat>(executor, client));
  now_[executor].store(seats_.back().get(), std::memory_order_release);
  size_.store(executor + 1, std::memory_order_release);
  return Session(seats_.back().get(), 0);
}

// One of the executor's that no call uses, nor will: it is marked as lost.
ExecutorLoads::Seat* ExecutorLoads::EmptySeatLocked(size_t executor) {
  for (const std::unique_ptr<Seat>& seat : seats_) {
    if (seat->executor == executor && seat->calls.load(std::memory_order_seq_cst) == 0) {
      return seat.get();
    }
  }
  seats_.push_back(std::make_unique<Seat>(executor, nullptr));
  seats_.back()->lost.store(true, std::memory_order_relaxed);
  return seats_.back().get();
}

void ExecutorLoads::set_on_lost(std::function<void(size_t)> on_lost) {
  absl::MutexLock lock(&mutex_);
  on_lost_ = std::move(on_lost);
}

absl::Status ExecutorLoads::status() const {
  absl::MutexLock lock(&mutex_);
  if (left() > 0) return absl::OkStatus();
  return WithFate(
      absl::Status(reason_.code(), absl::StrCat("none of the ", size(),
                                                " executors is left; the last one was lost "
                                                "because: ",
                                                reason_.message(),
                                                on_lost_ ? "; the group connects again as soon as "
                                                           "a worker is there"
                                                         : "")),
      CallFate::kNotSent);
}

absl::Status AfterTries(absl::Status last, bool maybe_executed) {
  const CallFate fate = GetCallFate(last);
  const bool says_less = fate == CallFate::kNotSent || fate == CallFate::kNotExecuted;
  return maybe_executed && says_less ? WithFate(std::move(last), CallFate::kMaybeExecuted) : last;
}

bool MayMove(const absl::Status& status) {
  const CallFate fate = GetCallFate(status);
  return (fate == CallFate::kNotSent || fate == CallFate::kNotExecuted) &&
         ShowsLostExecutor(status) && !absl::IsCancelled(status);
}

bool MayBeRetried(const absl::Status& status) {
  switch (GetCallFate(status)) {
    case CallFate::kNotSent:
    case CallFate::kNotExecuted:
      return MayMove(status);
    case CallFate::kMaybeExecuted:
      return ShowsLostExecutor(status) && !absl::IsCancelled(status);
    case CallFate::kUnknown:
    case CallFate::kExecuted:
      break;
  }
  return false;
}

bool ShowsLostExecutor(const absl::Status& status) {
  if (GetCallFate(status) == CallFate::kExecuted) return false;
  // What its worker has refused shows it only if the worker is going away.
  if (GetCallFate(status) == CallFate::kNotExecuted) return absl::IsUnavailable(status);
  switch (status.code()) {
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kInternal:
      return true;
    case absl::StatusCode::kCancelled:
      // A client that has been closed; others are cancelled while they wait.
      return GetCallFate(status) == CallFate::kNotSent;
    default:
      return false;
  }
}

}  // namespace invoker
