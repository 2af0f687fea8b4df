// Every fabric of this machine, with what Invoker would do on it, or why it cannot use it.

#ifndef INVOKER_SRC_TRANSPORT_DISCOVERY_DISCOVERY_LIST_H_
#define INVOKER_SRC_TRANSPORT_DISCOVERY_DISCOVERY_LIST_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/transport/discovery/discovery.h"

namespace invoker::transport {

struct ListedFabric {
  // The profile is resolved only if `usable` is OK; otherwise it holds the provider's name and
  // nothing else.
  FabricChoice choice;
  // OK, or why Invoker cannot use this fabric, in words for its user.
  absl::Status usable;
};

// One entry per provider, fabric, domain and source address with an RDM endpoint: first what the
// profile rows' own hints find, in the rows' order of choice; then what only more permissive hints
// find, which is providers without a row and fabrics that refuse what Invoker asks for. With
// `provider`, only that provider's. Within a provider the order is fi_getinfo's. An empty list is
// no error. Blocks (some milliseconds per row). Any thread.
absl::StatusOr<std::vector<ListedFabric>> ListFabrics(absl::string_view provider);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_DISCOVERY_DISCOVERY_LIST_H_
