#include "src/invoke/wire/wire.h"

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
    case StatusCode::kNoMemory:
      return "no_memory";
    case StatusCode::kTransferFailed:
      return "transfer_failed";
    case StatusCode::kCancelled:
      return "cancelled";
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
    case StatusCode::kNoMemory:
      return absl::ResourceExhaustedError(
          absl::StrCat("the executor has not the memory for the call", colon, message));
    case StatusCode::kTransferFailed:
      return absl::AbortedError(
          absl::StrCat(detail == 0 ? "the input could not be read, and the function did not run"
                                   : "the function has run, and its output could not be written",
                       colon, message));
    case StatusCode::kCancelled:
      return absl::CancelledError(
          absl::StrCat("the call was cancelled before the function could begin", colon, message));
  }
  return absl::InternalError(absl::StrCat("a response has the undefined status code ",
                                          static_cast<uint16_t>(code), colon, message));
}

void EncodeBulkDescriptor(const BulkDescriptor& descriptor, std::byte* to) {
  using wire_internal::Store;
  Store<uint16_t>(descriptor.input_window, to);
  Store<uint16_t>(descriptor.output_window, to + 2);
  Store<uint32_t>(0, to + 4);
  Store<uint64_t>(descriptor.input_offset, to + 8);
  Store<uint64_t>(descriptor.input_length, to + 16);
  Store<uint64_t>(descriptor.output_offset, to + 24);
  Store<uint64_t>(descriptor.output_capacity, to + 32);
}

bool DecodeBulkDescriptor(const std::byte* from, BulkDescriptor* descriptor) {
  using wire_internal::Load;
  std::array<std::byte, kBulkDescriptorBytes> snapshot;
  std::memcpy(snapshot.data(), from, snapshot.size());
  // Like HeaderSnapshot::Take.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const std::byte* at = snapshot.data();
  BulkDescriptor read;
  read.input_window = Load<uint16_t>(at);
  read.output_window = Load<uint16_t>(at + 2);
  read.input_offset = Load<uint64_t>(at + 8);
  read.input_length = Load<uint64_t>(at + 16);
  read.output_offset = Load<uint64_t>(at + 24);
  read.output_capacity = Load<uint64_t>(at + 32);
  const bool input_ok = read.input_window != 0 || (read.input_offset | read.input_length) == 0;
  const bool output_ok =
      read.output_window != 0 || (read.output_offset | read.output_capacity) == 0;
  if (Load<uint32_t>(at + 4) != 0 || !input_ok || !output_ok) return false;
  *descriptor = read;
  return true;
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
