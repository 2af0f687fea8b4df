#include "src/invoke/wire.h"

#include "absl/strings/str_cat.h"

namespace invoker {

absl::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kFunctionFailed:
      return "function_failed";
    case StatusCode::kUnknownFunction:
      return "unknown_function";
    case StatusCode::kResponseTooLarge:
      return "response_too_large";
    case StatusCode::kDeadlineExpired:
      return "deadline_expired";
    case StatusCode::kDraining:
      return "draining";
    case StatusCode::kInvalidRequest:
      return "invalid_request";
  }
  return "undefined";
}

absl::string_view WireErrorName(WireError error) {
  switch (error) {
    case WireError::kNone:
      return "none";
    case WireError::kBadKind:
      return "bad_kind";
    case WireError::kUnknownFlags:
      return "unknown_flags";
    case WireError::kNonzeroReserved:
      return "nonzero_reserved";
    case WireError::kUnknownStatus:
      return "unknown_status";
  }
  return "undefined";
}

absl::Status ToStatus(StatusCode code, uint32_t detail, absl::string_view message) {
  const absl::string_view colon = message.empty() ? "" : ": ";
  switch (code) {
    case StatusCode::kOk:
      return absl::OkStatus();
    case StatusCode::kFunctionFailed:
      return absl::UnknownError(absl::StrCat("the function failed with code ",
                                             static_cast<int32_t>(detail), colon, message));
    case StatusCode::kUnknownFunction:
      return absl::NotFoundError(
          absl::StrCat("the worker has no function of that id", colon, message));
    case StatusCode::kResponseTooLarge:
      return absl::ResourceExhaustedError(
          absl::StrCat("the response needs ", detail,
                       " bytes; call with a response capacity of at "
                       "least that",
                       colon, message));
    case StatusCode::kDeadlineExpired:
      return absl::DeadlineExceededError(absl::StrCat(
          "the deadline passed before the worker could run the function", colon, message));
    case StatusCode::kDraining:
      return absl::UnavailableError(absl::StrCat(
          "the worker is draining and did not run the function; call another one", colon, message));
    case StatusCode::kInvalidRequest:
      return absl::InvalidArgumentError(
          absl::StrCat("the worker refused the request", colon, message));
  }
  return absl::InternalError(absl::StrCat("a response has the undefined status code ",
                                          static_cast<uint16_t>(code), colon, message));
}

absl::StatusOr<WindowGeometry> WindowGeometry::Make(uint64_t window_bytes) {
  const bool power_of_two = window_bytes != 0 && (window_bytes & (window_bytes - 1)) == 0;
  if (!power_of_two || window_bytes < kMinWindowBytes || window_bytes > kMaxWindowBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a window of ", window_bytes, " bytes is not possible: use a power of two from ",
        kMinWindowBytes, " to ", kMaxWindowBytes));
  }
  uint32_t cell_shift = 0;
  while (1u << cell_shift < kMinCellBytes || (window_bytes >> cell_shift) > kMaxCells) ++cell_shift;
  return WindowGeometry(window_bytes, cell_shift);
}

}  // namespace invoker
