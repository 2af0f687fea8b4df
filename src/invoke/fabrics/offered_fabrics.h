// What this host has for each of the fabrics that a worker offers.

#ifndef INVOKER_SRC_INVOKE_FABRICS_OFFERED_FABRICS_H_
#define INVOKER_SRC_INVOKE_FABRICS_OFFERED_FABRICS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/fabrics/fabric_choice.h"
#include "src/invoke/fabrics/fabric_finder.h"

namespace invoker {

// Both have one entry for each offer, in the offers' order.
struct OfferedFabrics {
  std::vector<FoundFabric> found;
  std::vector<LocalFabric> local;  // for ChooseFabrics
};

// Errors and blocking as FindFabrics. Any thread.
absl::StatusOr<OfferedFabrics> FindOfferedFabrics(absl::Span<const bootstrap::FabricOffer> offers,
                                                  const FabricAddresses& addresses);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_FABRICS_OFFERED_FABRICS_H_
