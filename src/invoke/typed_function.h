// Runs functions with typed parameters and results: the part of INVOKER_FUNCTION (function.h) that
// reads arguments out of a request, and writes a result into the room for the response.
//
// Included by function.h, and of no use without it.

#ifndef INVOKER_SRC_INVOKE_TYPED_FUNCTION_H_
#define INVOKER_SRC_INVOKE_TYPED_FUNCTION_H_

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "invoker/context.h"
#include "invoker/function_abi.h"
#include "invoker/reply.h"
#include "invoker/values.h"
#include "invoker/write_result.h"

namespace invoker {
#pragma GCC visibility push(hidden)
inline namespace function_abi_v1 {

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

// Finds what the references among a call's arguments stand for, and says what was wrong.
class ReferredData {
 public:
  explicit ReferredData(const invoker_call* call) : call_(call) {}

  // ValueReader::FindReferred.
  static bool Find(void* context, const std::byte* reference, const std::string& type,
                   ValueReader* found) {
    return static_cast<ReferredData*>(context)->Find(reference, type, found);
  }
  // Empty: no reference was wrong.
  const std::string& problem() const { return problem_; }

 private:
  bool Find(const std::byte* reference, const std::string& type, ValueReader* found) {
    static_assert(kReferenceBytes == INVOKER_REFERENCE_BYTES);
    invoker_stored_data data = {};
    data.struct_size = sizeof(data);
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(reference);
    if (call_->services == nullptr || call_->services->find_data(call_, bytes, &data) != 0) {
      problem_ =
          "its reference is to no data of this executor: it has been freed, or is of another "
          "lease";
      return false;
    }
    if (type != data.type) {
      problem_ =
          std::string("its reference is to data of type ") + data.type + ", and it is " + type;
      return false;
    }
    *found = ValueReader(data.data, static_cast<std::size_t>(data.size));
    return true;
  }

  const invoker_call* call_;
  std::string problem_;
};

// The parameters of a function that its caller gives, and how to call it with them.
template <typename R, bool kTakesContext, typename... Parameters>
struct Typed {
  using Result = values_internal::Traveling<R>;
  using Arguments = std::tuple<values_internal::Traveling<Parameters>...>;

  static std::string Signature() { return values_internal::SignatureOf<Result, Arguments>(); }

  template <typename Body>
  static std::int64_t Call(const Body& body, invoker_call* call) {
    Arguments arguments;
    if (!Read(call, &arguments)) return INVOKER_FAILED;
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
      return WriteResult<Result>(std::apply(run, arguments), call);
    }
  }

  // Sets the error if the request is no such arguments.
  static bool Read(invoker_call* call, Arguments* arguments) {
    return Read(call, arguments, std::index_sequence_for<Parameters...>());
  }

 private:
  template <std::size_t... I>
  static bool Read(invoker_call* call, [[maybe_unused]] Arguments* arguments,
                   std::index_sequence<I...>) {
    ReferredData referred(call);
    ValueReader reader(call->input, call->input_size, &ReferredData::Find, &referred);
    const bool all =
        (true && ... &&
         (Value<std::tuple_element_t<I, Arguments>>::Read(&reader, &std::get<I>(*arguments)) ||
          Refuse<std::tuple_element_t<I, Arguments>>(call, referred, I)));
    if (!all) return false;
    return reader.left() == 0 || RefuseRest(call, reader.left());
  }
  // Not in the way of calls that are well: their code stays together in the processor's cache.
  template <typename T>
  [[gnu::cold, gnu::noinline]] static bool Refuse(invoker_call* call, const ReferredData& referred,
                                                  std::size_t index) {
    const std::string argument = "argument " + std::to_string(index + 1);
    if (!referred.problem().empty()) {
      SetError(call, argument + ": " + referred.problem());
    } else {
      SetError(call, argument + " is no " + Value<T>::Name() +
                         ", or is cut short: the function is " + Signature() +
                         ", and the request has " + std::to_string(call->input_size) + " bytes");
    }
    return false;
  }
  [[gnu::cold, gnu::noinline]] static bool RefuseRest(invoker_call* call, std::size_t left) {
    SetError(call, "the request has " + std::to_string(left) +
                       " bytes more than the arguments of " + Signature());
    return false;
  }
};

// The same where the answer comes later.
template <typename R, typename... Parameters>
struct TypedLater {
  using Now = Typed<R, false, Parameters...>;

  static std::string Signature() { return Now::Signature(); }

  template <typename Body>
  static std::int64_t Call(const Body& body, invoker_call* call) {
    if (call->services == nullptr) {
      SetError(call, "a function that answers later needs a worker to call it");
      return INVOKER_FAILED;
    }
    invoker_call* const deferred = call->services->defer(call);
    if (deferred == nullptr) return INVOKER_NO_ROOM;
    Reply<R> reply(deferred);
    typename Now::Arguments arguments;
    if (Now::Read(deferred, &arguments)) {
      const auto run = [&](auto&... argument) {
        body(std::move(reply), static_cast<Parameters&&>(argument)...);
      };
      std::apply(run, arguments);
    } else {
      reply.Fail(std::string(deferred->error));
    }
    return INVOKER_DEFERRED;
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
struct TypedOf<void(Reply<R>, Parameters...)> : TypedLater<R, Parameters...> {};
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
