// Finds out that the threads of the two ends of a session have moved to other processors, so that
// what was measured between the old ones no longer holds.
//
// Pure logic. The owner looks now and then and tells what it sees. One thread at a time.

#ifndef INVOKER_SRC_INVOKE_SESSION_DRIVER_PLACEMENT_WATCH_H_
#define INVOKER_SRC_INVOKE_SESSION_DRIVER_PLACEMENT_WATCH_H_

#include <cstdint>
#include <optional>

namespace invoker {

// On which processors the two ends of a session run.
struct Placement {
  int client = -1;        // -1: not known
  uint32_t executor = 0;  // its processor plus one; 0: not known

  bool operator==(const Placement& other) const {
    return client == other.client && executor == other.executor;
  }
};

class PlacementWatch {
 public:
  // From one look to the next.
  static constexpr int64_t kIntervalNs = 1'000'000'000;

  // A measurement has been made there.
  void Measured(const Placement& at) {
    measured_ = at;
    changed_.reset();
  }

  // One look. True if a measurement is due: there is none, or this look and the one before both saw
  // the same other placement. A thread that wanders is seldom seen twice at the same place.
  bool Look(const Placement& seen) {
    if (!measured_.has_value()) return true;
    if (seen == *measured_) {
      changed_.reset();
      return false;
    }
    const bool again = changed_.has_value() && seen == *changed_;
    changed_ = seen;
    return again;
  }

 private:
  std::optional<Placement> measured_;  // where
  std::optional<Placement> changed_;   // what the last look saw, if it was another
};

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SESSION_DRIVER_PLACEMENT_WATCH_H_
