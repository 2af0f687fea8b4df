#include "src/invoke/request_search.h"

#include <utility>

#include "src/transport/reactor.h"

namespace invoker {
namespace {

using bootstrap::RequestState;

// How long after the last question passes are still counted. Longer than from one to the next.
constexpr int64_t kForgetNs = 60'000'000'000;

// With so much of its patience left a question is answered once there have been passes enough in
// all, between two functions: later there might be no such moment.
constexpr int64_t kHurryNs = 50'000'000;

}  // namespace

absl::StatusOr<RequestState> RequestSearch::Ask(SessionKey session, uint64_t sequence,
                                                const ExecutorWatch& watch, absl::Duration patience,
                                                absl::FunctionRef<void()> wake) {
  {
    absl::MutexLock lock(&mutex_);
    Case& one = cases_[session.epoch];
    if (one.sequence != sequence) one = Case();
    one.session = session;
    one.sequence = sequence;
    one.asked_ns = transport::MonotonicNs();
    one.fresh = 0;
    one.answer.reset();
    idle_.store(false, std::memory_order_relaxed);
    waiting_.fetch_add(1, std::memory_order_relaxed);
  }
  wake();
  absl::MutexLock lock(&mutex_);
  const auto known = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = cases_.find(session.epoch);
    // Another question about the session may have taken this one's place.
    return found == cases_.end() || found->second.sequence != sequence ||
           found->second.answer.has_value();
  };
  mutex_.AwaitWithTimeout(absl::Condition(&known), patience);
  waiting_.fetch_sub(1, std::memory_order_relaxed);
  const auto found = cases_.find(session.epoch);
  if (found == cases_.end() || found->second.sequence != sequence) {
    return RequestState::kInHand;
  }
  const Case& one = found->second;
  if (one.answer.has_value()) return *one.answer;
  if (!one.state.has_value() || one.passes < kLeastPasses) return RequestState::kInHand;
  const ExecutorWatch::Run run = watch.Now();
  // A thread that runs no function and makes no pass has no processor, and tells nothing.
  if (one.fresh == 0 && !run.running()) return RequestState::kInHand;
  // The request may have come since the last look, and be what runs.
  if (*one.state == RequestState::kNotArrived && run.Of(session.epoch)) {
    return RequestState::kInHand;
  }
  return *one.state;
}

void RequestSearch::Look(Find find, int64_t now_ns) {
  absl::MutexLock lock(&mutex_);
  bool idle = true;
  for (auto next = cases_.begin(); next != cases_.end();) {
    const auto found = next++;
    Case& one = found->second;
    LookAt(find, now_ns, &one);
    if (IsOpen(one) && now_ns - one.asked_ns <= kForgetNs) {
      idle = false;
    } else if (!one.state.has_value() && !awaited()) {
      cases_.erase(found);
    }
  }
  idle_.store(idle, std::memory_order_relaxed);
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
  // What has arrived never has not.
  return one.state == RequestState::kNotArrived ||
         (one.state == RequestState::kAnswered && one.passes < kEnoughPasses);
}

}  // namespace invoker
