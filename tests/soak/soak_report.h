// What a soak has found: the table that it prints as it goes, and its result.
//
// One thread.

#ifndef INVOKER_TESTS_SOAK_SOAK_REPORT_H_
#define INVOKER_TESTS_SOAK_SOAK_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "tests/soak/server_sample.h"

namespace invoker::soak {

// How many clients of each kind have ended, and what they have called.
struct Totals {
  uint64_t sessions = 0, leases = 0, dropped_leases = 0, killed = 0;
  uint64_t sent = 0, answered = 0, executed = 0;
  uint64_t billed = 0;  // among the executed, those of leases
};

class SoakReport {
 public:
  // A line of the table. `killed` counts those too that are not in the totals yet.
  void Line(absl::string_view state, const ServerSample& sample, uint64_t clients, uint64_t killed);
  void Violation(const std::string& what);

  // The last words, and the file, if `json` names one. The exit status.
  int Finish(const std::string& provider, uint64_t seed, const std::string& json) const;

  Totals totals;

 private:
  const absl::Time began_ = absl::Now();
  std::vector<std::string> violations_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

}  // namespace invoker::soak

#endif  // INVOKER_TESTS_SOAK_SOAK_REPORT_H_
