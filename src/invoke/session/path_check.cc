#include "src/invoke/session/path_check.h"

#include <algorithm>
#include <utility>

namespace invoker {

using bootstrap::RequestState;

PathCheck::PathCheck(absl::Duration patience)
    : patience_ns_(absl::ToInt64Nanoseconds(std::min(patience, absl::Hours(24)))) {}

void PathCheck::Begin(const PathView& view, int64_t now_ns) {
  answers_ = view.answers;
  turns_ = view.turns;
  quiet_since_ns_ = now_ns;
  answer_.reset();
}

void PathCheck::LeaveOutAbsence(int64_t now_ns) {
  const int64_t since_look_ns = now_ns - std::exchange(looked_ns_, now_ns);
  if (quiet_since_ns_ == 0 || since_look_ns <= patience_ns_ * kLongestBetweenLooks) return;
  quiet_since_ns_ = std::min(quiet_since_ns_ + since_look_ns, now_ns);
  if (answer_.has_value()) answer_->first_ns = std::min(answer_->first_ns + since_look_ns, now_ns);
}

bool PathCheck::Waited(int64_t since_ns, int64_t now_ns) const {
  const int64_t travel_ns = static_cast<int64_t>(bytes_ * (1'000'000'000 / kLeastBytesPerSecond));
  return now_ns - since_ns >= patience_ns_ + travel_ns;
}

std::optional<uint64_t> PathCheck::Look(const PathView& view, int64_t now_ns, Verdict* verdict) {
  *verdict = Verdict::kFine;
  LeaveOutAbsence(now_ns);
  looks_since_question_ = std::min(looks_since_question_ + 1, kLooksPerQuestion);
  // A reactor that nobody polls, because a callback takes its time, sees nothing come.
  if (quiet_since_ns_ == 0 || !view.under_way || view.answers != answers_ || view.turns == turns_) {
    Begin(view, now_ns);
    return std::nullopt;
  }
  turns_ = view.turns;
  bytes_ = view.bytes;
  if (answer_.has_value() && answer_->sequence != view.oldest) answer_.reset();
  if (answer_.has_value() && answer_->state == RequestState::kAnswered &&
      Waited(answer_->first_ns, now_ns)) {
    symptom_ = "the worker has answered, and its answers do not arrive here";
    *verdict = Verdict::kBroken;
    return std::nullopt;
  }
  if (asking_ || looks_since_question_ < kLooksPerQuestion) return std::nullopt;
  asking_ = true;
  looks_since_question_ = 0;
  return view.oldest;
}

PathCheck::Verdict PathCheck::Answered(uint64_t sequence, const absl::StatusOr<RequestState>& state,
                                       int64_t now_ns) {
  asking_ = false;
  if (!state.ok()) return Verdict::kFine;
  if (!answer_.has_value() || answer_->sequence != sequence || answer_->state != *state) {
    answer_ = Answer{sequence, *state, now_ns};
  }
  // It is asked again and again: once may have been just before it arrived.
  if (*state == RequestState::kNotArrived && answer_->first_ns != now_ns &&
      Waited(quiet_since_ns_, now_ns)) {
    symptom_ = "requests do not arrive at the worker";
    return Verdict::kBroken;
  }
  return Verdict::kFine;
}

}  // namespace invoker
