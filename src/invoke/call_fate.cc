#include "src/invoke/call_fate.h"

#include "absl/strings/cord.h"
#include "absl/types/optional.h"

namespace invoker {
namespace {

constexpr absl::string_view kPayloadType = "invoker/call_fate";

constexpr CallFate kFates[] = {CallFate::kNotSent, CallFate::kNotExecuted, CallFate::kMaybeExecuted,
                               CallFate::kExecuted};

}  // namespace

absl::string_view CallFateName(CallFate fate) {
  switch (fate) {
    case CallFate::kUnknown:
      return "unknown";
    case CallFate::kNotSent:
      return "not_sent";
    case CallFate::kNotExecuted:
      return "not_executed";
    case CallFate::kMaybeExecuted:
      return "maybe_executed";
    case CallFate::kExecuted:
      return "executed";
  }
  return "unknown";
}

CallFate GetCallFate(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadType);
  if (!payload.has_value()) return CallFate::kUnknown;
  for (CallFate fate : kFates) {
    if (*payload == CallFateName(fate)) return fate;
  }
  return CallFate::kUnknown;
}

absl::Status WithFate(absl::Status status, CallFate fate) {
  status.SetPayload(kPayloadType, absl::Cord(CallFateName(fate)));
  return status;
}

}  // namespace invoker
