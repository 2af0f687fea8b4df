// The addresses of this process's endpoints. Any thread.

#ifndef INVOKER_SRC_TRANSPORT_FABRIC_PROCESS_ADDRESSES_H_
#define INVOKER_SRC_TRANSPORT_FABRIC_PROCESS_ADDRESSES_H_

#include "absl/strings/string_view.h"

namespace invoker::transport {

// Adds the raw address of an endpoint that this process has opened. It stays until the process
// ends: a provider that knows the endpoints of its own process does not forget them either.
void AddProcessAddress(absl::string_view raw_address);

bool IsProcessAddress(absl::string_view raw_address);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_FABRIC_PROCESS_ADDRESSES_H_
