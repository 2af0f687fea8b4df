// When a call is to have ended that may take several tries: a moment that they all have in common,
// by a clock that nobody sets. A value.

#ifndef INVOKER_SRC_INVOKE_SESSION_CALL_DEADLINE_H_
#define INVOKER_SRC_INVOKE_SESSION_CALL_DEADLINE_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "src/transport/reactor/reactor.h"

namespace invoker {

class CallDeadline {
 public:
  // None.
  CallDeadline() = default;
  // From now. The clock is read only if there is a limit.
  explicit CallDeadline(absl::Duration timeout) {
    if (timeout == absl::InfiniteDuration()) return;
    const int64_t now_ns = transport::MonotonicNs();
    const int64_t timeout_ns = std::max<int64_t>(absl::ToInt64Nanoseconds(timeout), 0);
    at_ns_ = timeout_ns > kNone - now_ns ? kNone : now_ns + timeout_ns;
  }

  bool none() const { return at_ns_ == kNone; }
  // MonotonicNs.
  int64_t at_ns() const { return at_ns_; }
  // Not positive once it has passed.
  absl::Duration left() const {
    return none() ? absl::InfiniteDuration() : absl::Nanoseconds(at_ns_ - transport::MonotonicNs());
  }
  bool passed() const { return !none() && transport::MonotonicNs() >= at_ns_; }

  bool operator<(const CallDeadline& other) const { return at_ns_ < other.at_ns_; }

 private:
  static constexpr int64_t kNone = INT64_MAX;

  int64_t at_ns_ = kNone;
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_CALL_DEADLINE_H_
