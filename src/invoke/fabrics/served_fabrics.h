// Which fabrics a worker serves, and proof that each works.

#ifndef INVOKER_SRC_INVOKE_FABRICS_SERVED_FABRICS_H_
#define INVOKER_SRC_INVOKE_FABRICS_SERVED_FABRICS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/bootstrap/messages/messages.h"
#include "src/invoke/fabrics/fabric_finder.h"
#include "src/transport/discovery/discovery.h"
#include "src/transport/self_test/self_test_process.h"

namespace invoker {

struct ServedFabrics {
  std::vector<transport::FabricChoice> fabrics;  // best first; never empty
  // Asked for by name: their endpoints are to be opened at once, so that what is wrong with them is
  // told at the start.
  bool by_name = false;
  // What somebody who reads the worker's log should know: which fabrics are left out, and why.
  std::vector<std::string> notes;
  // The fabrics that this machine has and that are left out. For clients.
  std::vector<bootstrap::UnservedFabric> unserved;
};

// `providers` are libfabric's names, or "auto" alone, or nothing, which is the same. Automatic are
// all that the profile table ranks, that are found here, that write `window_bytes` at once, and
// that pass the self-test; what the self-test does not see of notifications is not claimed. Named
// ones must all be found, and are taken in the order given; the probe at session open is their
// proof. INVALID_ARGUMENT for a list that makes no sense or too large a window, NOT_FOUND if
// nothing can be served, or without the program that tries fabrics. Blocks for about a second where
// all fabrics work, and for RunSelfTestsApart's time where one hangs. The calling thread must not
// end before it returns. Any thread.
absl::StatusOr<ServedFabrics> SelectServedFabrics(absl::Span<const std::string> providers,
                                                  const FabricAddresses& addresses,
                                                  uint64_t window_bytes,
                                                  const transport::SelfTestOptions& self_test);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_FABRICS_SERVED_FABRICS_H_
