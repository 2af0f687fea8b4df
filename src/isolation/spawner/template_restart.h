// When a template must be ready after its start, and when another one is started after its end.
// Pure: the caller has the clock. Not thread-safe.

#ifndef INVOKER_SRC_ISOLATION_SPAWNER_TEMPLATE_RESTART_H_
#define INVOKER_SRC_ISOLATION_SPAWNER_TEMPLATE_RESTART_H_

#include <algorithm>

#include "absl/time/time.h"

namespace invoker {

class TemplateRestart {
 public:
  // Doubled with each template that ends soon after its start: a template that cannot live costs
  // little.
  static constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
  static constexpr absl::Duration kLongestPause = absl::Seconds(30);
  // A template that has lived for so long has not ended because of its start.
  static constexpr absl::Duration kSettled = absl::Minutes(1);

  void OnStarted(absl::Time now) { started_at_ = now; }
  // The template is ready, or is given up.
  void OnPrepared() { prepare_by_ = absl::InfiniteFuture(); }

  // The template has ended, or could not be started. Returns the pause before the next start.
  absl::Duration OnLost(absl::Time now) {
    if (now - started_at_ > kSettled) failures_ = 0;
    const absl::Duration pause =
        std::min(kLongestPause, kFirstPause * (1 << std::min(failures_, kMostDoublings)));
    ++failures_;
    prepare_by_ = absl::InfiniteFuture();
    restart_at_ = now + pause;
    return pause;
  }
  // Whether a template that was started again was not ready in time.
  bool is_late(absl::Time now) const { return prepare_by_ <= now; }
  // True once, when the next template is to be started. It must be ready within `limit`.
  bool TakeStart(absl::Time now, absl::Duration limit) {
    if (restart_at_ > now) return false;
    restart_at_ = absl::InfiniteFuture();
    prepare_by_ = now + limit;
    return true;
  }
  // When to look again.
  absl::Time next() const { return std::min(restart_at_, prepare_by_); }

 private:
  static constexpr int kMostDoublings = 9;

  absl::Time started_at_;
  absl::Time prepare_by_ = absl::InfiniteFuture();
  absl::Time restart_at_ = absl::InfiniteFuture();
  int failures_ = 0;  // templates that ended soon after their start
};

}  // namespace invoker

#endif  // INVOKER_SRC_ISOLATION_SPAWNER_TEMPLATE_RESTART_H_
