// Runs functions with typed parameters and results: the part of INVOKER_FUNCTION (function.h) that
// reads arguments out of a request, and writes a result into the room for the response.
//
// Included by function.h, and of no use without it.

#ifndef INVOKER_SRC_INVOKE_TYPED_FUNCTION_H_
#define INVOKER_SRC_INVOKE_TYPED_FUNCTION_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "invoker/array_view.h"
#include "invoker/function_abi.h"
#include "invoker/values.h"

namespace invoker {
#pragma GCC visibility push(hidden)
inline namespace function_abi_v1 {

// What a function can ask about the call that it runs, and room for arrays that it returns. Valid
// during the call, on its thread. A typed function gets one by a first parameter of type Context or
// Context&; one of bytes by Output::context().
class Context {
 public:
  explicit Context(const invoker_call* call) : call_(call) {}

  // Whether nobody waits for the answer any more: the caller has cancelled the call, or its
  // deadline has passed. A function that takes long may ask in its loop, and end at once.
  bool cancelled() const { return INVOKER_CALL_CANCELLED(call_); }
  // The name of the caller's tenant; "" where the worker has no policy.
  std::string tenant() const { return facts().tenant; }
  // Until the call's deadline: less than 0 after it; nothing: it has none.
  std::optional<std::chrono::nanoseconds> remaining() const {
    const std::int64_t left = facts().remaining_ns;
    if (left == INVOKER_NO_DEADLINE) return std::nullopt;
    return std::chrono::nanoseconds(left);
  }
  // For logs: "5f3a01c2-17", the session and the call in it. No other call has it.
  std::string call_id() const { return facts().call_id; }

  // An array whose elements lie where the response is made, so that returning it copies nothing.
  // Undefined at first. `context.NewArray<double>(rows, columns)`. Where a result has several such
  // arrays, make them in the order in which they are returned. The call fails as "response too
  // large" if there is no room for it.
  template <typename T, typename... Length>
  ArrayView<T, sizeof...(Length)> NewArray(Length... length) {
    constexpr std::size_t kDimensions = sizeof...(Length);
    const std::array<std::size_t, kDimensions> shape = {static_cast<std::size_t>(length)...};
    std::uint64_t bytes = sizeof(T);
    for (const std::size_t dimension : shape) {
      if (__builtin_mul_overflow(bytes, dimension, &bytes)) bytes = UINT64_MAX / 2;
    }
    const std::uint64_t data = used_ + 8 * kDimensions;
    const std::uint64_t end = data + (bytes + 7) / 8 * 8;
    if (end > call_->output_capacity) throw NoRoom{end};
    used_ = end;
    return ArrayView<T, kDimensions>(
        reinterpret_cast<T*>(static_cast<std::byte*>(call_->output) + data), shape);
  }

  // What NewArray throws, and a function lets pass.
  struct NoRoom {
    std::uint64_t needed;  // bytes
  };

 private:
  invoker_call_facts facts() const {
    invoker_call_facts facts = {};
    facts.struct_size = sizeof(facts);
    facts.tenant = "";
    facts.remaining_ns = INVOKER_NO_DEADLINE;
    if (call_->services != nullptr) call_->services->describe(call_, &facts);
    return facts;
  }

  const invoker_call* call_;
  std::uint64_t used_ = 0;  // bytes of the output
};

// What a function throws to fail with a code of the application's own, which reaches the caller
// beside the message: INVOKER_APPLICATION_CODE_MIN to _MAX. Any other std::exception fails, too.
class CallError : public std::runtime_error {
 public:
  CallError(std::int32_t code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  std::int32_t code() const { return code_; }

 private:
  std::int32_t code_;
};

namespace function_internal {

inline void SetError(invoker_call* call, std::string_view message);

// The parameters of a function that its caller gives, and how to call it with them.
template <typename R, bool kTakesContext, typename... Parameters>
struct Typed {
  using Result = values_internal::Traveling<R>;
  using Arguments = std::tuple<values_internal::Traveling<Parameters>...>;

  static std::string Signature() { return values_internal::SignatureOf<Result, Arguments>(); }

  template <typename Body>
  static std::int64_t Call(const Body& body, invoker_call* call) {
    Arguments arguments;
    if (!Read(call, &arguments, std::index_sequence_for<Parameters...>())) return INVOKER_FAILED;
    Context context(call);
    const auto run = [&](auto&... argument) -> R {
      if constexpr (kTakesContext) {
        return body(context, static_cast<Parameters&&>(argument)...);
      } else {
        return body(static_cast<Parameters&&>(argument)...);
      }
    };
    if constexpr (std::is_void_v<R>) {
      std::apply(run, arguments);
      return 0;
    } else {
      return Write(std::apply(run, arguments), call);
    }
  }

 private:
  template <std::size_t... I>
  static bool Read(invoker_call* call, [[maybe_unused]] Arguments* arguments,
                   std::index_sequence<I...>) {
    ValueReader reader(call->input, call->input_size);
    const bool all = (true && ... && ReadOne(call, &reader, I, &std::get<I>(*arguments)));
    if (!all) return false;
    if (reader.left() == 0) return true;
    SetError(call, "the request has " + std::to_string(reader.left()) +
                       " bytes more than the arguments of " + Signature());
    return false;
  }
  template <typename T>
  static bool ReadOne(invoker_call* call, ValueReader* reader, std::size_t index, T* argument) {
    if (Value<T>::Read(reader, argument)) return true;
    SetError(call, "argument " + std::to_string(index + 1) + " is no " + Value<T>::Name() +
                       ", or is cut short: the function is " + Signature() +
                       ", and the request has " + std::to_string(call->input_size) + " bytes");
    return false;
  }

  template <typename T>
  static std::int64_t Write(const T& result, invoker_call* call) {
    const std::size_t size = Value<T>::Size(result);
    if (size > call->output_capacity) {
      call->output_needed = size;
      return INVOKER_OUTPUT_TOO_SMALL;
    }
    auto* const output = static_cast<std::byte*>(call->output);
    if (LiesInOrder(result, output)) {
      Value<T>::Write(result, output);
    } else {
      // A part of the result would be written over before it is read.
      std::vector<std::byte> copy(size);
      Value<T>::Write(result, copy.data());
      std::memcpy(output, copy.data(), size);
    }
    return static_cast<std::int64_t>(size);
  }

  // Whether writing the result's parts from the first to the last overwrites none of them.
  template <typename T>
  static bool LiesInOrder(const T& result, const std::byte* output) {
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

// Takes a function's type apart.
template <typename Function>
struct TypedOf;
template <typename R, typename... Parameters>
struct TypedOf<R(Parameters...)> : Typed<R, false, Parameters...> {};
template <typename R, typename... Parameters>
struct TypedOf<R(Context, Parameters...)> : Typed<R, true, Parameters...> {};
template <typename R, typename... Parameters>
struct TypedOf<R(Context&, Parameters...)> : Typed<R, true, Parameters...> {};
template <typename R, typename... Parameters>
struct TypedOf<R (*)(Parameters...)> : TypedOf<R(Parameters...)> {};
template <typename Class, typename R, typename... Parameters>
struct TypedOf<R (Class::*)(Parameters...) const> : TypedOf<R(Parameters...)> {};

// What a callable is: a function pointer itself, a lambda by its operator().
template <typename Callable, typename = void>
struct FunctionOf {
  using Type = Callable;
};
template <typename Callable>
struct FunctionOf<Callable, std::void_t<decltype(&Callable::operator())>> {
  using Type = decltype(&Callable::operator());
};

}  // namespace function_internal
}  // namespace function_abi_v1
#pragma GCC visibility pop
}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_TYPED_FUNCTION_H_
