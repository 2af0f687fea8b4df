// The answer of a function that answers later.
//
// Included by function.h, and of no use without it.

#ifndef INVOKER_SRC_INVOKE_REPLY_H_
#define INVOKER_SRC_INVOKE_REPLY_H_

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "invoker/context.h"
#include "invoker/function_abi.h"
#include "invoker/write_result.h"

namespace invoker {
#pragma GCC visibility push(hidden)
inline namespace function_abi_v1 {

// A typed function of type `void(Reply<R>, ...)` is one that returns R for its callers. It may
// return before it has answered: any thread answers, by calling the reply. Meanwhile the executor
// runs other functions. Arguments that are views hold until the answer, and so does the context.
//
// Movable. One that is destroyed without an answer fails the call. What the function throws fails
// the call, too, and an answer after that has no effect.
template <typename R>
class Reply {
 public:
  // Takes the call from the function that defers it.
  explicit Reply(invoker_call* call) : call_(call) {}
  Reply(Reply&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  Reply& operator=(Reply&& other) noexcept {
    std::swap(call_, other.call_);
    return *this;
  }
  ~Reply() { Fail("the function has dropped the reply without an answer"); }

  // Answers, on any thread and without blocking; views among the arguments end. `reply(value)`, or
  // `reply()` for void. False, and nothing happens, if there has been an answer already.
  template <typename... Value>
  bool operator()(const Value&... value) {
    if (call_ == nullptr) return false;
    if constexpr (sizeof...(Value) == 0) {
      return Complete(0);
    } else {
      return Complete(function_internal::WriteResult<R>(value..., call_));
    }
  }

  // The call fails, with this message and perhaps a code of the application's own (CallError).
  bool Fail(std::string_view message, std::int32_t code = INVOKER_FAILED) {
    if (call_ == nullptr) return false;
    function_internal::SetError(call_, message);
    return Complete(code < 0 ? code : INVOKER_FAILED);
  }

  // Until there is an answer; on any thread.
  Context context() const { return Context(call_); }
  bool cancelled() const { return call_ == nullptr || INVOKER_CALL_CANCELLED(call_); }

 private:
  bool Complete(std::int64_t returned) {
    invoker_call* const call = std::exchange(call_, nullptr);
    call->services->complete(call, returned);
    return true;
  }

  invoker_call* call_;  // nullptr: there has been an answer
};

}  // namespace function_abi_v1
#pragma GCC visibility pop
}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_REPLY_H_
