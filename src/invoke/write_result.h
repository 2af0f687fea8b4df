// Writes the result of a typed function into the room for the response.
//
// Included by function.h.

#ifndef INVOKER_SRC_INVOKE_WRITE_RESULT_H_
#define INVOKER_SRC_INVOKE_WRITE_RESULT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "invoker/function_abi.h"
#include "invoker/values.h"

namespace invoker {
#pragma GCC visibility push(hidden)
inline namespace function_abi_v1 {
namespace function_internal {

inline void SetError(invoker_call* call, std::string_view message) {
  if (call->error_capacity == 0) return;
  std::size_t size = message.size();
  if (size >= call->error_capacity) {
    size = call->error_capacity - 1;
    // Not in the middle of a UTF-8 character: 10xxxxxx continues one.
    while (size > 0 && (static_cast<unsigned char>(message[size]) & 0xC0) == 0x80) --size;
  }
  if (size != 0) std::memcpy(call->error, message.data(), size);
  call->error[size] = '\0';
}

// Where the parts of a result lie, and where they go.
class ResultPlaces {
 public:
  // Whether writing the result's parts from the first to the last overwrites none of them.
  template <typename T>
  static bool LieInOrder(const T& result, const std::byte* output) {
    const std::byte* place = output;
    return AddPart(result, output, &place);
  }
  template <typename T>
  static bool AddPart(const T& part, const std::byte* output, const std::byte** place) {
    const std::byte* const begin = *place;
    *place += Value<T>::Size(part);
    if constexpr (!Value<T>::kIsView) {
      return true;
    } else {
      return IsInPlace(part, output, begin, *place);
    }
  }
  template <typename T>
  static bool IsInPlace(const T& view, const std::byte* output, const std::byte* begin,
                        const std::byte* end) {
    const auto* const data = reinterpret_cast<const std::byte*>(view.data());
    // Elsewhere, or not before the place where its bytes go.
    return data < output || data >= end || data >= begin + Value<T>::kHeadBytes;
  }
  template <typename... T>
  static bool AddPart(const std::tuple<T...>& parts, const std::byte* output,
                      const std::byte** place) {
    return std::apply(
        [&](const T&... part) { return (true && ... && AddPart(part, output, place)); }, parts);
  }
  template <typename T>
  static bool AddPart(const std::optional<T>& part, const std::byte* output,
                      const std::byte** place) {
    *place += 8;
    return !part.has_value() || AddPart(*part, output, place);
  }
  // Views in a list may lie anywhere.
  template <typename T>
  static bool AddPart(const std::vector<T>& parts, const std::byte*, const std::byte** place) {
    *place += Value<std::vector<T>>::Size(parts);
    return !Value<std::vector<T>>::kIsView;
  }
};

// Returns what the function returns then.
template <typename T>
std::int64_t WriteResult(const T& result, invoker_call* call) {
  const std::size_t size = Value<T>::Size(result);
  if (size > call->output_capacity) {
    call->output_needed = size;
    return INVOKER_OUTPUT_TOO_SMALL;
  }
  auto* const output = static_cast<std::byte*>(call->output);
  if (ResultPlaces::LieInOrder(result, output)) {
    Value<T>::Write(result, output);
  } else {
    // A part of the result would be written over before it is read.
    std::vector<std::byte> copy(size);
    Value<T>::Write(result, copy.data());
    std::memcpy(output, copy.data(), size);
  }
  return static_cast<std::int64_t>(size);
}

}  // namespace function_internal
}  // namespace function_abi_v1
#pragma GCC visibility pop
}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_WRITE_RESULT_H_
