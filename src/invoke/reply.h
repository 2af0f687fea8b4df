// The answer of a function that answers later.
//
// Included by function.h, and of no use without it.

#ifndef INVOKER_SRC_INVOKE_REPLY_H_
#define INVOKER_SRC_INVOKE_REPLY_H_

#include <atomic>
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
// the call, too, and an answer after that has no effect. Threads may answer at the same time: one
// of them does, and the others get false.
template <typename R>
class Reply {
 public:
  // Takes the call from the function that defers it.
  explicit Reply(invoker_call* call) : call_(call) {}
  Reply(Reply&& other) noexcept : call_(other.Take()) {}
  Reply& operator=(Reply&& other) noexcept {
    other.call_ = call_.exchange(other.Take());
    return *this;
  }
  ~Reply() { Fail("the function has dropped the reply without an answer"); }

  // Answers, on any thread and without blocking; views among the arguments end. `reply(value)`, or
  // `reply()` for void. False, and nothing happens, if there has been an answer already.
  template <typename... Value>
  bool operator()(const Value&... value) {
    invoker_call* const call = Take();
    if (call == nullptr) return false;
    std::int64_t written = 0;
    if constexpr (sizeof...(Value) != 0) {
      try {
        written = function_internal::WriteResult<R>(value..., call);
      } catch (...) {
        call_ = call;  // still to be answered
        throw;
      }
    }
    call->services->complete(call, written);
    return true;
  }

  // The call fails, with this message and perhaps a code of the application's own (CallError).
  bool Fail(std::string_view message, std::int32_t code = INVOKER_FAILED) {
    invoker_call* const call = Take();
    if (call == nullptr) return false;
    function_internal::SetError(call, message);
    call->services->complete(call, code < 0 ? code : INVOKER_FAILED);
    return true;
  }

  // On any thread, until an answer begins.
  Context context() const { return Context(call_); }
  bool cancelled() const {
    const invoker_call* const call = call_;
    return call == nullptr || INVOKER_CALL_CANCELLED(call);
  }

 private:
  invoker_call* Take() { return call_.exchange(nullptr); }

  std::atomic<invoker_call*> call_;  // nullptr: there has been an answer
};

}  // namespace function_abi_v1
#pragma GCC visibility pop
}  // namespace invoker

#endif  // INVOKER_SRC_INVOKE_REPLY_H_
