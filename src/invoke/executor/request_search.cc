#include "src/invoke/executor/request_search.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {
namespace {

using bootstrap::RequestState;

// How long after the last question passes are still counted. Longer than from one to the next, of a
// client that is to notice within seconds; others' functions may run in between.
constexpr int64_t kForgetNs = 10'000'000'000;

// With so much of its patience left a question is answered once there have been passes enough in
// all, between two functions: later there might be no such moment.
constexpr int64_t kHurryNs = 50'000'000;

}  // namespace

absl::StatusOr<RequestState> RequestSearch::Ask(SessionKey session, uint64_t sequence,
                                                const ExecutorWatch& watch, absl::Duration patience,
                                                absl::FunctionRef<void()> wake) {
  const absl::Time until = absl::Now() + patience;
  {
    absl::MutexLock lock(&mutex_);
    Case& one = cases_[session.epoch];
    if (one.sequence != sequence) {
      // Who waits for the one before is not told.
      const int waiting = one.waiting;
      one = Case();
      one.waiting = waiting;
      told_.SignalAll();
    }
    one.session = session;
    one.sequence = sequence;
    one.asked_ns = transport::MonotonicNs();
    one.fresh = 0;
    one.answer.reset();
    ++one.waiting;
    idle_.store(false, std::memory_order_relaxed);
    waiting_.fetch_add(1, std::memory_order_relaxed);
  }
  wake();
  absl::MutexLock lock(&mutex_);
  // The case stays while a thread waits for it.
  const auto found = cases_.find(session.epoch);
  Case& one = found->second;
  while (one.sequence == sequence && !one.answer.has_value()) {
    if (told_.WaitWithDeadline(&mutex_, until)) break;
  }
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  absl::StatusOr<RequestState> answer =
      one.sequence == sequence ? AnswerOf(one, watch) : RequestState::kInHand;
  if (--one.waiting == 0 && !IsOpen(one)) cases_.erase(found);
  return answer;
}

absl::StatusOr<RequestState> RequestSearch::AnswerOf(const Case& one, const ExecutorWatch& watch) {
  if (one.answer.has_value()) return *one.answer;
  if (!one.state.has_value() || one.passes < kLeastPasses) return RequestState::kInHand;
  const ExecutorWatch::Run run = watch.Now();
  // A thread that runs no function and makes no pass has no processor, and tells nothing.
  if (one.fresh == 0 && !run.running()) return RequestState::kInHand;
  // The request may have come since the last look, and may be running now.
  if (*one.state == RequestState::kNotArrived && run.Of(one.session.epoch)) {
    return RequestState::kInHand;
  }
  return *one.state;
}

size_t RequestSearch::cases() const {
  absl::MutexLock lock(&mutex_);
  return cases_.size();
}

void RequestSearch::Look(Find find, int64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  const size_t all = cases_.size();
  bool open = all > kCasesPerLook;
  bool tells = false;
  auto next = cases_.lower_bound(next_epoch_);
  for (size_t looks = std::min(all, kCasesPerLook); looks > 0; --looks) {
    if (next == cases_.end()) next = cases_.begin();
    const auto found = next++;
    Case& one = found->second;
    const bool told = one.answer.has_value();
    LookAt(find, now_ns, &one);
    tells |= !told && one.answer.has_value();
    const bool wanted = IsOpen(one) && now_ns - one.asked_ns <= kForgetNs;
    open |= wanted;
    if (!wanted && one.waiting == 0) cases_.erase(found);
  }
  next_epoch_ = next == cases_.end() ? 0 : next->first;
  if (tells) told_.SignalAll();
  idle_.store(!open, std::memory_order_relaxed);
}

void RequestSearch::LookAt(Find find, int64_t now_ns, Case* one) {
  absl::StatusOr<RequestState> state = find(one->session, one->sequence);
  if (!state.ok() || *state == RequestState::kInHand) {
    one->answer = std::move(state);
    one->state.reset();
    return;
  }
  if (one->state != *state) {
    one->state = *state;
    one->passes = one->fresh = 0;
    one->answer.reset();
    return;
  }
  ++one->passes;
  ++one->fresh;
  const bool hurry = one->passes >= kLeastPasses && now_ns - one->asked_ns >= kHurryNs;
  if (one->fresh >= kEnoughPasses || hurry) one->answer = *state;
}

bool RequestSearch::IsOpen(const Case& one) {
  if (!one.answer.has_value()) return true;
  // A request that has arrived stays so.
  return one.state == RequestState::kNotArrived ||
         (one.state == RequestState::kAnswered && one.passes < kEnoughPasses);
}

}  // namespace invoker
