// Which faults a fabric is given, how often, and the dice that decide. The same seed and the same
// order of operations give the same faults.

#ifndef INVOKER_TESTS_FAULTS_FAULT_PLAN_H_
#define INVOKER_TESTS_FAULTS_FAULT_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace invoker::faults {

// Probabilities, of each single event.
struct FaultPlan {
  std::string name;

  // What every fabric may do; no caller may notice any of it.
  double post_again = 0;       // a post is refused with -FI_EAGAIN, and so are the next few
  uint32_t longest_burst = 1;  // such refusals in a row
  double late = 0;             // a completion, or a peer's notification, is held back
  // For so many reads of the queue at most, so that later ones overtake; and for no longer than a
  // peer's post may take to come, since no fabric ends the sleep of a reader for what is held back.
  uint32_t latest = 0;

  // What costs a session, or a call. Only operations of victims: endpoints that are drawn when they
  // are opened, in their own operations and in what others post to them.
  double victims = 0;
  double post_fails = 0;
  double completion_fails = 0;   // an error entry, although the operation has happened
  double completion_lost = 0;    // an operation of one's own
  double notification_lost = 0;  // that a victim should get

  // What costs the opening of a session, or a bulk call. Everybody's.
  double registration_fails = 0;
  double insert_fails = 0;
  double open_fails = 0;  // fi_getinfo, fi_fabric, fi_domain, fi_endpoint, fi_cq_open, fi_av_open
  double map_fails = 0;   // mmap, of memory that is to be registered
};

// A plan by its name; nothing if there is none.
std::optional<FaultPlan> FindPlan(absl::string_view name);
std::vector<std::string> PlanNames();

// SplitMix64: one state, each draw independent of how many came before for other objects.
class Dice {
 public:
  Dice(uint64_t seed, uint64_t object);

  uint64_t Draw();
  // True with this probability. Draws only if it can be both.
  bool Hits(double probability);
  // 1 to `most`.
  uint32_t UpTo(uint32_t most) { return 1 + static_cast<uint32_t>(Draw() % most); }

 private:
  uint64_t state_;
};

}  // namespace invoker::faults

#endif  // INVOKER_TESTS_FAULTS_FAULT_PLAN_H_
