// In which order a client tries the worker's fabrics, and how it says what came of it.
//
// Decided from what both sides say and nothing else. Pure: any thread.

#ifndef INVOKER_SRC_INVOKE_FABRICS_FABRIC_CHOICE_H_
#define INVOKER_SRC_INVOKE_FABRICS_FABRIC_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/bootstrap/messages/messages.h"

namespace invoker {

// What this side has for one of the worker's offers.
struct LocalFabric {
  absl::Status status;  // OK, or why this host does not have it
  bootstrap::FabricIdentity identity;
  uint32_t auto_rank = 0;  // ProfileRow::auto_rank
};

// An offer that is of no use, by its place in the list.
struct FabricFailure {
  size_t offer = 0;
  absl::Status status;
  std::string brief;  // the same in a few words; empty: the status says it
};

struct FabricPlan {
  std::vector<size_t> order;               // offers to try, best first
  std::vector<FabricFailure> passed_over;  // the others
};

// What both sides have alike and can reach each other over, by this side's ranks; those without a
// rank last, in the worker's order. `local` has one entry for each offer.
FabricPlan ChooseFabrics(absl::Span<const bootstrap::FabricOffer> offers,
                         absl::Span<const LocalFabric> local, bool same_host);

// For users: which offer it has become and why, as in "a: same host; the worker also offers b" or
// "b: a was tried first and failed (it broke)". `failed` were tried before; `named`: the user asked
// for it.
std::string ExplainChoice(absl::Span<const bootstrap::FabricOffer> offers, const FabricPlan& plan,
                          size_t chosen, absl::Span<const FabricFailure> failed, bool named);

// Why none has become it: of one failure its own status, of several one that lists them. The code
// is theirs if all have the same, else UNAVAILABLE.
absl::Status ExplainFailure(absl::string_view worker,
                            absl::Span<const bootstrap::FabricOffer> offers, const FabricPlan& plan,
                            absl::Span<const FabricFailure> failed);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_FABRICS_FABRIC_CHOICE_H_
