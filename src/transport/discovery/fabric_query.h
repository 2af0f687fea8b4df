// One question to fi_getinfo, by a profile row: the process's environment is prepared first, what
// the row asks for but can do without is dropped if the provider refuses it, and entries that are
// not the provider's or that the row passes over are left out.

#ifndef INVOKER_SRC_TRANSPORT_DISCOVERY_FABRIC_QUERY_H_
#define INVOKER_SRC_TRANSPORT_DISCOVERY_FABRIC_QUERY_H_

#include <string>
#include <vector>

#include "src/transport/base/libfabric.h"
#include "src/transport/provider/provider_profile.h"

namespace invoker::transport {

struct QueryResult {
  int code = 0;  // fi_getinfo's: negative fi_errno; -FI_ENODATA also if no entry was left
  InfoPtr list;
  std::vector<const fi_info*> entries;  // in `list`, as fi_getinfo ordered them
};

// `hints` are MakeHints(row, provider), with whatever the caller added. `node`, unless empty, is an
// IP address of ours. An entry is kept if it is exactly `provider`'s (any provider's where that is
// empty). If nothing is left and the hints ask for FI_ATOMIC, asks once more without: counters can
// be kept by message as well. Blocks for as long as fi_getinfo takes (milliseconds; the process's
// first, some hundred). Any thread.
QueryResult QueryFabrics(const ProfileRow& row, absl::string_view provider, fi_info* hints,
                         const std::string& node);

// Sets what providers read from the environment, once per process and before its first fi_getinfo.
// A process that has used libfabric before, or that reads its environment on another thread just
// then, sets these itself.
void PrepareEnvironment();

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_DISCOVERY_FABRIC_QUERY_H_
