// Tells when a provider has completed nothing for too long. Pure: the caller has the clock and the
// counts.

#ifndef INVOKER_SRC_TRANSPORT_REACTOR_STALL_DETECTOR_H_
#define INVOKER_SRC_TRANSPORT_REACTOR_STALL_DETECTOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace invoker::transport {

class StallDetector {
 public:
  struct Counts {
    uint64_t completions = 0;   // so far
    uint64_t refusals = 0;      // refused posts, so far
    bool every_slot_is_posted;  // all slots are taken, and no post waits to be tried again
    size_t quarantined = 0;     // operations
    size_t depth = 0;           // operations that the provider takes at a time
  };
  // What the provider holds.
  struct Posted {
    size_t operations = 0;               // that are not quarantined
    size_t quarantined_completions = 0;  // due for those that are
  };

  explicit StallDetector(absl::Duration limit) : limit_ns_(absl::ToInt64Nanoseconds(limit)) {}

  // To be called at every tick. Returns the time limit that has passed without a completion, or
  // nullopt if all is well. Calls `posted()`, which may take long, only if its result matters.
  template <typename CountPosted>
  std::optional<int64_t> Look(int64_t now_ns, const Counts& counts, const CountPosted& posted) {
    const int64_t passed_ns = std::min(now_ns - looked_ns_, kLongestTickNs);
    looked_ns_ = now_ns;
    if (counts.completions != completions_) {
      stalled_ns_ = 0;
      completions_ = counts.completions;
      refusals_ = counts.refusals;
      return std::nullopt;
    }
    const std::optional<int64_t> limit_ns = LimitNs(counts, posted);
    stalled_ns_ = limit_ns.has_value() ? stalled_ns_ + passed_ns : 0;
    return limit_ns.has_value() && stalled_ns_ > *limit_ns ? limit_ns : std::nullopt;
  }

 private:
  // A driver that was away for long has not seen what completed meanwhile, so no more than this
  // counts of the time between two ticks. Longer than the longest sleep.
  static constexpr int64_t kLongestTickNs = 100'000'000;
  // The limit while only quarantined operations are under way: nothing is worth a longer wait.
  static constexpr int64_t kQuarantineOnlyNs = 1'000'000'000;

  // How long nothing may complete, as things are; nullopt: for ever. An operation that waits to be
  // posted again has a deadline of its own, unless the provider refuses everything: it takes so
  // many operations at a time, and the quarantined ones are among them.
  template <typename CountPosted>
  std::optional<int64_t> LimitNs(const Counts& counts, const CountPosted& posted) const {
    if (counts.every_slot_is_posted) return limit_ns_;
    // Without a new refusal, those that were refused may have given up since.
    if (counts.quarantined == 0 || counts.refusals == refusals_) return std::nullopt;
    const Posted now = posted();
    if (now.operations + now.quarantined_completions < counts.depth) return std::nullopt;
    return now.operations == 0 ? std::min(limit_ns_, kQuarantineOnlyNs) : limit_ns_;
  }

  const int64_t limit_ns_;
  int64_t looked_ns_ = 0;
  int64_t stalled_ns_ = 0;
  // At the last completion.
  uint64_t completions_ = 0;
  uint64_t refusals_ = 0;
};

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_REACTOR_STALL_DETECTOR_H_
