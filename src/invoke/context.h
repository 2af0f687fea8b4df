// What a function can ask about the call that it runs.
//
// Included by function.h.

#ifndef INVOKER_SRC_INVOKE_CONTEXT_H_
#define INVOKER_SRC_INVOKE_CONTEXT_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "invoker/array_view.h"
#include "invoker/function_abi.h"

namespace invoker {
#pragma GCC visibility push(hidden)
inline namespace function_abi_v1 {

// What a function can ask about the call that it runs, and room for arrays that it returns. Valid
// during the call, on its thread; a Reply's until the answer, on any thread. A typed function gets
// one by a first parameter of type Context or Context&; one of bytes by Output::context().
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
      // A length too large for any room, or one that was negative.
      const bool overflows = __builtin_mul_overflow(bytes, dimension, &bytes);
      if (overflows || bytes > UINT64_MAX / 2) bytes = UINT64_MAX / 2;
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

}  // namespace function_abi_v1
#pragma GCC visibility pop
}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_CONTEXT_H_
