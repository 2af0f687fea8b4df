// What became of a call that ended with an error, as far as the client can know.
//
// Calls are at-most-once and never retried in silence, so this is what a caller needs to decide
// whether to try again.

#ifndef INVOKER_SRC_INVOKE_CALL_FATE_H_
#define INVOKER_SRC_INVOKE_CALL_FATE_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "invoker/export.h"

namespace invoker {

enum class CallFate {
  kUnknown,        // the status does not come from a call
  kNotSent,        // the request never left
  kNotExecuted,    // the worker answered that it did not run the function
  kMaybeExecuted,  // the request left and no answer came
  kExecuted,       // the function ran, and its answer is the error
};

// "not_sent", "maybe_executed", ...
INVOKER_EXPORT absl::string_view CallFateName(CallFate fate);

// The fate that WithFate has put into `status`.
INVOKER_EXPORT CallFate GetCallFate(const absl::Status& status);

// `status`, which is not OK, marked with the fate.
INVOKER_EXPORT absl::Status WithFate(absl::Status status, CallFate fate);

// The code that the function itself failed with; nothing if `status` is no function's failure.
INVOKER_EXPORT std::optional<int32_t> GetFunctionCode(const absl::Status& status);

// `status`, which is not OK, marked with the function's code.
INVOKER_EXPORT absl::Status WithFunctionCode(absl::Status status, int32_t code);

}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CALL_FATE_H_
