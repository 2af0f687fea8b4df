// libfabric's return codes as absl::Status.

#ifndef INVOKER_SRC_TRANSPORT_BASE_STATUS_H_
#define INVOKER_SRC_TRANSPORT_BASE_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace invoker::transport {

// `return_code` is a negative fi_errno as libfabric returns it (a positive errno is accepted as
// well); zero gives OK. The message is "operation: libfabric's text (code)". For calls that return
// a count, pass only what is negative: a count is never an error code.
absl::Status ToStatus(absl::string_view operation, long return_code);

}  // namespace invoker::transport

#endif  // INVOKER_SRC_TRANSPORT_BASE_STATUS_H_
