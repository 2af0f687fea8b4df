#include "invoker/call_fate.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

namespace invoker {
namespace {

constexpr absl::string_view kPayloadType = "invoker/call_fate";

constexpr absl::string_view kCodePayloadType = "invoker/function_code";

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

std::optional<int32_t> GetFunctionCode(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kCodePayloadType);
  int32_t code = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &code)) return std::nullopt;
  return code;
}

absl::Status WithFunctionCode(absl::Status status, int32_t code) {
  status.SetPayload(kCodePayloadType, absl::Cord(absl::StrCat(code)));
  return status;
}

}  // namespace invoker
