// Which fabrics a worker serves, and proof that each works.

#ifndef INVOKER_SRC_INVOKE_SERVED_FABRICS_H_
#define INVOKER_SRC_INVOKE_SERVED_FABRICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/invoke/fabric_finder.h"
#include "src/transport/discovery.h"

namespace invoker {

struct ServedFabrics {
  std::vector<transport::FabricChoice> fabrics;  // best first; never empty
  // Asked for by name: their endpoints are to be opened at once, so that what is wrong with them is
  // told at the start.
  bool by_name = false;
  // What somebody who reads the worker's log should know: which fabrics are left out, and why.
  std::vector<std::string> notes;
};

// `providers` are libfabric's names, or "auto" alone, or nothing, which is the same. Automatic are
// all that the profile table ranks, that are found here, that write `window_bytes` at once, and
// that pass the self-test (transport::RunSelfTest); what the self-test does not see of
// notifications is not claimed. Named ones must all be found, and are taken in the order given; the
// probe at session open is their proof. INVALID_ARGUMENT for a list that makes no sense or too
// large a window, NOT_FOUND if nothing can be served. Blocks for a second at most per fabric, and
// much less where it works. Any thread.
absl::StatusOr<ServedFabrics> SelectServedFabrics(absl::Span<const std::string> providers,
                                                  const FabricAddresses& addresses,
                                                  uint64_t window_bytes);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_SERVED_FABRICS_H_
